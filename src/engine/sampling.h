#pragma once

// How the next token is chosen, as requests set it. Plain values; the engine clamps nothing.

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/types.h"

namespace kvkeep::engine {

// A lazy grammar begins where `text` is in the reply for the first time, and includes `text`.
struct GrammarTrigger {
  std::string text;         // not empty
  bool only_first = false;  // only if nothing but white space comes before it
};

// A marker that a grammar demands, and the token that stands for it there.
struct TagLetter {
  TokenId tag = 0;
  TokenId letter = 0;
};

// The form that a reply must have. It applies only to sampled text, never to the prompt.
struct GrammarParams {
  std::string text = {};  // GBNF with the start symbol "root"; "": any text is allowed
  // The grammar begins with the first that appears, and before it any text is allowed; {}: it begins with the reply.
  std::vector<GrammarTrigger> triggers = {};
  // Not empty: the reply begins after this text, and triggers are searched for there ("</think>").
  std::string after = {};
  // Not sampled while the grammar applies: a grammar matches the text of tokens, so that a marker would count as text.
  std::vector<TokenId> forbidden = {};
  // The grammar's text demands a marker by a letter that no text under it may have. The marker is allowed exactly where
  // that letter is: it cannot be taken for text. The letters' own tokens are not sampled.
  std::vector<TagLetter> tags = {};
};

struct ThinkingParams {
  std::optional<std::size_t> most_tokens = {};  // of the thought that a reply begins with; none: no limit
  bool is_open = false;                         // the prompt ends within the thought
  std::string open = {};                        // its tags
  std::string close = {};
  std::vector<TokenId> close_tokens = {};  // inserted at the limit, last words and closing tag; {}: no limit
  std::shared_ptr<const std::atomic<bool>> end_now = {};  // set by another thread: the thought ends before its limit
};

enum class SamplerStep : std::uint8_t;  // between logits and the draw, see sampler_order.h
using SamplerOrder = std::vector<SamplerStep>;
SamplerOrder default_sampler_order();             // llama-server's
std::vector<std::string> default_dry_breakers();  // llama-server's

// How the next token is chosen. Ranges are in sampling_settings.h.
struct SamplingParams {
  SamplerOrder samplers = default_sampler_order();  // only these steps work, in this order
  float temperature = 0.8F;                         // <= 0: always the likeliest token
  float dynatemp_range = 0.0F;                      // the temperature follows the entropy within +- this; <= 0: off
  float dynatemp_exponent = 1.0F;
  std::int32_t top_k = 40;               // keep the k likeliest; <= 0: all
  float top_p = 0.95F;                   // keep the likeliest whose sum reaches p; 1: all
  float min_p = 0.05F;                   // keep those at least min_p times as likely as the likeliest; 0: all
  float top_n_sigma = -1.0F;             // keep those within n standard deviations of the largest logit; <= 0: all
  float typical_p = 1.0F;                // keep those of typical information whose sum reaches p; 1: all
  float xtc_probability = 0.0F;          // how often to drop all but the last token above the threshold; 0: off
  float xtc_threshold = 0.1F;            // above 0.5: off
  std::int32_t min_keep = 0;             // the steps from top_p to xtc leave at least so many
  float repeat_penalty = 1.0F;           // divides logits of recent tokens; 1: off
  float presence_penalty = 0.0F;         // subtracted once from logits of recent tokens; 0: off
  float frequency_penalty = 0.0F;        // subtracted per occurrence; 0: off
  std::int32_t repeat_last_n = 64;       // tokens that count as recent; 0: penalties off, -1: the whole context
  float dry_multiplier = 0.0F;           // penalty of a token that repeats a sequence; 0: off
  float dry_base = 1.75F;                // by which the penalty grows with each repeated token
  std::int32_t dry_allowed_length = 2;   // repeated sequences up to this long are not penalized
  std::int32_t dry_penalty_last_n = 64;  // tokens that are searched; 0: off, -1: the whole context
  std::vector<std::string> dry_breakers = default_dry_breakers();  // texts over which no sequence extends
  std::int32_t mirostat = 0;               // 1, 2: the draw aims at mirostat_tau, and only temperature works before it
  float mirostat_tau = 5.0F;               // surprise to aim at, in bits
  float mirostat_eta = 0.1F;               // how fast it corrects
  float adaptive_target = -1.0F;           // probability that kAdaptiveP aims at; < 0: a plain draw
  float adaptive_decay = 0.9F;             // how long it remembers
  std::optional<std::uint32_t> seed = {};  // empty: a new one each time
  bool ignore_eos = false;                 // never end before the limit
  std::vector<std::pair<TokenId, float>> logit_bias;  // added to logits; -infinity forbids a token
  bool keeps_candidates = false;                      // Sampler::candidates() has those of each draw
  GrammarParams grammar = {};                         // with one, a reply ends where the grammar may, ignore_eos or not
  ThinkingParams thinking = {};
};

// A scale for each LoRA adapter, in the order of Description::adapters; empty: the scales that the fingerprint names.
using AdapterScales = std::vector<float>;

}  // namespace kvkeep::engine
