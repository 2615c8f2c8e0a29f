#include "engine/llama/llama_embedder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "testing/models/test_model.h"

namespace kvkeep::engine::llama {
namespace {

Weights weights_of(const ModelOptions& options) {
  auto weights = load_weights(options, {});
  EXPECT_TRUE(weights.ok());
  return std::move(weights).value();
}

ModelOptions encoder_options() {
  ModelOptions options = tiny_options();
  options.path = tiny_model_path("bert");
  return options;
}

std::unique_ptr<LlamaEmbedder> embedder_of(const Weights& weights, std::optional<Pooling> pooling) {
  auto made = LlamaEmbedder::make(weights, pooling);
  EXPECT_TRUE(made.ok()) << (made.ok() ? "" : made.error().message);
  return std::move(made).value();
}

std::vector<float> vector_of(LlamaEmbedder& embedder, TokenSpan input) {
  return embedder.compute(input, Position{}, true).value();
}

double similarity(const std::vector<float>& a, const std::vector<float>& b) {
  double dot = 0;
  double aa = 0;
  double bb = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    dot += a[i] * b[i];
    aa += a[i] * a[i];
    bb += b[i] * b[i];
  }
  return dot / std::sqrt(aa * bb);
}

// The mean of the vectors that a context without pooling gives is what libllama pools.
TEST(LlamaEmbedder, PoolsTheVectorsOfTokens) {
  const Weights weights = weights_of(tiny_options());
  const std::vector<TokenId> input = make_prompt(20, 1);
  const auto none = embedder_of(weights, std::nullopt);
  EXPECT_EQ(none->description().pooling, Pooling::kNone);
  EXPECT_EQ(none->description().vector_size, 128U);
  const std::vector<float> all = vector_of(*none, input);
  ASSERT_EQ(all.size(), 20U * 128);
  std::vector<float> mean(128, 0);
  for (std::size_t i = 0; i < all.size(); ++i) mean[i % 128] += all[i] / 20;
  const std::vector<float> first(all.begin(), all.begin() + 128);
  const std::vector<float> last(all.end() - 128, all.end());
  const auto pooled = [&](Pooling pooling) { return vector_of(*embedder_of(weights, pooling), input); };
  EXPECT_GT(similarity(pooled(Pooling::kMean), mean), 0.9999);
  EXPECT_GT(similarity(pooled(Pooling::kCls), first), 0.9999);
  EXPECT_GT(similarity(pooled(Pooling::kLast), last), 0.9999);
}

TEST(LlamaEmbedder, ALongInputIsComputedInSlicesForTheLastToken) {
  ModelOptions options = tiny_options();
  options.n_ubatch = 64;
  const Weights weights = weights_of(options);
  EXPECT_EQ(embedder_of(weights, Pooling::kMean)->description().longest_input, 64U);
  EXPECT_EQ(embedder_of(weights, Pooling::kMean)->description().longer_by, "--ubatch-size");
  const auto sliced = embedder_of(weights, Pooling::kLast);
  EXPECT_EQ(sliced->description().longest_input, 1024U);
  EXPECT_EQ(sliced->description().longer_by, "--ctx-size");
  const std::vector<TokenId> input = make_prompt(150, 2);
  std::vector<float> result;
  for (std::size_t at = 0; at < input.size(); at += 64) {
    const TokenSpan run = TokenSpan(input).subspan(at, std::min<std::size_t>(64, input.size() - at));
    result = sliced->compute(run, Position{} + at, at + run.size() == input.size()).value();
  }
  options.n_ubatch = 512;
  const Weights whole = weights_of(options);
  EXPECT_GT(similarity(result, vector_of(*embedder_of(whole, Pooling::kLast), input)), 0.999);
}

TEST(LlamaEmbedder, TheInputBeforeLeavesNoTrace) {
  const Weights weights = weights_of(tiny_options());
  const auto embedder = embedder_of(weights, Pooling::kMean);
  const std::vector<float> alone = vector_of(*embedder, make_prompt(30, 1));
  vector_of(*embedder, make_prompt(100, 2));
  EXPECT_EQ(vector_of(*embedder, make_prompt(30, 1)), alone);
}

// Both contexts use one model, and each its own memory.
TEST(LlamaEmbedder, ConversationsNextToItStayAsTheyAre) {
  const Weights weights = weights_of(tiny_options());
  auto engine = LlamaEngine::make(weights).value();
  const auto embedder = embedder_of(weights, Pooling::kMean);
  const std::vector<TokenId> prompt = make_prompt(100, 3);
  ASSERT_EQ(prefill(*engine, kFirst, prompt), DecodeStatus::kOk);
  const std::vector<std::byte> rows = save(*engine, kFirst, token_range(0, 100));
  const std::vector<float> logits(engine->logits(99).begin(), engine->logits(99).end());
  vector_of(*embedder, make_prompt(200, 4));
  EXPECT_EQ(save(*engine, kFirst, token_range(0, 100)), rows);
  EXPECT_TRUE(std::ranges::equal(engine->logits(99), logits));
  EXPECT_EQ(engine->tokens_decoded(), 100U);
}

TEST(LlamaEmbedder, AnEncoderOnlyEmbeds) {
  const Weights weights = weights_of(encoder_options());
  EXPECT_FALSE(can_generate(weights).value());
  EXPECT_TRUE(can_generate(weights_of(tiny_options())).value());
  const auto embedder = embedder_of(weights, std::nullopt);
  EXPECT_EQ(embedder->description().pooling, Pooling::kMean);
  EXPECT_EQ(embedder->description().longest_input, 512U);
  const std::vector<TokenId> input{2, 10, 11, 12, 3};
  const std::vector<TokenId> swapped{2, 12, 11, 10, 3};
  EXPECT_LT(similarity(vector_of(*embedder, input), vector_of(*embedder, swapped)), 0.9999);
  EXPECT_EQ(
      LlamaEngine::make(weights).error().message,
      encoder_options().path + " is not a text generator: serve it with --embeddings, or with --rerank if it ranks");
  EXPECT_EQ(LlamaEmbedder::make(weights, Pooling::kRank).error().kind, ErrorKind::kUnsupported);
}

TEST(LlamaEmbedder, AContextThatDoesNotFitIsAnError) {
  ModelOptions options = tiny_options();
  Weights weights = weights_of(options);
  weights.options.n_ctx = 2'000'000'000;
  const auto refused = LlamaEmbedder::make(weights, Pooling::kLast);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::kNoSpace);
  EXPECT_THAT(refused.error().message, testing::HasSubstr("no context for embeddings: a context of 2000000000 tokens"));
}

TEST(LlamaEmbedder, CancelEndsTheNextInput) {
  const Weights weights = weights_of(tiny_options());
  const auto embedder = embedder_of(weights, Pooling::kMean);
  embedder->cancel();
  const std::vector<TokenId> input = make_prompt(10, 1);
  EXPECT_EQ(embedder->compute(input, Position{}, true).error().kind, ErrorKind::kAborted);
}

}  // namespace
}  // namespace kvkeep::engine::llama
