// Chains on logits that are made up, with a real vocabulary.

#include "engine/llama/sampler_chain.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "engine/sampler_order.h"
#include "testing/models/test_model.h"

namespace kvkeep::engine::llama {
namespace {

using enum SamplerStep;
using Tokens = std::vector<TokenId>;

// The logit of token 100, 101 and so on; all others are out of the question.
using Logits = std::vector<float>;
constexpr TokenId kFirstDrawn = 100;

TokenId draw_from(llama_sampler& chain, const Logits& logits) {
  std::vector<llama_token_data> candidates;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    candidates.push_back({.id = kFirstDrawn + static_cast<TokenId>(i), .logit = logits[i], .p = 0.0F});
  }
  llama_token_data_array array{.data = candidates.data(), .size = candidates.size(), .selected = -1, .sorted = false};
  llama_sampler_apply(&chain, &array);
  return array.data[array.selected].id;
}

class SamplerChainTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { engine_ = load_or_die(tiny_options()); }
  static void TearDownTestSuite() { engine_.reset(); }

  static const llama_vocab& vocabulary() { return *llama_model_get_vocab(llama_get_model(&engine_->context())); }
  // Only the steps that are named, with a fixed seed.
  static SamplingParams params(SamplerOrder order) {
    SamplingParams params;
    params.samplers = std::move(order);
    params.seed = 5;
    return params;
  }
  static SamplingParams greedy(SamplerOrder order) {
    SamplingParams made = params(std::move(order));
    made.temperature = 0;
    return made;
  }
  // Draws `count` tokens from the same logits after `accepted`; drawn ones are not accepted.
  Tokens draw(const SamplingParams& params, const Logits& logits, const Tokens& accepted = {}, std::size_t count = 1) {
    auto chain = chains_.make(params);
    EXPECT_TRUE(chain.ok()) << (chain.ok() ? "" : chain.error().message);
    for (const TokenId token : accepted) llama_sampler_accept(chain->get(), token);
    Tokens tokens;
    while (tokens.size() < count) tokens.push_back(draw_from(**chain, logits));
    return tokens;
  }
  std::set<TokenId> drawn(const SamplingParams& params, const Logits& logits, const Tokens& accepted = {}) {
    const Tokens tokens = draw(params, logits, accepted, 300);
    return {tokens.begin(), tokens.end()};
  }
  std::string refusal(const SamplingParams& params) {
    const auto chain = chains_.make(params);
    return chain.ok() ? "" : chain.error().message;
  }

  static std::unique_ptr<LlamaEngine> engine_;
  SamplerChains chains_{vocabulary(), 1024};
};
std::unique_ptr<LlamaEngine> SamplerChainTest::engine_;

TEST_F(SamplerChainTest, StepsWorkInTheirOrder) {
  const Logits logits = {5, 4, 1};
  SamplingParams first = greedy({kPenalties, kTopK, kTemperature});
  first.presence_penalty = 10;
  first.top_k = 1;
  SamplingParams later = first;
  later.samplers = {kTopK, kPenalties, kTemperature};
  EXPECT_EQ(draw(first, logits, {100}), Tokens{101});
  EXPECT_EQ(draw(later, logits, {100}), Tokens{100}) << "no other token is left to be preferred";
}

TEST_F(SamplerChainTest, StepsThatAreNotNamedDoNothing) {
  const Logits level = {1, 1, 1};
  EXPECT_EQ(drawn(greedy({}), level), (std::set<TokenId>{100, 101, 102})) << "not even the temperature";
  SamplingParams narrow = params({kTemperature});
  narrow.top_k = 1;
  narrow.xtc_probability = 1;
  EXPECT_EQ(drawn(narrow, level).size(), 3U);
  narrow.samplers = {kTopK};
  EXPECT_EQ(drawn(narrow, level).size(), 1U);
  SamplingParams twice = params({kTemperature, kTopP, kTemperature});
  twice.temperature = 0.1F;
  twice.top_p = 0.5F;
  EXPECT_EQ(drawn(twice, {2, 1.5, 1}), std::set<TokenId>{100});
}

