#include "base/media_ids.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string_view>

namespace kvkeep {
namespace {

ByteSpan bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

MediaKey some_key() {
  MediaKey key;
  key.model.bytes[3] = 7;
  key.projector.bytes[5] = 9;
  key.least_tokens = 8;
  key.most_tokens = 4096;
  return key;
}

std::vector<ChunkShape> some_shapes() {
  std::vector<ChunkShape> shapes;
  for (std::uint32_t count = 1; count <= 12; ++count) {
    shapes.push_back({count, count, false});
    shapes.push_back({count, count, false, true});
    for (std::uint32_t positions = 1; positions <= count; ++positions) shapes.push_back({count, positions, true});
  }
  shapes.push_back({4096, 64, true});
  shapes.push_back({kMostChunkPositions >> 8, kMostChunkPositions >> 8, false});
  return shapes;
}

std::vector<TokenId> joined(std::vector<TokenId> left, const std::vector<TokenId>& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

TEST(MediaHashTest, EverythingThatDecidesEmbeddingsIsInTheName) {
  const MediaKey key = some_key();
  std::set<MediaHash> names{media_hash(key, bytes_of("picture"))};
  const auto expect_new = [&](const MediaKey& other, std::string_view file) {
    EXPECT_TRUE(names.insert(media_hash(other, bytes_of(file))).second);
  };
  expect_new(key, "picturf");
  expect_new(key, "");
  MediaKey other = key;
  other.model.bytes[31] ^= 1;
  expect_new(other, "picture");
  other = key;
  other.projector.bytes[0] ^= 1;
  expect_new(other, "picture");
  other = key;
  other.least_tokens = 9;
  expect_new(other, "picture");
  other = key;
  other.most_tokens = 9;
  expect_new(other, "picture");
  std::swap(other.least_tokens, other.most_tokens);
  expect_new(other, "picture");
  other = key;
  other.device = "CPU";
  expect_new(other, "picture");
  other.device = "GPU";
  expect_new(other, "picture");
  other.device = "CPUp";
  expect_new(other, "icture");
  EXPECT_EQ(media_hash(key, bytes_of("picture")), *names.find(media_hash(some_key(), bytes_of("picture"))));
}

TEST(MediaIds, AreFoundAgainWithTheirShape) {
  const MediaHash hash = media_hash(some_key(), bytes_of("x"));
  for (const ChunkShape& shape : some_shapes()) {
    const std::vector<TokenId> ids = media_ids(hash, 3, shape);
    EXPECT_EQ(ids.size(), std::max<std::size_t>(shape.embeddings, kLeastMediaIds));
    EXPECT_TRUE(std::ranges::all_of(ids, is_media_id));
    const std::vector<TokenId> prompt = joined(joined({5, 6}, ids), joined(ids, {7}));
    const auto runs = media_runs(prompt);
    ASSERT_TRUE(runs.ok()) << runs.error().message;
    ASSERT_EQ(runs->size(), 2U);
    const auto count = static_cast<std::uint32_t>(ids.size());
    EXPECT_EQ((*runs)[0], (MediaRun{{Position{2}, Position{2 + count}}, shape}));
    EXPECT_EQ((*runs)[1], (MediaRun{{Position{2 + count}, Position{2 + 2 * count}}, shape}));
  }
}

TEST(ModelPosition, IsLowerAfterMediaThatTakeFewer) {
  const MediaHash hash = media_hash(some_key(), bytes_of("x"));
  const std::vector<TokenId> prompt =
      joined(joined({1, 2}, media_ids(hash, 0, {40, 8, true})), joined(media_ids(hash, 1, {2, 2, false}), {3}));
  const auto runs = media_runs(prompt);
  ASSERT_TRUE(runs.ok() && prompt.size() == 49);
  const auto place = [&](std::uint32_t at) { return model_position(*runs, Position{at}).value(); };
  EXPECT_EQ(place(2), 2U);
  EXPECT_EQ(place(20), 2U) << "within the chunk in a plane";
  EXPECT_EQ(place(42), 10U);
  EXPECT_EQ(place(43), 11U);
  EXPECT_EQ(place(48), 12U) << "four ids of the short chunk only hold its name";
  EXPECT_EQ(place(49), 13U);
}

// However few embeddings a chunk has, its ids hold 150 bits: two names that differ in any of 128 of them differ here.
TEST(MediaIds, HoldTheWholeNameAlsoOfShortChunks) {
  for (const ChunkShape& shape : {ChunkShape{1, 1, false}, ChunkShape{4, 2, true}, ChunkShape{40, 40, false}}) {
    std::set<std::vector<TokenId>> seen;
    for (std::uint8_t i = 0; i < 128; ++i) {
      MediaHash hash;
      hash.bytes[i / 8] = static_cast<std::uint8_t>(1U << (i % 8));
      std::vector<TokenId> ids = media_ids(hash, 0, shape);
      EXPECT_TRUE(seen.insert(ids).second);
      // Five ids of 30 bits each are those of the name.
      std::set<TokenId> distinct(ids.begin(), ids.begin() + kLeastMediaIds);
      EXPECT_EQ(distinct.size(), kLeastMediaIds);
    }
    for (std::size_t at = 0; at < kLeastMediaIds; ++at) {
      std::set<TokenId> values;
      for (const std::vector<TokenId>& ids : seen) values.insert(ids[at]);
      EXPECT_EQ(values.size(), at == 1 ? 1U : seen.size()) << "id " << at;
    }
  }
}

TEST(MediaIds, DifferByIndexAndFromTheFirstIdOn) {
  const MediaHash hash = media_hash(some_key(), bytes_of("x"));
  const ChunkShape shape{16, 16, false};
  EXPECT_NE(media_ids(hash, 0, shape).front(), media_ids(hash, 1, shape).front());
  EXPECT_NE(media_ids(hash, 0, shape).front(), media_ids(hash, 0, {17, 17, false}).front());
  EXPECT_EQ(media_ids(hash, 2, shape), media_ids(hash, 2, shape));
}

TEST(MediaRuns, RefuseIdsThatNobodyMade) {
  const std::vector<TokenId> ids = media_ids(media_hash(some_key(), bytes_of("x")), 0, {1, 1, false});
  for (std::size_t left_out = 0; left_out < ids.size(); ++left_out) {
    std::vector<TokenId> torn = joined(ids, {7});
    torn.erase(torn.begin() + static_cast<std::ptrdiff_t>(left_out));
    EXPECT_FALSE(media_runs(torn).ok()) << left_out;
  }
  const std::vector<TokenId> one{1, -1, 2};
  EXPECT_FALSE(media_runs(one).ok());
  EXPECT_FALSE(media_runs(joined(ids, {ids[2]})).ok());
  EXPECT_TRUE(media_runs({}).ok());
}

TEST(MediaName, TellsPicturesFromSoundsAndFilesApart) {
  const MediaHash hash = media_hash(some_key(), bytes_of("x"));
  const std::vector<TokenId> picture = media_ids(hash, 0, {8, 3, true});
  const std::vector<TokenId> sound = media_ids(hash, 0, {8, 8, false, true});
  EXPECT_TRUE(media_name(picture).starts_with("picture ")) << media_name(picture);
  EXPECT_TRUE(media_name(media_ids(hash, 0, {1, 1})).starts_with("picture "));
  EXPECT_TRUE(media_name(sound).starts_with("sound ")) << media_name(sound);
  EXPECT_EQ(media_word(picture), "[" + media_name(picture) + "]");
  EXPECT_EQ(media_name(picture).size(), std::string("picture 1a2b3c4d").size());
  EXPECT_NE(media_name(picture), media_name(media_ids(hash, 1, {8, 3, true})));
  EXPECT_TRUE(media_name(TokenSpan(picture).first(1)).starts_with("media ")) << "its shape is cut off";
  EXPECT_TRUE(begins_media(picture[0]) && !begins_media(picture[1]) && !begins_media(7));
  // How much of the padding stands for bits of the name is no matter of the medium.
  for (std::uint32_t count = 1; count < 9; ++count) {
    const auto runs = media_runs(media_ids(hash, 0, {count, count, false, true}));
    ASSERT_TRUE(runs.ok()) << count;
    EXPECT_EQ(runs->front().shape, (ChunkShape{count, count, false, true}));
  }
}

TEST(MediaRuns, APromptMayEndInsideAChunk) {
  const MediaHash hash = media_hash(some_key(), bytes_of("x"));
  for (const ChunkShape& shape : some_shapes()) {
    const std::vector<TokenId> ids = media_ids(hash, 0, shape);
    for (std::uint32_t count = 1; count < std::min<std::size_t>(ids.size(), 20); ++count) {
      const auto runs = media_runs(TokenSpan(ids).first(count));
      ASSERT_TRUE(runs.ok()) << runs.error().message;
      ASSERT_EQ(runs->size(), 1U);
      EXPECT_EQ(runs->front().range.size(), count);
      EXPECT_EQ(runs->front().shape.embeddings, std::min(count, shape.embeddings));
      EXPECT_TRUE(count == 1 || runs->front().shape.plane == shape.plane);
    }
  }
}

TEST(MediaFloor, NoPrefixEndsInsideAChunk) {
  const MediaHash hash = media_hash(some_key(), bytes_of("x"));
  const std::vector<TokenId> two =
      joined(media_ids(hash, 0, {1, 1, false}), media_ids(hash, 1, {9, 3, true}));  // ids 6 and 9
  const std::vector<TokenId> prompt = joined(joined({1, 2}, two), {3, 4});
  const auto runs = media_runs(prompt);
  ASSERT_TRUE(runs.ok());
  for (std::uint32_t at = 0; at <= prompt.size(); ++at) {
    const std::uint32_t expected = at < 2 ? at : at < 8 ? 2 : at < 17 ? 8 : at;
    EXPECT_EQ(media_floor(*runs, Position{at}).value(), expected) << at;
  }
}

}  // namespace
}  // namespace kvkeep
