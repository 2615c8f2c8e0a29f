#include "policy/admit.h"

#include <algorithm>

namespace kvkeep::policy {

namespace {

// At this depth attention costs as much as everything else of a token's prefill.
constexpr double kAttentionTokens = 16384;
// With nothing left, an offer would have to save so many times the usual.
constexpr double kSteepness = 4;

// Returns 0 if there is enough for all, up to 1 if nothing is left.
double scarcity(const AdmitView& view) {
  if (view.most == ByteCount{}) return 1;
  const double share = static_cast<double>(view.left.value()) / static_cast<double>(view.most.value());
  return std::max(0.0, 1 - 2 * share);
}

}  // namespace

double expected_saved_per_byte(const WriteOffer& offer) {
  const double middle = offer.begin.value() + offer.tokens / 2.0;
  const double prefill_cost = offer.tokens * (1.0 + middle / kAttentionTokens);
  return (1 + offer.returns) * prefill_cost / static_cast<double>(std::max<std::uint64_t>(1, offer.bytes.value()));
}

bool admits(const AdmitView& view, const WriteOffer& offer) {
  if (view.left == ByteCount{}) return false;
  const double scarce = scarcity(view);
  if (offer.kept || scarce == 0) return true;
  return expected_saved_per_byte(offer) >= kSteepness * scarce * view.usual_saved;
}

double next_usual_saved(const AdmitView& view, const WriteOffer& offer) {
  const double saved = expected_saved_per_byte(offer);
  if (view.usual_saved == 0 || view.most <= offer.bytes) return saved;
  const double weight = static_cast<double>(offer.bytes.value()) / static_cast<double>(view.most.value());
  return view.usual_saved + (saved - view.usual_saved) * weight;
}

}  // namespace kvkeep::policy
