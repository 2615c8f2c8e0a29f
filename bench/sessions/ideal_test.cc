#include "bench/sessions/ideal.h"

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

// A token per byte.
std::vector<TokenId> bytes(std::string_view text) { return {text.begin(), text.end()}; }

CanonicalTexts both(const std::string& text) { return {text, text}; }

class IdealTest : public testing::Test {
 protected:
  std::uint64_t ideal(const CanonicalTexts& texts, std::uint64_t prompt_tokens) {
    return counter_.take_prompt(texts, prompt_tokens, bytes).tokens;
  }
  IdealCounter counter_;
};

TEST_F(IdealTest, IsTheTextAfterThePromptsThatWereCounted) {
  EXPECT_EQ(ideal(both("abcdefgh"), 100), 100U);
  EXPECT_EQ(ideal(both("abcdefgh"), 100), 0U) << "the same again";
  // By shares of the text it would be 2 of 10 of 190: the count for the first eight is known better.
  EXPECT_EQ(ideal(both("abcdefghij"), 190), 90U);
  EXPECT_EQ(ideal(both("abcdefghijkl"), 200), 10U);
  EXPECT_EQ(ideal(both(""), 100), 0U);
  EXPECT_EQ(ideal(both("zzz"), 0), 0U) << "the server does not say";
  EXPECT_EQ(ideal(both("zzzz"), 40), 10U) << "but it was decoded";
}

TEST_F(IdealTest, IsInterpolatedBetweenCounts) {
  EXPECT_EQ(ideal(both("abcdefgh"), 100), 100U);
  EXPECT_EQ(ideal(both("abXdefgh"), 100), 75U) << "all behind the first difference";
  EXPECT_EQ(ideal(both("abcdefghijkl"), 140), 40U);
  EXPECT_EQ(ideal(both("abcdefghijXY"), 180), 40U) << "half of what is behind the last count";
}

TEST_F(IdealTest, TakesTheOrderThatSharesMore) {
  EXPECT_EQ(ideal({"toolsSYSTEM", "SYSTEMtools"}, 11), 11U);
  EXPECT_EQ(ideal({"tolosSYSTEM", "SYSTEMtolos"}, 11), 3U) << "behind SYSTEMto";
  EXPECT_EQ(ideal({"toolsSYMTES", "SYMTEStools"}, 11), 4U) << "behind toolsSY";
}

TEST_F(IdealTest, CountsRepliesAsDecoded) {
  EXPECT_EQ(ideal(both("ask:"), 8), 8U);
  counter_.take_decoded(both("ask:answer"), 17, bytes);
  EXPECT_EQ(ideal(both("ask:answer:more"), 30), 13U);
}

TEST_F(IdealTest, FindsWhatIsSharedWhereATokenizerWouldJoin) {
  // Two bytes per token: a boundary at an odd place would hide it.
  const Tokenize pairs = [](std::string_view text) {
    std::vector<TokenId> ids;
    for (std::size_t i = 0; i < text.size(); i += 2) {
      ids.push_back(text[i] * 256 + (i + 1 < text.size() ? text[i + 1] : 0));
    }
    return ids;
  };
  EXPECT_EQ(counter_.take_prompt(both("%text\nodd\n"), 100, pairs).tokens, 100U);
  EXPECT_EQ(counter_.take_prompt(both("%text\nodd\n%text\nmore\n"), 130, pairs).tokens, 30U);
}

TEST_F(IdealTest, KnowsHowFarItMayBeOff) {
  EXPECT_EQ(counter_.take_prompt(both(std::string(800, 'a')), 800, bytes).uncertainty, 0U) << "all is new";
  const IdealEstimate goes_on = counter_.take_prompt(both(std::string(800, 'a') + "bcd"), 900, bytes);
  EXPECT_EQ(goes_on.tokens, 100U);
  EXPECT_EQ(goes_on.uncertainty, 8U) << "the boundary alone";
  // 400 known tokens and 400 new ones: if the one part is denser, the other is thinner.
  const IdealEstimate leaves = counter_.take_prompt(both(std::string(400, 'a') + std::string(400, 'b')), 800, bytes);
  EXPECT_EQ(leaves.tokens, 400U);
  EXPECT_EQ(leaves.uncertainty, 8U + 400 / 8);
  IdealCounter rough(0.5);
  rough.take_prompt(both(std::string(800, 'a')), 800, bytes);
  EXPECT_EQ(rough.take_prompt(both(std::string(400, 'a') + std::string(400, 'b')), 800, bytes).uncertainty, 108U);
}

// A template may keep the reasoning of earlier turns or not; both are possible.
TEST_F(IdealTest, SeesWhatIsSharedWithoutReasoning) {
  const std::string ask = "%message user\n%text\nask\n%end\n%message assistant\n";
  const std::string answer = "%text\nanswer\n%end\n%message user\n%text\n" + std::string(200, 'q');
  EXPECT_EQ(ideal(both(ask + "%reasoning\nfirst " + std::string(100, 'x') + "\n" + answer), 400), 400U);
  const IdealEstimate other =
      counter_.take_prompt(both(ask + "%reasoning\nother " + std::string(100, 'x') + "\n" + answer), 400, bytes);
  EXPECT_EQ(other.tokens, 0U);
  EXPECT_GT(other.uncertainty, 250U) << "a template that keeps it shares nothing behind it";
}

TEST_F(IdealTest, RepliesThatBeginWithReasoningAreLostWithIt) {
  const std::string ask = "%message user\n%text\nask\n%end\n%message assistant\n";
  const std::string answer = "%text\nanswer\n%end\n";
  EXPECT_EQ(ideal(both(ask), 100), 100U);
  counter_.take_decoded(both(ask + "%reasoning\n" + std::string(400, 'x') + "\n" + answer), 509, bytes);
  EXPECT_NEAR(static_cast<double>(ideal(both(ask + answer), 130)), 30, 8) << "sent back without reasoning";
}

TEST_F(IdealTest, RewritableTextBeginsWithTheFirstReasoning) {
  const std::string plain = "%message user\n%text\nask\n%end\n";
  EXPECT_EQ(counter_.take_prompt(both(plain), 30, bytes).rewritable, 0U);
  const std::string reasoned = plain + "%message assistant\n%reasoning\nhm\n%text\nso\n%end\n";
  const std::uint64_t rewritable = counter_.take_prompt(both(reasoned), reasoned.size(), bytes).rewritable;
  const std::size_t behind = reasoned.size() - reasoned.find("%reasoning");
  EXPECT_GE(rewritable, behind);
  EXPECT_LE(rewritable, behind * 5 / 4 + 9) << "a quarter more, as densities differ";
}

TEST(PseudoTokens, AreFourBytesEach) {
  EXPECT_EQ(pseudo_tokens("").size(), 0U);
  EXPECT_EQ(pseudo_tokens("abcde").size(), 2U);
  EXPECT_EQ(pseudo_tokens("abcdx")[0], pseudo_tokens("abcdy")[0]);
  EXPECT_NE(pseudo_tokens("abcd"), pseudo_tokens("abce"));
}

}  // namespace

}  // namespace kvkeep::bench
