#pragma once

// The numbers in SamplingParams by name, with their ranges: flags, request fields, model files and replies all go
// through these tables, so that each knows every setting and its range.

#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/sampling.h"

namespace kvkeep::engine {

template <typename Number>
struct SamplingSetting {
  std::string_view name;  // of the request field
  Number SamplingParams::* member;
  double least;
  double most;
  std::string_view model_key = {};  // a model's file sets it as "general.sampling." + this; empty: files do not
};

inline constexpr double kCountMost = std::numeric_limits<std::int32_t>::max();

inline constexpr std::array kRealSettings = std::to_array<SamplingSetting<float>>({
    {"temperature", &SamplingParams::temperature, -100, 100, "temp"},
    {"dynatemp_range", &SamplingParams::dynatemp_range, -100, 100},
    {"dynatemp_exponent", &SamplingParams::dynatemp_exponent, 0, 100},
    {"top_p", &SamplingParams::top_p, 0, 1, "top_p"},
    {"min_p", &SamplingParams::min_p, 0, 1, "min_p"},
    {"top_n_sigma", &SamplingParams::top_n_sigma, -100, 100},
    {"typical_p", &SamplingParams::typical_p, 0, 1},
    {"xtc_probability", &SamplingParams::xtc_probability, 0, 1, "xtc_probability"},
    {"xtc_threshold", &SamplingParams::xtc_threshold, 0, 1, "xtc_threshold"},
    {"repeat_penalty", &SamplingParams::repeat_penalty, 0.01, 100, "penalty_repeat"},
    {"presence_penalty", &SamplingParams::presence_penalty, -100, 100},
    {"frequency_penalty", &SamplingParams::frequency_penalty, -100, 100},
    {"dry_multiplier", &SamplingParams::dry_multiplier, 0, 100},
    {"dry_base", &SamplingParams::dry_base, 0, 100},
    {"mirostat_tau", &SamplingParams::mirostat_tau, 0, 100, "mirostat_tau"},
    {"mirostat_eta", &SamplingParams::mirostat_eta, 0, 100, "mirostat_eta"},
    {"adaptive_target", &SamplingParams::adaptive_target, -100, 1},
    {"adaptive_decay", &SamplingParams::adaptive_decay, 0, 0.99},
});

inline constexpr std::array kWholeSettings = std::to_array<SamplingSetting<std::int32_t>>({
    {"top_k", &SamplingParams::top_k, -kCountMost, kCountMost, "top_k"},
    {"min_keep", &SamplingParams::min_keep, 0, kCountMost},
    {"repeat_last_n", &SamplingParams::repeat_last_n, -1, kCountMost, "penalty_last_n"},
    {"dry_allowed_length", &SamplingParams::dry_allowed_length, 0, kCountMost},
    {"dry_penalty_last_n", &SamplingParams::dry_penalty_last_n, -1, kCountMost},
    {"mirostat", &SamplingParams::mirostat, 0, 2, "mirostat"},
});

// Each breaker costs a walk through the vocabulary, and libllama cuts longer ones.
inline constexpr std::size_t kMostDryBreakers = 16;
inline constexpr std::size_t kLongestDryBreaker = 40;

// kInvalid, with the limit, if libllama would not take the texts as they are.
Status check_dry_breakers(const std::vector<std::string>& breakers);
// kInvalid, with the setting's name and range, if one is out of its range or no number.
Status check_settings(const SamplingParams& params);

// ---- How a model wants to be sampled ----
// Its file may say so, under `general.sampling.` (converters copy the values from generation_config.json). They take
// the place of the program's defaults; flags and requests win over them.

// The texts of a file's values, by the rest of their keys ("temp", "top_k", "sequence").
using ModelSampling = std::map<std::string, std::string, std::less<>>;

// Names of settings (sampling_settings.h, or "samplers") that the user chose.
using ChosenSettings = std::set<std::string, std::less<>>;

// Returns all keys that files may have.
std::vector<std::string_view> model_sampling_keys();

struct ModelSamplingNotes {
  std::vector<std::string> obeyed = {};   // "temperature 0.6"
  std::vector<std::string> refused = {};  // one line each: what the file says, and what is wrong with it
};

// Sets what the file says in `params`, except for settings in `chosen`. Values that are out of range change nothing.
ModelSamplingNotes obey_model(const ModelSampling& model, const ChosenSettings& chosen, SamplingParams& params);

}  // namespace kvkeep::engine
