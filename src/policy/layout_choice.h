#pragma once

// Chooses between one pool of cells for all sequences and cells of each one's own, by the time that calls take. Pure.
//
// In a pool a prefix that sequences share lies there once, but a step computes each sequence over the cells of all,
// those of others masked. In cells of its own each is computed over its own, and a common prefix lies there many times.
// A step in the other layout is estimated from the tokens that the sequences hold (pool_to_own), by prices that steps
// before and after earlier changes correct. The tokens of a prompt pass over the cells of others as well, at a small
// part of that price. What each call loses to the other layout adds up; when that has become as much as a change costs,
// a change pays. So whatever comes next, the loss is a small multiple of what it would have been with foresight.
//
// Replies of a hundred tokens may end before that. So when several requests are about to decode together, what they are
// going to lose is estimated (coming_pays), and a change pays before they do. It may turn out to be wrong: the requests
// may end early. Then no other one is made ahead of a loss until calls have won in the layout in use what it cost.

#include <array>
#include <cstddef>
#include <optional>

namespace kvkeep::policy {

struct LayoutFacts {
  double row_bytes = 0;     // of a token
  double weight_bytes = 0;  // of the model
  bool are_priced = true;   // prices were measured on a device of this kind
};

// The sequences that a call decodes.
struct DecodedView {
  std::size_t requests = 0;
  std::size_t tokens = 0;       // that they hold, summed
  std::size_t distinct = 0;     // the same, a common prefix counted once
  std::size_t other_cells = 0;  // that others hold: in a pool these count as well
  bool fits_own_cells = true;   // each fits into cells of its own, and has room there to go on
};

// A slice of a prompt, and tokens that replies decode in the same call.
struct SliceView {
  std::size_t tokens = 0;      // that the call computes
  double masked = 0;           // in a pool: cells of others that each token passes over, summed
  bool fits_own_cells = true;  // as above, for each of these requests
};

// Parts of the time that reading a row once takes. At first as measured on processors with flash attention
// (docs/decisions/0016).
struct LayoutPrices {
  double masked_cell = 0.2;  // costs this much in a pool
  double shared_row = 0.25;  // saves this much there at each further reading in one step
};

// Estimates a step's time in a pool divided by its time in cells of their own: exactly 1 where the pool has neither
// masked cells nor shared rows, whatever the prices are.
double pool_to_own(const LayoutFacts& facts, const DecodedView& decoded, const LayoutPrices& prices = {});

inline constexpr double kFirstChangeMs = 200;  // what a change is taken to cost until one was made
inline constexpr double kLeastChangeMs = 100;
inline constexpr std::size_t kComparedSteps = 8;  // of either layout
inline constexpr std::size_t kForeseen = 128;     // a reply is taken to have at most so many more tokens
inline constexpr std::size_t kTimedSlice = 64;    // a shorter slice does not tell how long a token takes

class LayoutChoice {
 public:
  explicit LayoutChoice(const LayoutFacts& facts) : facts_(facts), are_priced_(facts.are_priced) {}

  // A call decoded a token of each of these and did nothing else, in so many ms.
  void note_step(const DecodedView& decoded, double ms);
  // A call computed a slice, in so many ms. It loses nothing before a step has told how long it takes to read a byte.
  void note_slice(const SliceView& slice, double ms);
  // Returns true if the other layout would have saved what a change costs.
  bool change_pays() const { return lost_ms_ >= change_ms_; }
  // Returns true if calls have told how long a step takes at least.
  bool is_timed() const { return ms_per_byte_ > 0 || slice_tokens_ > 0; }
  // These requests, none of which has decoded much, are about to decode together for `steps` steps. Returns true if the
  // other layout would save what a change costs until then. Returns false while an earlier change ahead of a loss has
  // not paid, and where nothing was measured on a device of this kind before steps were compared.
  bool coming_pays(const DecodedView& coming, double steps) const;
  // The layout was changed, which took so long, up to the first request that goes on. `ahead`: of a loss.
  void note_changed(bool own_cells, double ms, bool ahead = false);
  // No change was possible: the same loss must come together again.
  void note_refused() { lost_ms_ = 0; }

  double change_ms() const { return change_ms_; }
  const LayoutPrices& prices() const { return prices_; }

 private:
  // Steps of as many requests, one after the other.
  struct Steps {
    DecodedView last = {};
    std::size_t count = 0;
    std::array<double, kComparedSteps> last_ms = {};
    void add(const DecodedView& decoded, double ms);
    double least_ms() const;  // other programs make steps longer, never shorter
  };
  void compare();
  void lose(double ms, bool fits_own_cells);
  void pay(double ms);
  double least_own_ms(const DecodedView& decoded) const;
  void correct(const DecodedView& in_pool, double measured);

  const LayoutFacts facts_;
  bool own_cells_ = false;
  double lost_ms_ = 0;
  double owed_ms_ = 0;      // what changes ahead of a loss cost, less what the layout in use has won since
  double ms_per_byte_ = 0;  // of what the last step read, in cells of their own
  double slice_ms_ = 0;     // of the last one of kTimedSlice tokens and more
  std::size_t slice_tokens_ = 0;
  double change_ms_ = kFirstChangeMs;
  LayoutPrices prices_ = {};
  bool are_priced_;
  Steps now_;                    // since the change
  std::optional<Steps> before_;  // the change, until both are compared
  std::size_t since_change_ = 0;
};

}  // namespace kvkeep::policy
