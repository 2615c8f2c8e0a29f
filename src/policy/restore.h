#pragma once

// Restore or prefill (design: if loading would cost more than prefilling, prefill). Pure.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/types.h"

namespace kvkeep::policy {

enum class RestoreMode { kAuto, kAlways };

// Where a copy of cached state lies, the fastest first. The last one counts for parts that are needed together.
enum class CacheTier : std::uint8_t { kRam, kDisk, kShared };
inline constexpr std::size_t kCacheTiers = 3;
std::string_view to_string(CacheTier tier);

// Rates measured while the server runs; 0 means not yet known.
struct Rates {
  double prefill_tokens_per_s = 0;
  double ram_restore_bytes_per_s = 0;
  double disk_read_bytes_per_s = 0;
  double shared_read_bytes_per_s = 0;
  double shared_wait_s = 0;  // until the first byte of a read from the shared tier
};

struct RestoreCost {
  std::uint64_t tokens = 0;  // tokens that need not be prefilled
  ByteCount ram_bytes;       // to copy into the model's memory, bytes of other tiers included
  ByteCount disk_bytes;      // to read first
  ByteCount shared_bytes = {};
  std::uint64_t shared_reads = 0;  // copies that the shared tier is asked for
  void add_read(CacheTier tier, ByteCount bytes);
};

// Returns true under kAlways if tokens > 0, under kAuto unless loading is slower than prefill, by the rates that are
// known.
bool worth_restoring(RestoreMode mode, const Rates& rates, const RestoreCost& cost);

// Samples of fewer tokens, or of the bytes of fewer, say more about the cost of every call than about the rate.
inline constexpr std::size_t kLeastMeasuredTokens = 32;

// Exponentially weighted mean of a rate (weight of the new sample: 1/4); the first sample is taken as it is. Samples of
// less than `least_amount` change nothing.
double update_rate(double rate, double amount, double seconds, double least_amount);

// Measures the rates. Not thread safe.
class RateMeter {
 public:
  // `row_bytes`: of kLeastMeasuredTokens rows; 0: the model has none.
  explicit RateMeter(std::uint64_t row_bytes);

  void note_prefilled(std::size_t tokens, double ms);
  void note_restored(double bytes, double ms);
  void note_read(ByteCount bytes, double ms);
  // `reads` copies came from the shared tier.
  void note_shared_read(ByteCount bytes, std::size_t reads, double ms);
  // The shared tier answered a question of a few bytes.
  void note_shared_answer(double ms);
  const Rates& rates() const { return rates_; }

 private:
  const double least_bytes_;
  Rates rates_;
};

// A rate that speaks against restoring is never measured again, though it may have been one bad moment: so a restore is
// tried now and then, first after 4 refusals, then after twice as many each time, at most 64.
class RestoreTrials {
 public:
  // Returns true if the next restore is to be made at any rates.
  bool due() const { return refused_ >= interval_; }
  void note_refused() { ++refused_; }
  void note_restored();

 private:
  std::uint32_t refused_ = 0;  // since the last trial
  std::uint32_t interval_ = 4;
};

}  // namespace kvkeep::policy
