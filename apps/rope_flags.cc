#include "rope_flags.h"

#include "flag_binding.h"

namespace kvkeep::cli {

std::vector<Flag> rope_flags(RopeOptions& rope) {
  const char* group = "RoPE";
  constexpr std::uint32_t kTokensMax = 1U << 30;
  constexpr float kSmallest = 1e-6F;
  constexpr float kLargest = 1e12F;
  return {
      row(group, "--rope-scaling", {}, {}, "none|linear|yarn", "LLAMA_ARG_ROPE_SCALING_TYPE", "from the model",
          "How positions are scaled beyond the trained context.",
          choice_into<RopeScaling>(
              rope.scaling,
              {{"none", RopeScaling::kNone}, {"linear", RopeScaling::kLinear}, {"yarn", RopeScaling::kYarn}})),
      row(group, "--rope-scale", {}, {}, "N", "LLAMA_ARG_ROPE_SCALE", "from the model",
          "Context scaling factor; the same as --rope-freq-scale with 1/N.",
          [&rope](const std::string& text) -> Status {
            TRY_ASSIGN(const float factor, parse_number(text, kSmallest, kLargest));
            rope.frequency_scale = 1.0F / factor;
            return {};
          }),
      row(group, "--rope-freq-base", {}, {}, "N", "LLAMA_ARG_ROPE_FREQ_BASE", "from the model", "Base frequency.",
          number_into(rope.frequency_base, kSmallest, kLargest)),
      row(group, "--rope-freq-scale", {}, {}, "N", "LLAMA_ARG_ROPE_FREQ_SCALE", "from the model",
          "Frequency scaling factor: expands the context by 1/N.",
          number_into(rope.frequency_scale, kSmallest, kLargest)),
      row(group, "--yarn-orig-ctx", {}, {}, "N", "LLAMA_ARG_YARN_ORIG_CTX", "0, from the model",
          "Context the model was trained with.", number_into(rope.yarn_original_context, 0U, kTokensMax)),
      row(group, "--yarn-ext-factor", {}, {}, "N", "LLAMA_ARG_YARN_EXT_FACTOR", "-1, from the model",
          "Extrapolation mix; 0 interpolates fully.", number_into(rope.yarn_extrapolation, -1.0F, kLargest)),
      row(group, "--yarn-attn-factor", {}, {}, "N", "LLAMA_ARG_YARN_ATTN_FACTOR", "-1, from the model",
          "Scale of the attention's magnitude.", number_into(rope.yarn_attention, -1.0F, kLargest)),
      row(group, "--yarn-beta-slow", {}, {}, "N", "LLAMA_ARG_YARN_BETA_SLOW", "-1, from the model",
          "High correction dimension.", number_into(rope.yarn_beta_slow, -1.0F, kLargest)),
      row(group, "--yarn-beta-fast", {}, {}, "N", "LLAMA_ARG_YARN_BETA_FAST", "-1, from the model",
          "Low correction dimension.", number_into(rope.yarn_beta_fast, -1.0F, kLargest)),
  };
}

}  // namespace kvkeep::cli
