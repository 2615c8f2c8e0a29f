#pragma once

// The steps between a model's logits and the draw of a token, by llama-server's names and letters.
//
// An order is a list of steps. It may name one twice, which then works twice, or none: then tokens are drawn by the
// model's own probabilities. A step that it does not name does nothing, whatever its parameters are.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "engine/sampling.h"

namespace kvkeep::engine {

// The default order is that of the enumerators up to kTemperature.
enum class SamplerStep : std::uint8_t {
  kPenalties,
  kDry,
  kTopNSigma,
  kTopK,
  kTypicalP,
  kTopP,
  kMinP,
  kXtc,
  kTemperature,
  kInfill,
  kAdaptiveP,  // another way to draw, so that it comes last wherever it is named
};

// Each step costs time for every sampled token.
inline constexpr std::size_t kMostSamplerSteps = 32;

// Returns "top_k", "typ_p" and so on.
std::string_view name_of(SamplerStep step);
// Returns the names, separated by semicolons.
std::string names_of(const SamplerOrder& order);

// Returns the step of a name, in capital letters or with other separators too ("top-k", "TopK"), or of one of
// llama-server's short forms ("temp", "typ", "nucleus"); nullopt if there is none.
std::optional<SamplerStep> sampler_named(std::string_view name);

// Each is kInvalid, with the steps that there are, if a step is unknown or there are too many.
Result<SamplerOrder> sampler_order_of(const std::vector<std::string>& names);
// "top_k;temperature"; "" names none.
Result<SamplerOrder> parse_sampler_names(std::string_view text);
// "kt", as llama-server abbreviates it.
Result<SamplerOrder> parse_sampler_letters(std::string_view letters);

}  // namespace kvkeep::engine
