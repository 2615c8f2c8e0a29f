#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <map>
#include <thread>

#include "engine/llama/llama_vocabulary.h"
#include "testing/models/test_model.h"

namespace kvkeep::engine::llama {
namespace {

class LlamaVocabularyTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    auto loaded = LlamaVocabulary::load(tiny_model_path());
    ASSERT_TRUE(loaded.ok()) << loaded.error().message;
    vocabulary_ = std::move(loaded).value();
  }
  static void TearDownTestSuite() { vocabulary_.reset(); }
  static TokenId id_of(std::string_view spelling) {
    for (const SpecialToken& token : vocabulary_->special_tokens()) {
      if (token.spelling == spelling) return token.id;
    }
    ADD_FAILURE() << "no token " << spelling;
    return -1;
  }
  static std::unique_ptr<LlamaVocabulary> vocabulary_;
};
std::unique_ptr<LlamaVocabulary> LlamaVocabularyTest::vocabulary_;

TEST_F(LlamaVocabularyTest, TextRoundTrips) {
  for (const std::string text : {"Hello, world!", "  two  spaces\n\n\ttab", "int main() { return 0; }", "äöü € 日本 🙂",
                                 "", "a", "{\"key\": [1, 2, 3]}"}) {
    EXPECT_EQ(vocabulary_->text_of(vocabulary_->tokenize_text(text), false), text);
    EXPECT_EQ(vocabulary_->tokenize_continuation(text), vocabulary_->tokenize_text(text));
  }
}

TEST_F(LlamaVocabularyTest, ControlTokensComeOnlyFromSpecialParsing) {
  const TokenId marker = id_of("<|im_start|>");
  const auto plain = vocabulary_->tokenize("<|im_start|>user", {});
  const auto parsed = vocabulary_->tokenize("<|im_start|>user", {.add_special = false, .parse_special = true});
  EXPECT_EQ(std::ranges::count(plain, marker), 0);
  EXPECT_EQ(parsed.front(), marker);
  EXPECT_EQ(vocabulary_->text_of(plain, false), "<|im_start|>user");
  EXPECT_EQ(vocabulary_->text_of(parsed, false), "user");
  EXPECT_EQ(vocabulary_->text_of(parsed, true), "<|im_start|>user");
}

TEST_F(LlamaVocabularyTest, SpecialTokensAreListedWithTheirKind) {
  std::map<std::string, bool> control;
  for (const SpecialToken& token : vocabulary_->special_tokens()) control[token.spelling] = token.control;
  EXPECT_TRUE(control.at("<|im_start|>"));
  EXPECT_TRUE(control.at("<|im_end|>"));
  EXPECT_FALSE(control.at("<tool_call>"));
  EXPECT_FALSE(control.at("<think>"));
  EXPECT_EQ(control.count("the"), 0U);
}

TEST_F(LlamaVocabularyTest, NoTokenIsLongerThanTheLongest) {
  std::size_t longest = 0;
  for (TokenId id = 0; static_cast<std::size_t>(id) < vocabulary_->size(); ++id) {
    longest = std::max(longest, vocabulary_->piece(id, true).size());
  }
  EXPECT_EQ(vocabulary_->longest_piece_bytes(), longest);
  const std::string text = "<|im_start|>user\nthe quick brown fox<|im_end|>     ";
  EXPECT_LE(text.size(), longest * vocabulary_->tokenize(text, {.parse_special = true}).size());
}

TEST_F(LlamaVocabularyTest, KnowsWhereTextsBeginAndEnd) {
  ASSERT_TRUE(vocabulary_->eos().has_value());
  EXPECT_EQ(*vocabulary_->eos(), id_of("<|im_end|>"));
  EXPECT_TRUE(vocabulary_->is_end_of_generation(*vocabulary_->eos()));
  EXPECT_FALSE(vocabulary_->is_end_of_generation(id_of("<|im_start|>")));
  EXPECT_FALSE(vocabulary_->add_bos());
  EXPECT_TRUE(vocabulary_->bos().has_value());
  EXPECT_GT(vocabulary_->size(), 1000U);
}

TEST_F(LlamaVocabularyTest, ThreadsAgree) {
  const std::string text = "The quick brown fox jumps over the lazy dog. for (int i = 0; i < 10; ++i) {}";
  const auto expected = vocabulary_->tokenize_text(text);
  std::vector<std::thread> threads;
  std::atomic<int> differences = 0;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < 50; ++n) differences += vocabulary_->tokenize_text(text) != expected;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(differences, 0);
}

TEST(LlamaVocabularyLoadTest, MissingFile) { EXPECT_FALSE(LlamaVocabulary::load("/nowhere/model.gguf").ok()); }

class LlamaSamplerTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    engine_ = load_or_die(tiny_options());
    const auto prompt = make_prompt(50, 1);
    ASSERT_EQ(prefill(*engine_, SeqId{0}, prompt), DecodeStatus::kOk);
  }
  static void TearDownTestSuite() { engine_.reset(); }

  // Samples from the logits of the one prompt, again and again.
  static std::vector<TokenId> draw(const SamplingParams& params, std::size_t count = 20) {
    auto sampler = engine_->make_sampler(params);
    EXPECT_TRUE(sampler.ok());
    std::vector<TokenId> tokens;
    while (tokens.size() < count) tokens.push_back(engine_->sample(**sampler, 49));
    return tokens;
  }
  static TokenId likeliest() {
    const auto row = engine_->logits(49);
    return static_cast<TokenId>(std::ranges::max_element(row) - row.begin());
  }
  static SamplingParams wide(std::uint32_t seed) {
    SamplingParams params;
    params.temperature = 5.0F;
    params.top_k = 0;
    params.top_p = 1.0F;
    params.min_p = 0.0F;
    params.seed = seed;
    return params;
  }
  static std::unique_ptr<LlamaEngine> engine_;
};
std::unique_ptr<LlamaEngine> LlamaSamplerTest::engine_;

