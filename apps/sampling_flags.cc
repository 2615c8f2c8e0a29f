#include "sampling_flags.h"

#include "flag_values.h"

namespace kvkeep::cli {

std::vector<Flag> sampling_flags(SamplingDefaults& sampling) {
  constexpr float kLargest = 1e6F;
  return {
      {.group = "Sampling, where a request does not say",
       .spelling = "-s, --seed N",
       .default_text = "-1, another each time",
       .effect = "Seed of the random numbers.",
       .assign = [&sampling](const std::string& text) -> Status {
         TRY_ASSIGN(const std::int64_t seed, parse_number<std::int64_t>(text, -1, UINT32_MAX));
         sampling.seed.reset();
         if (seed >= 0) sampling.seed = static_cast<std::uint32_t>(seed);
         return {};
       }},
      {.spelling = "--temperature, --temp N",
       .environment = "LLAMA_ARG_TEMPERATURE",
       .effect = "Temperature; 0 takes the likeliest token.",
       .assign = number_into(sampling.temperature, 0.0F, kLargest)},
      {.spelling = "--top-k N",
       .environment = "LLAMA_ARG_TOP_K",
       .effect = "Choose among the K likeliest tokens; 0 is off.",
       .assign = number_into(sampling.top_k, 0)},
      {.spelling = "--top-p N",
       .environment = "LLAMA_ARG_TOP_P",
       .effect = "Choose among the likeliest tokens that make up this probability; 1 is off.",
       .assign = number_into(sampling.top_p, 0.0F, 1.0F)},
      {.spelling = "--min-p N",
       .environment = "LLAMA_ARG_MIN_P",
       .effect = "Drop tokens less likely than this share of the likeliest; 0 is off.",
       .assign = number_into(sampling.min_p, 0.0F, 1.0F)},
      {.spelling = "--repeat-penalty N",
       .environment = "LLAMA_ARG_REPEAT_PENALTY",
       .effect = "Makes repeated tokens less likely; 1 is off.",
       .assign = number_into(sampling.repeat_penalty, 0.0F, kLargest)},
      {.spelling = "--repeat-last-n N",
       .effect = "Tokens the penalties look back; 0 is off, -1 the whole context.",
       .assign = number_into(sampling.repeat_last_n, -1)},
      {.spelling = "--presence-penalty N",
       .environment = "LLAMA_ARG_PRESENCE_PENALTY",
       .effect = "Taken off the logit of every token that occurred.",
       .assign = number_into(sampling.presence_penalty, -kLargest, kLargest)},
      {.spelling = "--frequency-penalty N",
       .environment = "LLAMA_ARG_FREQUENCY_PENALTY",
       .effect = "Taken off a token's logit for each time it occurred.",
       .assign = number_into(sampling.frequency_penalty, -kLargest, kLargest)},
      {.spelling = "--ignore-eos",
       .effect = "Go on where the model would end its reply.",
       .assign = switch_into(sampling.ignore_eos)},
  };
}

}  // namespace kvkeep::cli
