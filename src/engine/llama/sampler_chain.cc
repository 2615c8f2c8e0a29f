#include "engine/llama/sampler_chain.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/sampler_order.h"
#include "engine/sampling_settings.h"

namespace kvkeep::engine::llama {
namespace {

// libllama compares each token that reaches the infill step with each other one.
constexpr std::int32_t kMostInfillTokens = 1000;

// A DRY step is learnt from the whole vocabulary, which takes libllama long. Clients send the same parameters with each
// request; an agent and its helpers may have a few sets of them.
constexpr std::size_t kMostMadeDry = 8;

// The window over which mirostat 1 estimates how fast probabilities fall; llama-server's.
constexpr std::int32_t kMirostatTokens = 100;

std::uint32_t seed_of(const SamplingParams& params) { return params.seed.value_or(LLAMA_DEFAULT_SEED); }

bool has_step(const SamplingParams& params, SamplerStep step) {
  return std::ranges::find(params.samplers, step) != params.samplers.end();
}

bool penalises(const SamplingParams& params) {
  return params.repeat_last_n != 0 &&
         (params.repeat_penalty != 1.0F || params.presence_penalty != 0.0F || params.frequency_penalty != 0.0F);
}

bool penalises_sequences(const SamplingParams& params) {
  return params.dry_multiplier != 0.0F && params.dry_penalty_last_n != 0;
}

// The effect of a step on the likeliest token of those that reach it.
enum class Effect { kKeepsIt, kMayPenalize, kMayRemove };

Effect effect_of(SamplerStep step, const SamplingParams& params) {
  switch (step) {
    case SamplerStep::kPenalties: return penalises(params) ? Effect::kMayPenalize : Effect::kKeepsIt;
    case SamplerStep::kDry: return penalises_sequences(params) ? Effect::kMayPenalize : Effect::kKeepsIt;
    case SamplerStep::kTypicalP: return params.typical_p < 1.0F ? Effect::kMayRemove : Effect::kKeepsIt;
    case SamplerStep::kXtc: return params.xtc_probability > 0.0F ? Effect::kMayRemove : Effect::kKeepsIt;
    case SamplerStep::kInfill:
    case SamplerStep::kAdaptiveP: return Effect::kMayRemove;
    case SamplerStep::kTopNSigma:
    case SamplerStep::kTopK:
    case SamplerStep::kTopP:
    case SamplerStep::kMinP:
    case SamplerStep::kTemperature: return Effect::kKeepsIt;
  }
  return Effect::kMayRemove;
}

// Returns true if the token is surely the likeliest one after penalties. A penalty that comes after a narrowing step
// chooses among fewer tokens than one that comes first, so that such an order is carried out as it is.
bool is_greedy(const SamplingParams& params) {
  if (params.temperature > 0.0F) return false;
  if (params.mirostat != 0) return true;
  if (params.dynatemp_range > 0.0F || has_step(params, SamplerStep::kAdaptiveP)) return false;
  bool narrowed = false;
  for (const SamplerStep step : params.samplers) {
    if (step == SamplerStep::kTemperature) return true;
    const Effect effect = effect_of(step, params);
    if (effect == Effect::kMayRemove || (effect == Effect::kMayPenalize && narrowed)) return false;
    narrowed |= step != SamplerStep::kPenalties && step != SamplerStep::kDry;
  }
  return false;
}

// The step looks at each pair of tokens, and ends with a token that the vocabulary must have.
Status check_infill(const llama_vocab& vocabulary, const SamplingParams& params) {
  const auto infill = std::ranges::find(params.samplers, SamplerStep::kInfill);
  if (params.mirostat != 0 || infill == params.samplers.end()) return {};
  const bool bounded = std::find(params.samplers.begin(), infill, SamplerStep::kTopK) != infill;
  if (!bounded || params.top_k < 1 || params.top_k > kMostInfillTokens) {
    return invalid(
        fmt::format("the sampler 'infill' needs 'top_k' before it, with a top_k of 1 to {}", kMostInfillTokens));
  }
  if (llama_vocab_eot(&vocabulary) < 0 && llama_vocab_eos(&vocabulary) < 0) {
    return invalid("the sampler 'infill' needs a vocabulary with a token that ends a text");
  }
  return {};
}

}  // namespace

Status SamplerChains::check(const SamplingParams& params) const {
  TRY(check_settings(params));
  const std::int32_t vocabulary_size = llama_vocab_n_tokens(&vocabulary_);
  if (params.samplers.size() > kMostSamplerSteps) return invalid("too many samplers");
  if (params.logit_bias.size() > static_cast<std::size_t>(vocabulary_size)) {
    return invalid("logit_bias names more tokens than the vocabulary has");
  }
  for (const auto& [token, bias] : params.logit_bias) {
    if (token < 0 || token >= vocabulary_size) {
      return invalid(fmt::format("logit_bias names token {}; the vocabulary ends at {}", token, vocabulary_size - 1));
    }
    if (std::isnan(bias)) return invalid("logit_bias must be a number");
  }
  return check_infill(vocabulary_, params);
}

// The request's own, those of ignore_eos, and the tokens that the model's file says are never to be sampled.
std::vector<llama_logit_bias> SamplerChains::biases(const SamplingParams& params) const {
  constexpr float kNever = -std::numeric_limits<float>::infinity();
  std::vector<llama_logit_bias> biases;
  for (const auto& [token, bias] : params.logit_bias) biases.push_back({token, bias});
  std::int32_t suppressed = 0;
  const llama_token* tokens = llama_vocab_get_suppress_tokens(&vocabulary_, &suppressed);
  for (std::int32_t i = 0; i < suppressed; ++i) biases.push_back({tokens[i], kNever});
  if (!params.ignore_eos || !params.grammar.text.empty()) return biases;
  for (TokenId token = 0; token < llama_vocab_n_tokens(&vocabulary_); ++token) {
    if (llama_vocab_is_eog(&vocabulary_, token)) biases.push_back({token, kNever});
  }
  return biases;
}

// libllama allocates the whole length to look back, and clears it for every request: keep it within the context.
std::int32_t SamplerChains::look_back(std::int32_t tokens) const {
  constexpr std::uint32_t kMost = std::numeric_limits<std::int32_t>::max();
  const auto context = static_cast<std::int32_t>(std::min(context_tokens_, kMost));
  return tokens < 0 ? context : std::min(tokens, context);
}

llama_sampler* SamplerChains::make_penalties(const SamplingParams& params) const {
  return llama_sampler_init_penalties(llama_vocab_n_tokens(&vocabulary_), look_back(params.repeat_last_n),
                                      params.repeat_penalty, params.frequency_penalty, params.presence_penalty);
}

llama_sampler* SamplerChains::make_dry(const SamplingParams& params) {
  if (!penalises_sequences(params)) return nullptr;
  Dry dry{.multiplier = params.dry_multiplier,
          .base = params.dry_base < 1.0F ? SamplingParams{}.dry_base : params.dry_base,
          .allowed_length = params.dry_allowed_length,
          .look_back = look_back(params.dry_penalty_last_n),
          .breakers = params.dry_breakers};
  auto made = std::ranges::find(dry_, dry, &MadeDry::dry);
  if (made == dry_.end()) {
    std::vector<const char*> breakers;
    for (const std::string& breaker : dry.breakers) breakers.push_back(breaker.c_str());
    SamplerHandle sampler(llama_sampler_init_dry(&vocabulary_, dry.multiplier, dry.base, dry.allowed_length,
                                                 dry.look_back, breakers.data(), breakers.size()));
    if (dry_.size() == kMostMadeDry) dry_.pop_back();
    made = dry_.insert(dry_.end(), {std::move(dry), std::move(sampler)});
  }
  std::rotate(dry_.begin(), made, made + 1);
  return llama_sampler_clone(dry_.front().sampler.get());
}

// Returns null for a step that does nothing at its place.
llama_sampler* SamplerChains::make_step(SamplerStep step, const SamplingParams& params) {
  const auto min_keep = static_cast<std::size_t>(params.min_keep);
  switch (step) {
    case SamplerStep::kPenalties: return make_penalties(params);
    case SamplerStep::kDry: return make_dry(params);
    case SamplerStep::kTopNSigma: return llama_sampler_init_top_n_sigma(params.top_n_sigma);
    case SamplerStep::kTopK: return llama_sampler_init_top_k(params.top_k);
    case SamplerStep::kTypicalP: return llama_sampler_init_typical(params.typical_p, min_keep);
    case SamplerStep::kTopP: return llama_sampler_init_top_p(params.top_p, min_keep);
    case SamplerStep::kMinP: return llama_sampler_init_min_p(params.min_p, min_keep);
    case SamplerStep::kXtc:
      return llama_sampler_init_xtc(params.xtc_probability, params.xtc_threshold, min_keep, seed_of(params));
    case SamplerStep::kTemperature:
      return llama_sampler_init_temp_ext(params.temperature, params.dynatemp_range, params.dynatemp_exponent);
    case SamplerStep::kInfill: return llama_sampler_init_infill(&vocabulary_);
    case SamplerStep::kAdaptiveP: return nullptr;  // the draw, which comes last
  }
  return nullptr;
}

void SamplerChains::add_steps(llama_sampler& chain, const SamplingParams& params) {
  const auto add = [&](llama_sampler* sampler) { llama_sampler_chain_add(&chain, sampler); };
  const std::uint32_t seed = seed_of(params);
  if (params.mirostat != 0) {
    add(llama_sampler_init_temp(params.temperature));
    const std::int32_t vocabulary_size = llama_vocab_n_tokens(&vocabulary_);
    add(params.mirostat == 1 ? llama_sampler_init_mirostat(vocabulary_size, seed, params.mirostat_tau,
                                                           params.mirostat_eta, kMirostatTokens)
                             : llama_sampler_init_mirostat_v2(seed, params.mirostat_tau, params.mirostat_eta));
    return;
  }
  for (const SamplerStep step : params.samplers) {
    if (llama_sampler* sampler = make_step(step, params)) add(sampler);
  }
  add(has_step(params, SamplerStep::kAdaptiveP)
          ? llama_sampler_init_adaptive_p(params.adaptive_target, params.adaptive_decay, seed)
          : llama_sampler_init_dist(seed));
}

// Precondition: is_greedy(params).
void SamplerChains::add_greedy_steps(llama_sampler& chain, const SamplingParams& params) {
  const auto add = [&](llama_sampler* sampler) { llama_sampler_chain_add(&chain, sampler); };
  for (const SamplerStep step : params.samplers) {
    if (params.mirostat != 0 || step == SamplerStep::kTemperature) break;
    if (effect_of(step, params) == Effect::kMayPenalize) add(make_step(step, params));
  }
  add(llama_sampler_init_greedy());
}

Result<SamplerHandle> SamplerChains::make(const SamplingParams& params) {
  TRY(check(params));
  llama_sampler_chain_params chain_params = llama_sampler_chain_default_params();
  chain_params.no_perf = true;
  SamplerHandle chain(llama_sampler_chain_init(chain_params));
  if (const auto all = biases(params); !all.empty()) {
    const auto count = static_cast<std::int32_t>(all.size());
    llama_sampler_chain_add(chain.get(),
                            llama_sampler_init_logit_bias(llama_vocab_n_tokens(&vocabulary_), count, all.data()));
  }
  if (is_greedy(params)) {
    add_greedy_steps(*chain, params);
  } else {
    add_steps(*chain, params);
  }
  return chain;
}

}  // namespace kvkeep::engine::llama
