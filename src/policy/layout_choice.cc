#include "policy/layout_choice.h"

#include <algorithm>
#include <utility>

namespace kvkeep::policy {

namespace {

// The other layout must be faster by this much to count as faster at all.
constexpr double kMargin = 1.1;

// A masked cell costs a token of a slice this part of what it costs a decoded one: the least of what was measured
// (docs/decisions/0016), so that no margin is needed.
constexpr double kSlicePart = 0.1;

constexpr std::size_t kFirstSteps = 2;     // after a change, with memory that was never touched
constexpr std::size_t kLastCompared = 64;  // later, the sequences have become others

// A comparison says something of a price only if that is taken to make this much of the step.
constexpr double kLeastPart = 0.05;
// Times what is taken at first. Below 0, cells that are masked are no cost, or rows that are shared no gain.
constexpr double kLeastPrice = -1;
constexpr double kMostPrice = 4;
constexpr double kLeastRatio = 0.25;

// A step in a pool reads more by `masked` and less by `shared` than one in cells of their own, as parts of what the
// latter reads.
struct PoolParts {
  double masked = 0;
  double shared = 0;
};

double own_bytes(const LayoutFacts& facts, const DecodedView& decoded) {
  return facts.weight_bytes + facts.row_bytes * static_cast<double>(decoded.tokens);
}

PoolParts parts_of(const LayoutFacts& facts, const DecodedView& decoded) {
  const auto requests = static_cast<double>(decoded.requests);
  const auto tokens = static_cast<double>(decoded.tokens);
  const auto distinct = static_cast<double>(decoded.distinct);
  const double own = own_bytes(facts, decoded);
  if (own <= 0) return {};
  const double masked = requests * (distinct + static_cast<double>(decoded.other_cells)) - tokens;
  return {.masked = facts.row_bytes * masked / own, .shared = facts.row_bytes * (tokens - distinct) / own};
}

void set_price(double& price, double first, double measured) {
  price = std::clamp(measured, kLeastPrice * first, kMostPrice * first);
}

}  // namespace

double pool_to_own(const LayoutFacts& facts, const DecodedView& decoded, const LayoutPrices& prices) {
  const PoolParts parts = parts_of(facts, decoded);
  return std::max(kLeastRatio, 1 + prices.masked_cell * parts.masked - prices.shared_row * parts.shared);
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
  const double pool = pool_to_own(facts_, decoded, prices_);
  const double other = own_cells_ ? pool : 1 / pool;
  lose(ms * (1 - kMargin * other), decoded.fits_own_cells);
  pay(ms * (other - 1));
  const double own_ms = own_cells_ ? ms : ms / pool;
  if (const double bytes = own_bytes(facts_, decoded); bytes > 0) ms_per_byte_ = own_ms / bytes;
}

void LayoutChoice::note_slice(const SliceView& slice, double ms) {
  const double masked_ms = ms_per_byte_ * facts_.row_bytes * kSlicePart * prices_.masked_cell * slice.masked;
  lose(own_cells_ ? -masked_ms : masked_ms, slice.fits_own_cells);
  if (own_cells_) pay(masked_ms);
  if (slice.tokens < kTimedSlice) return;
  slice_ms_ = ms;
  slice_tokens_ = slice.tokens;
}

void LayoutChoice::lose(double ms, bool fits_own_cells) {
  lost_ms_ = std::max(0.0, lost_ms_ + ms);
  if (!own_cells_ && !fits_own_cells) lost_ms_ = 0;
}

// The layout in use saved so much next to the other one.
void LayoutChoice::pay(double ms) { owed_ms_ = std::max(0.0, owed_ms_ - std::max(0.0, ms)); }

// How long a step takes at least in cells of their own: as long as to read what it reads, and as long as its tokens
// took among those of a slice.
double LayoutChoice::least_own_ms(const DecodedView& decoded) const {
  const double reads_ms = ms_per_byte_ * own_bytes(facts_, decoded);
  if (slice_tokens_ == 0) return reads_ms;
  const double part = static_cast<double>(decoded.requests) / static_cast<double>(slice_tokens_);
  return std::max(reads_ms, slice_ms_ * std::min(1.0, part));
}

// A single request waits for the loss: idle conversations, whose cells it passes over, may leave before it ends.
bool LayoutChoice::coming_pays(const DecodedView& coming, double steps) const {
  if (coming.requests < 2 || owed_ms_ > 0 || !are_priced_ || (!own_cells_ && !coming.fits_own_cells)) return false;
  const double pool = pool_to_own(facts_, coming, prices_);
  const double own_ms = least_own_ms(coming);
  const double ms = own_cells_ ? own_ms : own_ms * pool;
  return steps * ms * (1 - kMargin * (own_cells_ ? pool : 1 / pool)) >= change_ms_;
}

// The same requests were decoded in both layouts: the times say what the estimate should have said.
void LayoutChoice::compare() {
  if (!before_) return;
  if (since_change_ > kLastCompared) return before_.reset();
  if (now_.last.requests != before_->last.requests || now_.count < kComparedSteps) return;
  const Steps& pool = own_cells_ ? *before_ : now_;
  const Steps& own = own_cells_ ? now_ : *before_;
  if (own.least_ms() > 0) correct(pool.last, pool.least_ms() / own.least_ms());
  before_.reset();
}

// One ratio tells one price: that of the part which would weigh more at first prices, so that a price of 0 can be
// corrected again.
void LayoutChoice::correct(const DecodedView& in_pool, double measured) {
  constexpr LayoutPrices kFirst;
  const PoolParts parts = parts_of(facts_, in_pool);
  const double masked = kFirst.masked_cell * parts.masked;
  const double shared = kFirst.shared_row * parts.shared;
  if (std::max(masked, shared) < kLeastPart) return;
  are_priced_ = true;
  if (masked >= shared) {
    set_price(prices_.masked_cell, kFirst.masked_cell,
              (measured - 1 + prices_.shared_row * parts.shared) / parts.masked);
  } else {
    set_price(prices_.shared_row, kFirst.shared_row,
              (1 + prices_.masked_cell * parts.masked - measured) / parts.shared);
  }
}

void LayoutChoice::note_changed(bool own_cells, double ms, bool ahead) {
  own_cells_ = own_cells;
  lost_ms_ = 0;
  change_ms_ = std::max(kLeastChangeMs, (change_ms_ + 2 * ms) / 2);  // putting rows back takes as long again
  if (ahead) owed_ms_ += change_ms_;
  since_change_ = 0;
  before_.reset();
  const Steps steps = std::exchange(now_, {});
  if (steps.count >= kComparedSteps) before_ = steps;
}

}  // namespace kvkeep::policy
