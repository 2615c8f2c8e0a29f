#include "sampling_flags.h"

#include "flag_binding.h"

namespace kvkeep::cli {

std::vector<Flag> sampling_flags(SamplingDefaults& sampling) {
  const char* group = "Sampling, where a request does not say";
  constexpr float kLargest = 1e6F;
  return {
      row(group, "--seed", {"-s"}, {}, "N", "", "-1, another each time", "Seed of the random numbers.",
          [&sampling](const std::string& text) -> Status {
            TRY_ASSIGN(const std::int64_t seed, parse_number<std::int64_t>(text, -1, UINT32_MAX));
            sampling.seed.reset();
            if (seed >= 0) sampling.seed = static_cast<std::uint32_t>(seed);
            return {};
          }),
      row(group, "--temp", {"--temperature"}, {}, "N", "LLAMA_ARG_TEMPERATURE", "0.8",
          "Temperature; 0 takes the likeliest token.", number_into(sampling.temperature, 0.0F, kLargest)),
      row(group, "--top-k", {}, {}, "N", "LLAMA_ARG_TOP_K", "40", "Choose among the K likeliest tokens; 0 is off.",
          number_into(sampling.top_k, 0)),
      row(group, "--top-p", {}, {}, "N", "LLAMA_ARG_TOP_P", "0.95",
          "Choose among the likeliest tokens that make up this probability; 1 is off.",
          number_into(sampling.top_p, 0.0F, 1.0F)),
      row(group, "--min-p", {}, {}, "N", "LLAMA_ARG_MIN_P", "0.05",
          "Drop tokens less likely than this share of the likeliest; 0 is off.",
          number_into(sampling.min_p, 0.0F, 1.0F)),
      row(group, "--repeat-penalty", {}, {}, "N", "LLAMA_ARG_REPEAT_PENALTY", "1",
          "Makes repeated tokens less likely; 1 is off.", number_into(sampling.repeat_penalty, 0.0F, kLargest)),
      row(group, "--repeat-last-n", {}, {}, "N", "", "64",
          "Tokens the penalties look back; 0 is off, -1 the whole context.", number_into(sampling.repeat_last_n, -1)),
      row(group, "--presence-penalty", {}, {}, "N", "LLAMA_ARG_PRESENCE_PENALTY", "0",
          "Taken off the logit of every token that occurred.",
          number_into(sampling.presence_penalty, -kLargest, kLargest)),
      row(group, "--frequency-penalty", {}, {}, "N", "LLAMA_ARG_FREQUENCY_PENALTY", "0",
          "Taken off a token's logit for each time it occurred.",
          number_into(sampling.frequency_penalty, -kLargest, kLargest)),
      row(group, "--ignore-eos", {}, {}, "", "", "off", "Go on where the model would end its reply.",
          switch_into(sampling.ignore_eos)),
  };
}

}  // namespace kvkeep::cli
