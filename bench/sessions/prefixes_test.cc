#include "bench/sessions/prefixes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <set>

#include "base/test_seed.h"

namespace kvkeep::bench {
namespace {

using Ids = std::vector<TokenId>;

// The same by definition: keeps every prefix whole.
class NaivePrefixes {
 public:
  std::size_t never_decoded(const Ids& prompt) const {
    std::size_t count = 0;
    for (std::size_t end = 1; end <= prompt.size(); ++end) count += seen_.count(beginning(prompt, end)) == 0 ? 1 : 0;
    return count;
  }
  std::size_t add(const Ids& ids) {
    std::size_t count = 0;
    for (std::size_t end = 1; end <= ids.size(); ++end) count += seen_.insert(beginning(ids, end)).second ? 1 : 0;
    return count;
  }

 private:
  static Ids beginning(const Ids& ids, std::size_t end) { return {ids.begin(), ids.begin() + static_cast<long>(end)}; }
  std::set<Ids> seen_;
};

// All sequences over three ids with at most `length` of them, including the empty one.
std::vector<Ids> all_sequences(std::size_t length) {
  std::vector<Ids> all = {{}};
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].size() == length) continue;
    for (const TokenId id : {0, 1, std::numeric_limits<TokenId>::max()}) {
      Ids longer = all[i];
      longer.push_back(id);
      all.push_back(std::move(longer));
    }
  }
  return all;
}

TEST(DecodedPrefixes, EveryPairOfShortSequencesAsByDefinition) {
  const std::vector<Ids> all = all_sequences(4);
  ASSERT_EQ(all.size(), 1u + 3 + 9 + 27 + 81);
  for (const Ids& first : all) {
    for (const Ids& second : all) {
      DecodedPrefixes prefixes;
      NaivePrefixes naive;
      ASSERT_EQ(prefixes.add(first), naive.add(first));
      ASSERT_EQ(prefixes.never_decoded(second), naive.never_decoded(second));
      ASSERT_EQ(prefixes.add(second), naive.add(second));
      ASSERT_EQ(prefixes.never_decoded(second), 0u);
    }
  }
}

TEST(DecodedPrefixes, ManySequencesInAnyOrderAsByDefinition) {
  std::mt19937_64 random(test_seed());
  std::vector<Ids> all = all_sequences(6);
  for (int round = 0; round < 20; ++round) {
    std::ranges::shuffle(all, random);
    DecodedPrefixes prefixes;
    NaivePrefixes naive;
    for (const Ids& ids : all) {
      ASSERT_EQ(prefixes.never_decoded(ids), naive.never_decoded(ids));
      ASSERT_EQ(prefixes.add(ids), naive.add(ids));
    }
  }
}

TEST(DecodedPrefixes, AskingAddsNothing) {
  DecodedPrefixes prefixes;
  const Ids ids = {1, 2, 3};
  EXPECT_EQ(prefixes.never_decoded(ids), 3u);
  EXPECT_EQ(prefixes.never_decoded(ids), 3u);
}

// Weak mixing would show here: regular ids, prefixes that differ in one place only.
TEST(DecodedPrefixes, RegularSequencesDoNotCollide) {
  constexpr std::size_t kLength = 100'000;
  DecodedPrefixes prefixes;
  EXPECT_EQ(prefixes.add(Ids(kLength, 0)), kLength);
  EXPECT_EQ(prefixes.add(Ids(kLength, 1)), kLength);
  for (const std::size_t changed : {0u, 1u, 50'000u, 99'999u}) {
    Ids ids(kLength, 0);
    ids[changed] = 2;
    EXPECT_EQ(prefixes.never_decoded(ids), kLength - changed);
    EXPECT_EQ(prefixes.add(ids), kLength - changed);
  }
  Ids counting(kLength);
  for (std::size_t i = 0; i < kLength; ++i) counting[i] = static_cast<TokenId>(i + 3);
  EXPECT_EQ(prefixes.add(counting), kLength);
}

}  // namespace
}  // namespace kvkeep::bench
