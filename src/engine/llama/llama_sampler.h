#pragma once

// A request's sampler: a chain of libllama's (sampler_chain.h), held to a grammar and to a limit on thoughts.
//
// With a grammar a token is sampled as if there were none, and checked; if the grammar does not allow it, all tokens
// that it does not allow are removed and another is sampled. The model mostly chooses an allowed token, and checking
// one token costs next to nothing, checking a vocabulary of 150,000 takes milliseconds.
//
// When a thought has reached its limit, its closing tag replaces the model's choice.

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "engine/engine.h"
#include "engine/llama/library.h"
#include "engine/llama/token_grammar.h"
#include "engine/thinking_limit.h"

namespace kvkeep::engine::llama {

class LlamaSampler : public Sampler {
 public:
  // `chain` is made for `params`. kInvalid if the grammar cannot be read.
  static Result<std::unique_ptr<LlamaSampler>> make(const llama_vocab& vocabulary, SamplerHandle chain,
                                                    const SamplingParams& params);
  void accept(TokenId token) override { llama_sampler_accept(chain_.get(), token); }
  const std::optional<Error>& failure() const override { return failure_; }
  std::span<const Candidate> candidates() const override { return drawn_from_; }
  // Samples from output `index` of the last decode, and accepts the token.
  TokenId sample(llama_context& context, std::int32_t index);

 private:
  LlamaSampler(const llama_vocab& vocabulary, SamplerHandle chain, std::optional<TokenGrammar> grammar,
               const SamplingParams& params)
      : vocabulary_(vocabulary),
        chain_(std::move(chain)),
        grammar_(std::move(grammar)),
        thinking_(params.thinking),
        keeps_candidates_(params.keeps_candidates),
        candidates_(static_cast<std::size_t>(llama_vocab_n_tokens(&vocabulary))) {}
  TokenId choose_next(llama_context& context, std::int32_t index);
  TokenId put_in(TokenId token);
  TokenId sample_by_grammar(llama_context& context, std::int32_t index);
  std::optional<TokenId> choose(const float* logits);
  void fill_candidates(const float* logits);
  TokenId run_chain();
  void note_drawn(const llama_token_data_array& array);

  const llama_vocab& vocabulary_;
  SamplerHandle chain_;
  std::optional<TokenGrammar> grammar_;
  ThinkingLimit thinking_;
  const bool keeps_candidates_;
  std::vector<Candidate> drawn_from_;
  std::vector<llama_token_data> candidates_;
  std::optional<Error> failure_;
};

}  // namespace kvkeep::engine::llama
