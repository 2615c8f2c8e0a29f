#include "model_maker/recurrent_blocks.h"

namespace kvkeep::gguf {
namespace {

constexpr std::int64_t kKernel = 4;       // inputs that a convolution mixes
constexpr std::int64_t kMambaState = 16;  // values per channel
constexpr std::int64_t kMamba2State = 64;
constexpr std::int64_t kShortKernel = 3;

// A time step is softplus(bias + projection); per token a state keeps exp(-step * rate) of itself. With these values it
// keeps most for hundreds of tokens.
constexpr Between kStepBias{-6, -3};
constexpr Between kRate{-0.1F, -0.002F};
constexpr float kSkip = 0.25F;  // the part of an input that bypasses the state

// Gains of projections into a block. If the output of a state is normalised, inputs are faint: SiLU of a large one is
// positive in the mean, states would add up these means, and the differences between tokens would be lost in them.
constexpr float kInput = 2;
constexpr float kFaintInput = 0.5F;
constexpr float kOutput = 4;

std::int64_t inner_size(const Shape& shape) { return 2 * shape.width; }  // libllama accepts no other for Mamba
std::int64_t time_step_rank(const Shape& shape) { return shape.width / 16; }
std::int64_t inner_heads(const Shape& shape) { return inner_size(shape) / kHeadSize; }

void add_keys(PlanBuilder& plan, std::int64_t state, std::int64_t time_step_rank) {
  plan.number("ssm.conv_kernel", kKernel);
  plan.number("ssm.inner_size", inner_size(plan.shape()));
  plan.number("ssm.state_size", state);
  plan.number("ssm.time_step_rank", time_step_rank);
}

// Keeps the length of independent inputs.
void add_convolution(PlanBuilder& plan, std::int64_t channels) {
  plan.values("ssm_conv1d.weight", {kKernel, channels}, gain(1, kKernel));
}

}  // namespace

void add_mamba_keys(PlanBuilder& plan) { add_keys(plan, kMambaState, time_step_rank(plan.shape())); }

void add_mamba(PlanBuilder& plan, bool with_norms) {
  const std::int64_t width = plan.shape().width;
  const std::int64_t inner = inner_size(plan.shape());
  const std::int64_t rank = time_step_rank(plan.shape());
  plan.matrix("ssm_in", width, 2 * inner, kInput);
  add_convolution(plan, inner);
  plan.values("ssm_conv1d.bias", {inner}, Constant{0});
  plan.matrix("ssm_x", inner, rank + 2 * kMambaState, kInput);
  if (with_norms) {
    plan.norm("ssm_dt_norm", rank);
    plan.norm("ssm_b_norm", kMambaState);
    plan.norm("ssm_c_norm", kMambaState);
  }
  plan.matrix("ssm_dt", rank, inner, 1);
  plan.values("ssm_dt.bias", {inner}, kStepBias);
  plan.values("ssm_a", {kMambaState, inner}, kRate);
  plan.values("ssm_d", {inner}, Constant{kSkip});
  plan.matrix("ssm_out", inner, width, kOutput);
}

void add_mamba2_keys(PlanBuilder& plan) {
  add_keys(plan, kMamba2State, inner_heads(plan.shape()));
  plan.number("ssm.group_count", 1);
}

void add_mamba2(PlanBuilder& plan) {
  const std::int64_t width = plan.shape().width;
  const std::int64_t inner = inner_size(plan.shape());
  const std::int64_t heads = inner_heads(plan.shape());
  const std::int64_t convolved = inner + 2 * kMamba2State;
  plan.matrix("ssm_in", width, inner + convolved + heads, kFaintInput);
  add_convolution(plan, convolved);
  plan.values("ssm_conv1d.bias", {convolved}, Constant{0});
  plan.values("ssm_dt.bias", {heads}, kStepBias);
  plan.values("ssm_a", {1, heads}, kRate);
  plan.values("ssm_d", {1, heads}, Constant{kSkip});
  plan.values("ssm_norm.weight", {inner, 1}, Constant{1});
  plan.matrix("ssm_out", inner, width, kOutput);
}

void add_delta_net_keys(PlanBuilder& plan) {
  add_keys(plan, kHeadSize, inner_heads(plan.shape()));
  plan.number("ssm.group_count", inner_heads(plan.shape()) / 2);
}

void add_delta_net(PlanBuilder& plan) {
  const std::int64_t width = plan.shape().width;
  const std::int64_t values = inner_size(plan.shape());
  const std::int64_t heads = inner_heads(plan.shape());
  const std::int64_t convolved = 2 * values;  // queries and keys have half as many heads as values
  plan.matrix("attn_qkv", width, convolved, kFaintInput);
  plan.matrix("attn_gate", width, values, kInput);
  add_convolution(plan, convolved);
  plan.values("ssm_dt.bias", {heads}, kStepBias);
  plan.values("ssm_a", {heads}, kRate);
  plan.matrix("ssm_beta", width, heads, 1);
  plan.matrix("ssm_alpha", width, heads, 1);
  plan.norm("ssm_norm", kHeadSize);
  plan.matrix("ssm_out", values, width, kOutput);
}

void add_short_convolution_keys(PlanBuilder& plan) { plan.number("shortconv.l_cache", kShortKernel); }

void add_short_convolution(PlanBuilder& plan) {
  const std::int64_t width = plan.shape().width;
  plan.matrix("shortconv.in_proj", width, 3 * width, 1);
  plan.values("shortconv.conv.weight", {kShortKernel, width}, gain(1, kShortKernel));
  plan.matrix("shortconv.out_proj", width, width, kOutput);
}

}  // namespace kvkeep::gguf
