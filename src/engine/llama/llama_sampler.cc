#include "engine/llama/llama_sampler.h"

#include <vector>

#include "base/assert.h"
#include "os/clock.h"

namespace kvkeep::engine::llama {
namespace {

// For ambiguous grammars libllama follows ever more paths, while all other requests wait.
constexpr std::int64_t kLongestSamplingNs = 5'000'000'000;

}  // namespace

Result<std::unique_ptr<LlamaSampler>> LlamaSampler::make(const llama_vocab& vocabulary, SamplerHandle chain,
                                                         const SamplingParams& params) {
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
