#pragma once

// An embedder without a model: the first value of a vector is the number of tokens, the others depend on all tokens in
// order. It checks that runs follow each other, and can be made to fail.

#include <atomic>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "engine/embedder.h"

namespace kvkeep::engine::fake {

class FakeEmbedder final : public Embedder {
 public:
  explicit FakeEmbedder(EmbedderDescription description) : description_(std::move(description)) {}

  const EmbedderDescription& description() const override { return description_; }

  Result<std::vector<float>> compute(TokenSpan run, Position at, bool last) override {
    KVKEEP_ASSERT(!run.empty() && run.size() <= description_.slice_tokens, "a run has a size libllama takes");
    KVKEEP_ASSERT(at == Position{} || at.value() == tokens_.size(), "runs of one input follow each other");
    if (on_compute) on_compute(run);
    if (cancelled_) return aborted("the server is shutting down");
    if (fail_next) return std::exchange(fail_next, std::nullopt).value();
    if (at == Position{}) tokens_.clear();
    tokens_.insert(tokens_.end(), run.begin(), run.end());
    return last ? values(description_, tokens_) : std::vector<float>{};
  }
  void cancel() override { cancelled_ = true; }

  // Returns the values of an input, as compute() does.
  static std::vector<float> values(const EmbedderDescription& description, TokenSpan tokens) {
    if (description.pooling != Pooling::kNone) return vector_of(description, tokens);
    std::vector<float> all;
    for (std::size_t i = 1; i <= tokens.size(); ++i) {
      const std::vector<float> one = vector_of(description, tokens.first(i));
      all.insert(all.end(), one.begin(), one.end());
    }
    return all;
  }

  std::optional<Error> fail_next;               // the next compute() fails so
  std::function<void(TokenSpan)> on_compute{};  // called at the start of each compute()

 private:
  static std::vector<float> vector_of(const EmbedderDescription& description, TokenSpan tokens) {
    std::vector<float> values{static_cast<float>(tokens.size())};
    std::uint32_t state = 1;
    for (const TokenId token : tokens) state = state * 31 + static_cast<std::uint32_t>(token);
    while (values.size() < description.vector_size) {
      values.push_back(static_cast<float>(state % 1000) - 500);
      state = state * 7 + 11;
    }
    return values;
  }

  const EmbedderDescription description_;
  std::atomic<bool> cancelled_ = false;
  std::vector<TokenId> tokens_;
};

}  // namespace kvkeep::engine::fake
