#include "rope_flags.h"

#include "flag_values.h"

namespace kvkeep::cli {

std::vector<Flag> rope_flags(RopeOptions& rope) {
  constexpr std::uint32_t kTokensMax = 1U << 30;
  constexpr float kSmallest = 1e-6F;
  constexpr float kLargest = 1e12F;
  return {
      {.group = "RoPE",
       .spelling = "--rope-scaling none|linear|yarn",
       .environment = "LLAMA_ARG_ROPE_SCALING_TYPE",
       .default_text = "from the model",
       .effect = "How positions are scaled beyond the trained context.",
       .assign = choice_into<RopeScaling>(
           rope.scaling,
           {{"none", RopeScaling::kNone}, {"linear", RopeScaling::kLinear}, {"yarn", RopeScaling::kYarn}})},
      {.spelling = "--rope-scale N",
       .environment = "LLAMA_ARG_ROPE_SCALE",
       .default_text = "from the model",
       .effect = "Context scaling factor; the same as --rope-freq-scale with 1/N.",
       .assign = [&rope](const std::string& text) -> Status {
         TRY_ASSIGN(const float factor, parse_number(text, kSmallest, kLargest));
         rope.frequency_scale = 1.0F / factor;
         return {};
       }},
      {.spelling = "--rope-freq-base N",
       .environment = "LLAMA_ARG_ROPE_FREQ_BASE",
       .default_text = "from the model",
       .effect = "Base frequency.",
       .assign = number_into(rope.frequency_base, kSmallest, kLargest)},
      {.spelling = "--rope-freq-scale N",
       .environment = "LLAMA_ARG_ROPE_FREQ_SCALE",
       .default_text = "from the model",
       .effect = "Frequency scaling factor: expands the context by 1/N.",
       .assign = number_into(rope.frequency_scale, kSmallest, kLargest)},
      {.spelling = "--yarn-orig-ctx N",
       .environment = "LLAMA_ARG_YARN_ORIG_CTX",
       .default_text = "0, from the model",
       .effect = "Context the model was trained with.",
       .assign = number_into(rope.yarn_original_context, 0U, kTokensMax)},
      {.spelling = "--yarn-ext-factor N",
       .environment = "LLAMA_ARG_YARN_EXT_FACTOR",
       .default_text = "-1, from the model",
       .effect = "Extrapolation mix; 0 interpolates fully.",
       .assign = number_into(rope.yarn_extrapolation, -1.0F, kLargest)},
      {.spelling = "--yarn-attn-factor N",
       .environment = "LLAMA_ARG_YARN_ATTN_FACTOR",
       .default_text = "-1, from the model",
       .effect = "Scale of the attention's magnitude.",
       .assign = number_into(rope.yarn_attention, -1.0F, kLargest)},
      {.spelling = "--yarn-beta-slow N",
       .environment = "LLAMA_ARG_YARN_BETA_SLOW",
       .default_text = "-1, from the model",
       .effect = "High correction dimension.",
       .assign = number_into(rope.yarn_beta_slow, -1.0F, kLargest)},
      {.spelling = "--yarn-beta-fast N",
       .environment = "LLAMA_ARG_YARN_BETA_FAST",
       .default_text = "-1, from the model",
       .effect = "Low correction dimension.",
       .assign = number_into(rope.yarn_beta_fast, -1.0F, kLargest)},
  };
}

}  // namespace kvkeep::cli
