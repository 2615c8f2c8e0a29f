#include "policy/slice_meter.h"

#include <algorithm>
#include <bit>

namespace kvkeep::policy {

namespace {

constexpr double kHope = 0.99;      // how fast longer classes are believed to get faster
constexpr double kMostHope = 0.8;   // of the time per token in the class in use: measured long ago, it may be wrong
constexpr double kLeastMs = 0.001;  // a clock may not have moved

std::size_t class_of(std::size_t tokens) { return static_cast<std::size_t>(std::bit_width(tokens)); }

}  // namespace

void SliceMeter::note(const SliceAt& at, std::size_t tokens, double ms) {
  if (tokens < kSliceTile) return;
  const std::size_t own = std::min(class_of(tokens), kClasses - 1);
  const double sample = std::max(ms, kLeastMs) / static_cast<double>(tokens);
  double& known = ms_per_token_[own];
  // Slower at once, faster step by step: a slice that is too long is felt, one that is too short hardly.
  known = known == 0 ? sample : known + (sample - known) / (sample > known ? 2 : 4);
  for (std::size_t i = 0; i < kClasses; ++i) {
    if (ms_per_token_[i] == 0) continue;
    if (i < own) ms_per_token_[i] = std::max(ms_per_token_[i], known);
    if (i > own) ms_per_token_[i] = std::clamp(ms_per_token_[i] * kHope, known * kMostHope, known);
  }
  longest_ = std::max(longest_, tokens);
  own_.note(at, tokens, ms);
}

std::size_t SliceMeter::within(double ms) const {
  std::size_t found = kSliceTile;
  double below = 0;  // of the next shorter class
  const auto first = std::ranges::find_if(ms_per_token_, [](double known) { return known > 0; });
  for (std::size_t i = class_of(kSliceTile); i < kClasses && first != ms_per_token_.end(); ++i) {
    const double known = ms_per_token_[i];
    const bool before_first = i < static_cast<std::size_t>(first - ms_per_token_.begin());
    const double expected = known > 0 ? known : before_first ? *first : below;
    if (expected == 0) break;  // more than twice what was tried
    const std::size_t longest = (std::size_t{1} << i) - 1;
    const double fit = ms / expected;
    const std::size_t tokens = fit < static_cast<double>(longest) ? static_cast<std::size_t>(fit) : longest + 1;
    if (tokens > longest / 2) found = std::max(found, tokens);
    below = known > 0 || before_first ? expected : 0;
  }
  found = std::min(found, std::max(longest_ * 2, kSliceTile));
  return found - found % kSliceTile;
}

std::size_t ahead_slice(double prefill_tokens_per_s, double slice_ms) {
  return std::max(kSliceTile, static_cast<std::size_t>(prefill_tokens_per_s * slice_ms / 1e3));
}

}  // namespace kvkeep::policy
