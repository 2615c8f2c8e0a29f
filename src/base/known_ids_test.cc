
#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "base/media_ids.h"

namespace kvkeep {
namespace {

constexpr std::size_t kSize = 100;

std::vector<TokenId> joined(std::initializer_list<std::vector<TokenId>> parts) {
  std::vector<TokenId> all;
  for (const auto& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

std::vector<TokenId> chunk(std::uint32_t number, std::uint32_t size) {
  return media_ids({}, number, {.embeddings = size, .positions = size});
}

TEST(KnownIdsTest, TokensAreThoseOfTheVocabulary) {
  EXPECT_TRUE(are_tokens({}, kSize));
  EXPECT_TRUE(are_tokens(std::vector<TokenId>{0, 99, 5}, kSize));
  for (const TokenId id : {-1, 100, std::numeric_limits<TokenId>::max(), std::numeric_limits<TokenId>::min()}) {
    EXPECT_FALSE(are_tokens(std::vector<TokenId>{0, id, 5}, kSize)) << id;
    EXPECT_FALSE(are_segment_ids(std::vector<TokenId>{0, id, 5}, kSize)) << id;
  }
  EXPECT_TRUE(are_tokens(std::vector<TokenId>{std::numeric_limits<TokenId>::max()}, kAnyVocabulary));
  EXPECT_FALSE(are_tokens(std::vector<TokenId>{-1}, kAnyVocabulary));
}

TEST(KnownIdsTest, ASegmentMayHaveChunksOrPartsOfThemAtItsEnds) {
  const auto all = joined({{1, 2}, chunk(0, 20), {3}, chunk(1, 8), chunk(2, 7), {4, 99}});
  for (std::size_t begin = 0; begin < all.size(); ++begin) {
    for (std::size_t end = begin; end <= all.size(); ++end) {
      EXPECT_TRUE(are_segment_ids(TokenSpan(all).subspan(begin, end - begin), kSize)) << begin << " " << end;
    }
  }
  EXPECT_FALSE(are_tokens(all, kSize));
}

TEST(KnownIdsTest, ARunThatIsNoChunkIsRefused) {
  auto short_run = chunk(0, 20);
  short_run.resize(19);
  EXPECT_FALSE(are_segment_ids(joined({{1}, short_run, {2}}), kSize)) << "it ends early";
  const auto chunk_of_ten = chunk(0, 10);
  EXPECT_FALSE(are_segment_ids(joined({{1}, {chunk_of_ten.begin() + 1, chunk_of_ten.end()}, {2}}), kSize))
      << "it lacks its beginning in the middle of a segment";
  EXPECT_FALSE(are_segment_ids(joined({chunk(0, 10), {100}}), kSize)) << "another vocabulary's, after a chunk";
}

}  // namespace
}  // namespace kvkeep