TEST_F(LlamaSamplerTest, NoTemperatureTakesTheLikeliest) {
  SamplingParams params = wide(1);
  params.temperature = 0.0F;
  EXPECT_EQ(draw(params), std::vector<TokenId>(20, likeliest()));
}

TEST_F(LlamaSamplerTest, SeedsRepeat) {
  EXPECT_EQ(draw(wide(7)), draw(wide(7)));
  EXPECT_NE(draw(wide(7)), draw(wide(8)));
}

TEST_F(LlamaSamplerTest, EveryCutNarrowsTheChoice) {
  const std::vector<TokenId> only(20, likeliest());
  SamplingParams params = wide(7);
  EXPECT_NE(draw(params), only);
  params.top_k = 1;
  EXPECT_EQ(draw(params), only);
  params = wide(7);
  params.top_p = 1e-6F;
  EXPECT_EQ(draw(params), only);
  params = wide(7);
  params.min_p = 1.0F;
  EXPECT_EQ(draw(params), only);
  params = wide(7);
  params.temperature = 1e-4F;
  EXPECT_EQ(draw(params), only);
}

TEST_F(LlamaSamplerTest, BiasForbidsAndForces) {
  SamplingParams params = wide(1);
  params.temperature = 0.0F;
  params.logit_bias = {{likeliest(), -std::numeric_limits<float>::infinity()}};
  EXPECT_NE(draw(params, 1).front(), likeliest());
  params.logit_bias = {{123, 1000.0F}};
  EXPECT_EQ(draw(params, 1).front(), 123);
}

TEST_F(LlamaSamplerTest, IgnoringTheEndForbidsEveryEndToken) {
  SamplingParams params = wide(1);
  params.temperature = 0.0F;
  const TokenId end = *engine_->vocabulary()->eos();
  params.logit_bias = {{end, 1000.0F}};
  EXPECT_EQ(draw(params, 1).front(), end);
  params.ignore_eos = true;
  EXPECT_NE(draw(params, 1).front(), end);
}

TEST_F(LlamaSamplerTest, PenaltiesTurnAwayFromRepetition) {
  SamplingParams params = wide(1);
  params.temperature = 0.0F;
  params.presence_penalty = 100.0F;
  auto tokens = draw(params, 10);
  std::ranges::sort(tokens);
  EXPECT_EQ(std::ranges::adjacent_find(tokens), tokens.end()) << "no token twice";
  auto sampler = engine_->make_sampler(params);
  ASSERT_TRUE(sampler.ok());
  (*sampler)->accept(likeliest());  // as a token of the prompt
  EXPECT_NE(engine_->sample(**sampler, 49), likeliest());
  params.repeat_last_n = 0;
  EXPECT_EQ(draw(params), std::vector<TokenId>(20, likeliest()));
}

// Tokens further back than the context is long do not count, however far the request looks back.
TEST_F(LlamaSamplerTest, LookingBackEndsWithTheContext) {
  SamplingParams params = wide(1);
  params.temperature = 0.0F;
  params.presence_penalty = 100.0F;
  const std::uint32_t context = engine_->description().context_tokens;
  const TokenId other = likeliest() == 500 ? 501 : 500;
  for (const std::int32_t last_n : {-1, 1'000'000'000, static_cast<std::int32_t>(context) + 1}) {
    params.repeat_last_n = last_n;
    auto sampler = engine_->make_sampler(params);
    ASSERT_TRUE(sampler.ok());
    (*sampler)->accept(likeliest());
    for (std::uint32_t i = 0; i + 1 < context; ++i) (*sampler)->accept(other);
    EXPECT_NE(engine_->sample(**sampler, 49), likeliest()) << last_n;  // still counted; sampled tokens push it out
    EXPECT_EQ(engine_->sample(**sampler, 49), likeliest()) << last_n;
  }
}

TEST_F(LlamaSamplerTest, WrongParametersAreRefused) {
  const auto refused = [](auto change) {
    SamplingParams params;
    change(params);
    const auto sampler = engine_->make_sampler(params);
    return !sampler && sampler.error().kind == ErrorKind::kInvalid;
  };
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(refused([&](SamplingParams& p) { p.temperature = nan; }));
  EXPECT_TRUE(refused([&](SamplingParams& p) { p.top_p = -0.5F; }));
  EXPECT_TRUE(refused([&](SamplingParams& p) { p.min_p = nan; }));
  EXPECT_TRUE(refused([&](SamplingParams& p) { p.repeat_penalty = 0.0F; }));
  EXPECT_TRUE(refused([&](SamplingParams& p) { p.presence_penalty = nan; }));
  EXPECT_TRUE(refused([&](SamplingParams& p) { p.repeat_last_n = -2; }));
  EXPECT_TRUE(refused([&](SamplingParams& p) { p.logit_bias = {{-1, 1.0F}}; }));
  EXPECT_TRUE(refused([&](SamplingParams& p) { p.logit_bias = {{1'000'000, 1.0F}}; }));
  const auto vocabulary_size = engine_->vocabulary()->size();
  EXPECT_FALSE(refused([&](SamplingParams& p) { p.logit_bias.assign(vocabulary_size, {1, 1.0F}); }));
  EXPECT_TRUE(refused([&](SamplingParams& p) { p.logit_bias.assign(vocabulary_size + 1, {1, 1.0F}); }));
  EXPECT_FALSE(refused([&](SamplingParams&) {}));
}

}  // namespace
}  // namespace kvkeep::engine::llama
