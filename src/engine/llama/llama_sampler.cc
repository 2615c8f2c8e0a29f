#include "engine/llama/llama_sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "base/assert.h"
#include "os/clock.h"

namespace kvkeep::engine::llama {
namespace {

// For ambiguous grammars libllama follows ever more paths, while all other requests wait.
constexpr std::int64_t kLongestSamplingNs = 5'000'000'000;

Status check(const SamplingParams& params, std::int32_t vocabulary_size) {
  if (!std::isfinite(params.temperature)) return invalid("temperature must be a finite number");
  if (!(params.top_p >= 0.0F)) return invalid("top_p must not be negative");
  if (!(params.min_p >= 0.0F)) return invalid("min_p must not be negative");
  if (!std::isfinite(params.repeat_penalty) || params.repeat_penalty <= 0.0F) {
    return invalid("repeat_penalty must be greater than 0");
  }
  if (!std::isfinite(params.presence_penalty) || !std::isfinite(params.frequency_penalty)) {
    return invalid("penalties must be finite numbers");
  }
  if (params.repeat_last_n < -1) return invalid("repeat_last_n must be at least -1");
  if (params.logit_bias.size() > static_cast<std::size_t>(vocabulary_size)) {
    return invalid("logit_bias names more tokens than the vocabulary has");
  }
  for (const auto& [token, bias] : params.logit_bias) {
    if (token < 0 || token >= vocabulary_size) {
      return invalid("logit_bias names token " + std::to_string(token) + "; the vocabulary ends at " +
                     std::to_string(vocabulary_size - 1));
    }
    if (std::isnan(bias)) return invalid("logit_bias must be a number");
  }
  return {};
}

std::vector<llama_logit_bias> all_biases(const llama_vocab& vocabulary, const SamplingParams& params) {
  std::vector<llama_logit_bias> biases;
  biases.reserve(params.logit_bias.size());
  for (const auto& [token, bias] : params.logit_bias) biases.push_back({token, bias});
  if (!params.ignore_eos || !params.grammar.text.empty()) return biases;
  for (TokenId token = 0; token < llama_vocab_n_tokens(&vocabulary); ++token) {
    if (llama_vocab_is_eog(&vocabulary, token)) biases.push_back({token, -std::numeric_limits<float>::infinity()});
  }
  return biases;
}

bool penalises(const SamplingParams& params) {
  return params.repeat_last_n != 0 &&
         (params.repeat_penalty != 1.0F || params.presence_penalty != 0.0F || params.frequency_penalty != 0.0F);
}

// libllama allocates the whole length to look back, and clears it for every request: keep it within the context.
std::int32_t look_back(const SamplingParams& params, std::uint32_t context_tokens) {
  constexpr std::uint32_t kMost = std::numeric_limits<std::int32_t>::max();
  const auto context = static_cast<std::int32_t>(std::min(context_tokens, kMost));
  return params.repeat_last_n < 0 ? context : std::min(params.repeat_last_n, context);
}

}  // namespace

Result<std::unique_ptr<LlamaSampler>> LlamaSampler::make(const llama_vocab& vocabulary, const SamplingParams& params,
                                                         std::uint32_t context_tokens) {
  const std::int32_t vocabulary_size = llama_vocab_n_tokens(&vocabulary);
  TRY(check(params, vocabulary_size));
  llama_sampler_chain_params chain_params = llama_sampler_chain_default_params();
  chain_params.no_perf = true;
  SamplerHandle chain(llama_sampler_chain_init(chain_params));
  const auto add = [&](llama_sampler* sampler) { llama_sampler_chain_add(chain.get(), sampler); };
  if (const auto biases = all_biases(vocabulary, params); !biases.empty()) {
    add(llama_sampler_init_logit_bias(vocabulary_size, static_cast<std::int32_t>(biases.size()), biases.data()));
  }
  if (penalises(params)) {
    add(llama_sampler_init_penalties(vocabulary_size, look_back(params, context_tokens), params.repeat_penalty,
                                     params.frequency_penalty, params.presence_penalty));
  }
  if (params.temperature <= 0.0F) {
    add(llama_sampler_init_greedy());
  } else {
    if (params.top_k > 0) add(llama_sampler_init_top_k(params.top_k));
    if (params.top_p < 1.0F) add(llama_sampler_init_top_p(params.top_p, 1));
    if (params.min_p > 0.0F) add(llama_sampler_init_min_p(params.min_p, 1));
    add(llama_sampler_init_temp(params.temperature));
    add(llama_sampler_init_dist(params.seed.value_or(LLAMA_DEFAULT_SEED)));
  }
  std::optional<TokenGrammar> grammar;
  if (!params.grammar.text.empty()) {
    TRY_ASSIGN(grammar, TokenGrammar::make(vocabulary, params.grammar));
  }
  return std::unique_ptr<LlamaSampler>(new LlamaSampler(vocabulary, std::move(chain), std::move(grammar), params));
}

void LlamaSampler::fill_candidates(const float* logits) {
  for (std::size_t id = 0; id < candidates_.size(); ++id) {
    candidates_[id] = {.id = static_cast<llama_token>(id), .logit = logits[id], .p = 0.0F};
  }
}

// The chain sorts and shortens the candidates, so that they are filled anew for the next token.
TokenId LlamaSampler::run_chain() {
  llama_token_data_array array{.data = candidates_.data(), .size = candidates_.size(), .selected = -1, .sorted = false};
  llama_sampler_apply(chain_.get(), &array);
  KVKEEP_ASSERT(array.selected >= 0 && array.selected < static_cast<std::int64_t>(array.size),
                "a chain ends with a draw");
  if (keeps_candidates_) note_drawn(array);
  return array.data[array.selected].id;
}

// A chain that always takes the likeliest token computes no probabilities.
void LlamaSampler::note_drawn(const llama_token_data_array& array) {
  const llama_token_data drawn = array.data[array.selected];
  drawn_from_.clear();
  if (drawn.p <= 0.0F) {
    drawn_from_.push_back({drawn.id, 1.0F});
    return;
  }
  const std::size_t count = std::min(array.size, kMostCandidates);
  std::vector<llama_token_data> all(array.data, array.data + array.size);
  std::ranges::partial_sort(all, all.begin() + static_cast<std::ptrdiff_t>(count),
                            [](const auto& a, const auto& b) { return a.p != b.p ? a.p > b.p : a.id < b.id; });
  for (std::size_t i = 0; i < count; ++i) drawn_from_.push_back({all[i].id, all[i].p});
  const bool is_among = std::ranges::any_of(drawn_from_, [&](const Candidate& one) { return one.id == drawn.id; });
  if (!is_among) drawn_from_.back() = {drawn.id, drawn.p};
}

std::optional<TokenId> LlamaSampler::choose(const float* logits) {
  fill_candidates(logits);
  if (!grammar_->holds()) return run_chain();
  grammar_->mask_forbidden(candidates_);
  const TokenId first = run_chain();
  if (grammar_->allows(first)) return first;
  fill_candidates(logits);
  if (!grammar_->mask(candidates_)) return std::nullopt;
  const TokenId second = run_chain();
  return grammar_->allows(second) ? std::optional(second) : std::nullopt;  // a bias may have left no token
}

TokenId LlamaSampler::sample(llama_context& context, std::int32_t index) {
  const std::optional<TokenId> forced = thinking_.forced();
  const TokenId token = forced ? put_in(*forced) : choose_next(context, index);
  if (!thinking_.is_done()) thinking_.accept(token_piece(vocabulary_, token));
  return token;
}

TokenId LlamaSampler::choose_next(llama_context& context, std::int32_t index) {
  if (grammar_) return sample_by_grammar(context, index);
  if (!keeps_candidates_) return llama_sampler_sample(chain_.get(), &context, index);
  fill_candidates(llama_get_logits_ith(&context, index));
  const TokenId token = run_chain();
  llama_sampler_accept(chain_.get(), token);
  return token;
}

TokenId LlamaSampler::put_in(TokenId token) {
  if (keeps_candidates_) drawn_from_ = {{token, 1.0F}};
  llama_sampler_accept(chain_.get(), token);
  if (!grammar_) return token;
  if (const Status accepted = grammar_->accept(token); !accepted) failure_ = accepted.error();
  return token;
}

TokenId LlamaSampler::sample_by_grammar(llama_context& context, std::int32_t index) {
  const float* logits = llama_get_logits_ith(&context, index);
  KVKEEP_ASSERT(logits != nullptr, "the batch entry wanted logits");
  const std::int64_t begin_ns = os::real_clock().monotonic_ns();
  const std::optional<TokenId> token = choose(logits);
  if (!token) {
    failure_ = invalid("no token that may be sampled continues the reply as the grammar demands");
    return 0;
  }
  llama_sampler_accept(chain_.get(), *token);
  if (const Status accepted = grammar_->accept(*token); !accepted) failure_ = accepted.error();
  if (os::real_clock().monotonic_ns() - begin_ns > kLongestSamplingNs) {
    failure_ = invalid("the grammar has too many possible continuations at once");
  }
  return *token;
}

}  // namespace kvkeep::engine::llama
