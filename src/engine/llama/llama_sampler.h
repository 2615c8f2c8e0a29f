#pragma once

// A request's sampler on libllama's chain, in llama-server's order: bias, penalties, top-k, top-p, min-p, temperature,
// then a draw. With temperature <= 0 the likeliest token wins and only bias and penalties matter.

#include <memory>

#include "base/result.h"
#include "engine/engine.h"
#include "engine/llama/library.h"

namespace kvkeep::engine::llama {

class LlamaSampler : public Sampler {
 public:
  // kInvalid: a parameter is out of range. `context_tokens`: what repeat_last_n = -1 means, and the most it can be.
  static Result<std::unique_ptr<LlamaSampler>> make(const llama_vocab& vocabulary, const SamplingParams& params,
                                                    std::uint32_t context_tokens);
  void accept(TokenId token) override { llama_sampler_accept(chain_.get(), token); }
  // Samples from output `index` of the last decode, and accepts the token.
  TokenId sample(llama_context& context, std::int32_t index) {
    return llama_sampler_sample(chain_.get(), &context, index);
  }

 private:
  explicit LlamaSampler(SamplerHandle chain) : chain_(std::move(chain)) {}
  SamplerHandle chain_;
};

}  // namespace kvkeep::engine::llama
