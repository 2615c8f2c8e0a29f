// Pictures and sounds are runs of ids like others to everything that keeps and finds prefixes: they come back from each
// tier, and another picture shares nothing with them.

#include "base/media_ids.h"
#include "cache/cache_test_fixture.h"

namespace kvkeep::cache {
namespace {

Tokens picture(std::uint8_t file, const ChunkShape& shape, std::uint32_t index = 0) {
  MediaHash hash;
  hash.bytes[31] = file;
  return media_ids(hash, index, shape);
}

const std::vector<ChunkShape> kShapes{{1, 1, false}, {4, 2, true}, {5, 5, false}, {40, 40, false}, {3'000, 60, true}};

Tokens prompt_with(const Tokens& media) { return conversation(10, 29) + media + conversation(90, 50); }

class MediaCacheTest : public ::testing::TestWithParam<ModelClass> {};

TEST_P(MediaCacheTest, ComesBackFromEachTier) {
  for (const ChunkShape& shape : kShapes) {
    World world(mebibytes(8));
    world.model = GetParam();
    ASSERT_TRUE(world.open());
    const Tokens prompt = prompt_with(picture(1, shape) + picture(1, shape, 1));
    ASSERT_TRUE(world.keep(prompt, 1'000)) << "segments end inside chunks";
    EXPECT_EQ(world.check(prompt), prompt.size());
    world.writer.run_all();
    world.cache->flush();
    world.die();
    world.files.power_cut();
    ASSERT_TRUE(world.open());
    EXPECT_EQ(world.check(prompt), prompt.size()) << shape.embeddings << " embeddings";
    if (!world.model.shape.needs_points()) continue;
    const std::vector<std::size_t> restorable = world.restorable(prompt);
    ASSERT_FALSE(restorable.empty());
    EXPECT_EQ(restorable.back(), prompt.size()) << shape.embeddings << " embeddings";
  }
}

TEST_P(MediaCacheTest, AnotherPictureOfTheSameSizeSharesOnlyWhatIsBeforeIt) {
  for (const ChunkShape& shape : kShapes) {
    World world(mebibytes(8));
    world.model = GetParam();
    ASSERT_TRUE(world.open());
    world.keep(prompt_with(picture(1, shape)), 1'000);
    EXPECT_EQ(world.check(prompt_with(picture(2, shape))), 29U) << shape.embeddings << " embeddings";
    EXPECT_EQ(world.check(prompt_with(picture(1, shape, 1))), 29U) << "another chunk of the same file";
  }
}

// What a prompt shares with a known one may end where the known one was cut, but a sequence may not.
TEST_P(MediaCacheTest, AMatchThatEndsInsideAChunkCountsUpToItsBeginning) {
  World world(mebibytes(8));
  world.model = GetParam();
  ASSERT_TRUE(world.open());
  const Tokens prompt = prompt_with(picture(1, {40, 40, false}));
  ASSERT_EQ(world.grow(head(prompt, 50), 50), 50U);
  const auto runs = media_runs(prompt);
  ASSERT_TRUE(runs.ok());
  EXPECT_EQ(world.check(prompt), 50U);
  EXPECT_EQ(media_floor(*runs, Position{} + world.check(prompt)), Position{29});
}

// Bytes are checked against the ids that they were made of, also beyond the part that a prompt shares.
TEST_P(MediaCacheTest, PiecesNameTheIdsOfAllThatTheyStore) {
  World world(mebibytes(8));
  world.model = GetParam();
  ASSERT_TRUE(world.open());
  const Tokens known = prompt_with(picture(1, {40, 40, false}));
  ASSERT_TRUE(world.keep(known, 1'000));
  const Tokens text = head(known, 20) + conversation(70, 30);
  const auto lease = world.cache->lease(text);
  ASSERT_GE(lease->end().value(), 20U);
  for (const RowPiece& piece : lease->pieces({Position{}, lease->end()})) {
    ASSERT_GE(piece.prompt.size(), piece.stored.end.value());
    EXPECT_TRUE(std::ranges::equal(piece.prompt.first(piece.stored.end.value()),
                                   TokenSpan(known).first(piece.stored.end.value())));
  }
  const Tokens other = conversation(10, 60);
  ASSERT_TRUE(world.keep(other, 1'000));
  for (const RowPiece& piece : world.cache->lease(other)->pieces({Position{}, Position{30}})) {
    EXPECT_TRUE(piece.prompt.empty() || piece.prompt.size() >= piece.stored.end.value());
  }
}

// After a restart a segment lies there whole, and the path of another prompt leaves it in its middle.
TEST_P(MediaCacheTest, PiecesInTheMiddleOfAPathNameTheIdsOfTheirOwnSegments) {
  World world(mebibytes(8));
  world.model = GetParam();
  ASSERT_TRUE(world.open());
  const Tokens known = prompt_with(picture(1, {40, 4, true}));
  const std::vector<Tokens> branches{head(known, 20) + picture(2, {7, 3, true}) + conversation(80, 60),
                                     head(known, 20) + conversation(70, 60)};
  ASSERT_TRUE(world.keep(known, 1'000));
  for (const Tokens& branch : branches) ASSERT_TRUE(world.keep(branch, 1'000));
  world.writer.run_all();
  world.cache->flush();
  world.die();
  ASSERT_TRUE(world.open());
  for (const Tokens& branch : branches) {
    EXPECT_EQ(world.check(branch), branch.size());
    const auto lease = world.cache->lease(branch);
    const auto pieces = lease->pieces({Position{}, lease->end()});
    ASSERT_GE(pieces.size(), 2U);
    ASSERT_EQ(pieces.front().wanted.end, Position{20});
    ASSERT_GT(pieces.front().stored.end, Position{20});
    for (const RowPiece& piece : pieces) {
      const std::size_t end = piece.stored.end.value();
      const TokenSpan own = TokenSpan(piece.wanted.end < piece.stored.end ? known : branch).first(end);
      if (piece.prompt.empty()) {
        EXPECT_TRUE(std::ranges::none_of(own, is_media_id)) << end;
        continue;
      }
      ASSERT_GE(piece.prompt.size(), end);
      EXPECT_TRUE(std::ranges::equal(piece.prompt.first(end), own)) << end;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Classes, MediaCacheTest, ::testing::ValuesIn(kClasses),
                         [](const auto& parameter) { return std::string(parameter.param.name); });

}  // namespace
}  // namespace kvkeep::cache
