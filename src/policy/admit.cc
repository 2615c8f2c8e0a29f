#include "policy/admit.h"

#include <algorithm>

namespace kvkeep::policy {

namespace {

// At this depth attention costs as much as everything else of a token's prefill.
constexpr double kAttentionTokens = 16384;
// With nothing left, what passes would be worth so many times the usual.
constexpr double kSteepness = 4;

// 0: enough for all; 1: nothing is left.
double scarcity(const AdmitView& view) {
  if (view.most == ByteCount{}) return 1;
  const double share = static_cast<double>(view.left.value()) / static_cast<double>(view.most.value());
  return std::max(0.0, 1 - 2 * share);
}

}  // namespace

double worth_of_writing(const WriteOffer& offer) {
  const double middle = offer.begin.value() + offer.tokens / 2.0;
  const double prefill_cost = offer.tokens * (1.0 + middle / kAttentionTokens);
  return (1 + offer.returns) * prefill_cost / static_cast<double>(std::max<std::uint64_t>(1, offer.bytes.value()));
}

bool admits(const AdmitView& view, const WriteOffer& offer) {
  if (view.left == ByteCount{}) return false;
  const double scarce = scarcity(view);
  if (offer.kept || scarce == 0) return true;
  return worth_of_writing(offer) >= kSteepness * scarce * view.usual_worth;
}

double next_usual_worth(const AdmitView& view, const WriteOffer& offer) {
  const double worth = worth_of_writing(offer);
  if (view.usual_worth == 0 || view.most <= offer.bytes) return worth;
  const double weight = static_cast<double>(offer.bytes.value()) / static_cast<double>(view.most.value());
  return view.usual_worth + (worth - view.usual_worth) * weight;
}

}  // namespace kvkeep::policy