TEST_F(SamplerChainTest, EachNarrowingStepLeavesWhatItShould) {
  const Logits logits = {5, 4.9F, 4.8F, 1};
  SamplingParams sigma = params({kTopNSigma});
  sigma.top_n_sigma = 0.5F;
  EXPECT_EQ(drawn(sigma, logits), (std::set<TokenId>{100, 101, 102}));
  SamplingParams typical = params({kTypicalP});
  typical.typical_p = 0.3F;
  EXPECT_LT(drawn(typical, logits).size(), 4U);
  SamplingParams excluded = params({kXtc});
  excluded.xtc_probability = 1;
  EXPECT_EQ(drawn(excluded, logits), (std::set<TokenId>{102, 103})) << "of the three above the threshold one stays";
  excluded.xtc_threshold = 0.6F;
  EXPECT_EQ(drawn(excluded, logits).size(), 4U);
  SamplingParams kept = params({kTopP});
  kept.top_p = 0.01F;
  EXPECT_EQ(drawn(kept, logits).size(), 1U);
  kept.min_keep = 3;
  EXPECT_EQ(drawn(kept, logits).size(), 3U);
}

TEST_F(SamplerChainTest, TheTemperatureMayFollowTheEntropy) {
  const Logits logits = {3, 2, 1};
  SamplingParams dynamic = greedy({kTemperature});
  EXPECT_EQ(drawn(dynamic, logits).size(), 1U);
  dynamic.dynatemp_range = 2;
  EXPECT_EQ(drawn(dynamic, logits).size(), 3U) << "up to 2";
}

TEST_F(SamplerChainTest, WithoutATemperatureOnlyStepsThatMayRemoveTheLikeliestMatter) {
  const Logits logits = {5, 4.9F, 1};
  EXPECT_EQ(draw(greedy(default_sampler_order()), logits), Tokens{100});
  SamplingParams excluded = greedy(default_sampler_order());
  excluded.xtc_probability = 1;
  EXPECT_EQ(draw(excluded, logits), Tokens{101});
  SamplingParams penalized = greedy({kDry, kPenalties, kTopK, kTemperature});
  penalized.frequency_penalty = 1;
  EXPECT_EQ(draw(penalized, logits, {100}), Tokens{101});
  SamplingParams after = greedy({kTemperature, kPenalties});
  after.frequency_penalty = 1;
  EXPECT_EQ(draw(after, logits, {100}), Tokens{100}) << "the choice is made by then";
}

TEST_F(SamplerChainTest, DryTurnsAwayFromRepeatedSequences) {
  const Logits logits = {5, 4, 3, 2};
  const Tokens repeated = {101, 102, 103, 100, 200, 101, 102, 103};
  SamplingParams dry = greedy({kDry, kTemperature});
  EXPECT_EQ(draw(dry, logits, repeated), Tokens{100});
  dry.dry_multiplier = 5;
  EXPECT_EQ(draw(dry, logits, repeated), Tokens{101});
  dry.dry_allowed_length = 4;
  EXPECT_EQ(draw(dry, logits, repeated), Tokens{100});
  dry.dry_allowed_length = 2;
  dry.dry_penalty_last_n = 6;
  EXPECT_EQ(draw(dry, logits, repeated), Tokens{100}) << "the first one lies too far back";
  dry.dry_penalty_last_n = -1;
  EXPECT_EQ(draw(dry, logits, repeated), Tokens{101});
  const std::string piece = engine_->vocabulary()->piece(103, true);
  dry.dry_breakers = {piece};
  EXPECT_EQ(draw(dry, logits, repeated), Tokens{100}) << "no sequence extends over " << piece;
}

