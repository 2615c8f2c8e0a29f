#pragma once

#include "engine/fake/fake_state.h"
#include "engine/sampling.h"

namespace kvkeep::engine::fake {

inline bool penalises(const SamplingParams& params) {
  if (params.dry_multiplier != 0.0F) return true;
  if (params.repeat_last_n == 0) return false;
  return params.repeat_penalty != 1.0F || params.frequency_penalty != 0.0F || params.presence_penalty != 0.0F;
}

// Greedy text depends only on the rows; with a temperature also on the seed and the count of samples, with a penalty on
// all tokens accepted so far, the prompt's included.
class FakeSampler final : public Sampler {
 public:
  explicit FakeSampler(const SamplingParams& params) : params_(params) {}
  void accept(TokenId token) override {
    if (penalises(params_)) history_ = mix(history_, static_cast<std::uint32_t>(token));
  }
  std::uint64_t influence() const {
    const std::uint64_t chance = params_.temperature > 0.0F ? mix(params_.seed.value_or(UINT32_MAX), samples_) : 0;
    return mix(chance, history_);
  }
  void count_sample() { ++samples_; }
  bool may_end() const { return !params_.ignore_eos; }

 private:
  SamplingParams params_;
  std::uint64_t history_ = 0;
  std::uint64_t samples_ = 0;
};

}  // namespace kvkeep::engine::fake
