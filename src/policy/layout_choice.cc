#include "policy/layout_choice.h"

#include <algorithm>
#include <utility>

namespace kvkeep::policy {

namespace {

// Measured on processors with flash attention (docs/decisions/0016): a masked cell costs this part of one that is not,
// and a row that several sequences read in one step saves this part of each further reading.
constexpr double kMaskedCell = 0.2;
constexpr double kSharedRow = 0.25;

// The other layout must be faster by this much to count as faster at all.
constexpr double kMargin = 1.1;

constexpr std::size_t kFirstSteps = 2;     // after a change, with memory that was never touched
constexpr std::size_t kLastCompared = 64;  // later, the sequences have become others
constexpr double kMostCorrection = 4;

}  // namespace

double pool_to_own(const LayoutFacts& facts, const DecodedView& decoded) {
  const auto requests = static_cast<double>(decoded.requests);
  const auto tokens = static_cast<double>(decoded.tokens);
  const auto distinct = static_cast<double>(decoded.distinct);
  const double masked = requests * (distinct + static_cast<double>(decoded.other_cells)) - tokens;
  const double own = facts.weight_bytes + facts.row_bytes * tokens;
  const double extra = facts.row_bytes * (kMaskedCell * masked - kSharedRow * (tokens - distinct));
  return own > 0 ? (own + extra) / own : 1;
}

void LayoutChoice::Steps::add(const DecodedView& decoded, double ms) {
  if (decoded.requests != last.requests) *this = {};
  last = decoded;
  last_ms[count++ % kComparedSteps] = ms;
}

double LayoutChoice::Steps::least_ms() const { return std::ranges::min(last_ms); }

void LayoutChoice::note_step(const DecodedView& decoded, double ms) {
  ++since_change_;
  if (since_change_ > kFirstSteps) now_.add(decoded, ms);
  compare();
  const double pool = pool_to_own(facts_, decoded) * correction_;
  const double other = own_cells_ ? pool : 1 / pool;
  lost_ms_ = std::max(0.0, lost_ms_ + ms * (1 - kMargin * other));
  if (!own_cells_ && !decoded.fits_own_cells) lost_ms_ = 0;
}

// The same requests were decoded in both layouts: the times say what the estimate should have said.
void LayoutChoice::compare() {
  if (!before_) return;
  if (since_change_ > kLastCompared) return before_.reset();
  if (now_.last.requests != before_->last.requests || now_.count < kComparedSteps) return;
  const Steps& pool = own_cells_ ? *before_ : now_;
  const Steps& own = own_cells_ ? now_ : *before_;
  const double measured = pool.least_ms() / own.least_ms() / pool_to_own(facts_, pool.last);
  if (own.least_ms() > 0) correction_ = std::clamp(measured, 1 / kMostCorrection, kMostCorrection);
  before_.reset();
}

void LayoutChoice::note_changed(bool own_cells, double ms) {
  own_cells_ = own_cells;
  lost_ms_ = 0;
  change_ms_ = std::max(kLeastChangeMs, (change_ms_ + 2 * ms) / 2);  // putting rows back takes as long again
  since_change_ = 0;
  before_.reset();
  const Steps steps = std::exchange(now_, {});
  if (steps.count >= kComparedSteps) before_ = steps;
}

}  // namespace kvkeep::policy