// Chains share how a DRY step was learnt, and nothing of what it saw.
TEST_F(SamplerChainTest, AStepIsNotRememberedWithItsTokens) {
  const Logits logits = {5, 4, 3, 2};
  SamplingParams dry = greedy({kDry, kTemperature});
  dry.dry_multiplier = 5;
  EXPECT_EQ(draw(dry, logits, {101, 102, 103, 100, 200, 101, 102, 103}), Tokens{101});
  EXPECT_EQ(draw(dry, logits, {200}), Tokens{100});
  for (int length = 1; length < 20; ++length) {  // more than are kept
    dry.dry_allowed_length = length;
    EXPECT_EQ(draw(dry, logits, {101, 102, 103, 100, 200, 101, 102, 103}), Tokens{length > 3 ? 100 : 101}) << length;
  }
}

TEST_F(SamplerChainTest, MirostatReplacesAllButTheTemperature) {
  const Logits logits = {5, 4.5F, 4, 3.5F, 3, 2, 1};
  for (const int version : {1, 2}) {
    SamplingParams mirostat = params({kTopK});
    mirostat.top_k = 1;
    mirostat.mirostat = version;
    EXPECT_GT(drawn(mirostat, logits).size(), 2U) << "top-k does not work";
    EXPECT_EQ(draw(mirostat, logits, {}, 50), draw(mirostat, logits, {}, 50));
    mirostat.temperature = 0;
    EXPECT_EQ(drawn(mirostat, logits), std::set<TokenId>{100});
  }
}

TEST_F(SamplerChainTest, AdaptivePPrefersTokensOfAProbability) {
  const Logits logits = {4, 2.8F, 0, -2};  // 0.76, 0.23, 0.01, 0.002
  const auto count = [&](float target, TokenId token) {
    SamplingParams adaptive = params({kAdaptiveP, kTemperature});
    adaptive.temperature = 1;
    adaptive.adaptive_target = target;
    adaptive.adaptive_decay = 0;
    return std::ranges::count(draw(adaptive, logits, {}, 300), token);
  };
  EXPECT_GT(count(0.2F, 101), 2 * count(-1, 101));
  EXPECT_GT(count(-1, 100), 180) << "a plain draw";
}

TEST_F(SamplerChainTest, EqualSeedsDrawEqualTokens) {
  const Logits logits = {3, 2.9F, 2.8F, 2.7F, 2.6F};
  SamplingParams all = params({kXtc, kTypicalP, kTemperature});
  all.xtc_probability = 0.5F;
  const Tokens tokens = draw(all, logits, {}, 50);
  EXPECT_EQ(draw(all, logits, {}, 50), tokens);
  all.seed = 6;
  EXPECT_NE(draw(all, logits, {}, 50), tokens);
}

TEST_F(SamplerChainTest, InfillNeedsFewTokens) {
  SamplingParams infill = params({kTopK, kInfill});
  EXPECT_EQ(refusal(infill), "");
  const std::string needs = "the sampler 'infill' needs 'top_k' before it, with a top_k of 1 to 1000";
  for (const int wrong : {0, -1, 1001}) {
    infill.top_k = wrong;
    EXPECT_EQ(refusal(infill), needs);
  }
  EXPECT_EQ(refusal(params({kInfill, kTopK})), needs);
  EXPECT_EQ(refusal(params({kInfill})), needs);
}

TEST_F(SamplerChainTest, SettingsOutOfRangeAreRefused) {
  SamplingParams wrong;
  wrong.mirostat = 3;
  EXPECT_EQ(refusal(wrong), "mirostat must be between 0 and 2, not 3");
  wrong = {};
  wrong.dry_breakers = {""};
  EXPECT_NE(refusal(wrong), "");
  wrong = {};
  wrong.samplers.assign(33, kTopK);
  EXPECT_NE(refusal(wrong), "");
}

}  // namespace
}  // namespace kvkeep::engine::llama
