#pragma once

// Chains of libllama's samplers: a request's biases, then the steps that it names in its order, then a draw.
//
// A chain is llama-server's for the same parameters, so that the same logits and seed give the same token: libllama's
// own samplers decide at which values they are off, each draws random numbers from the request's seed, and mirostat
// replaces all steps but the temperature. One difference cannot be seen in texts: with a temperature of 0, steps that
// never remove the likeliest token are left out, and sorting a vocabulary with them.

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "engine/llama/library.h"
#include "engine/sampling.h"

namespace kvkeep::engine::llama {

// Makes the chains of one model. Not thread safe; the vocabulary outlives it.
class SamplerChains {
 public:
  // `context_tokens` is the value that -1 stands for where a step looks back, and the largest one.
  SamplerChains(const llama_vocab& vocabulary, std::uint32_t context_tokens)
      : vocabulary_(vocabulary), context_tokens_(context_tokens) {}

  // kInvalid if a parameter is out of range, or the infill step would compare too many tokens.
  Result<SamplerHandle> make(const SamplingParams& params);

 private:
  // The parameters of a DRY step: all of them are fixed when it is made.
  struct Dry {
    float multiplier;
    float base;
    std::int32_t allowed_length;
    std::int32_t look_back;
    std::vector<std::string> breakers;
    bool operator==(const Dry&) const = default;
  };
  struct MadeDry {
    Dry dry;
    SamplerHandle sampler;  // never used but to be cloned
  };

  Status check(const SamplingParams& params) const;
  std::vector<llama_logit_bias> biases(const SamplingParams& params) const;
  void add_steps(llama_sampler& chain, const SamplingParams& params);
  void add_greedy_steps(llama_sampler& chain, const SamplingParams& params);
  llama_sampler* make_step(SamplerStep step, const SamplingParams& params);
  llama_sampler* make_penalties(const SamplingParams& params) const;
  llama_sampler* make_dry(const SamplingParams& params);
  std::int32_t look_back(std::int32_t tokens) const;

  const llama_vocab& vocabulary_;
  const std::uint32_t context_tokens_;
  std::vector<MadeDry> dry_;  // the last used first
};

}  // namespace kvkeep::engine::llama
