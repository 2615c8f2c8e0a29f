#pragma once

// Restore or prefill (design: if loading would cost more than prefilling, prefill). Pure.

#include <cstdint>

#include "base/types.h"

namespace kvkeep::policy {

enum class RestoreMode { kAuto, kAlways };

// Rates measured while the server runs; 0 means not yet known.
struct Rates {
  double prefill_tokens_per_s = 0;
  double ram_restore_bytes_per_s = 0;
  double disk_read_bytes_per_s = 0;
};

struct RestoreCost {
  std::uint64_t tokens = 0;  // tokens that need not be prefilled
  ByteCount ram_bytes;       // to copy into the model's memory, disk bytes included
  ByteCount disk_bytes;      // to read first
};

// kAlways: true if tokens > 0. kAuto: true unless both rates are known and loading is slower than prefilling.
bool worth_restoring(RestoreMode mode, const Rates& rates, const RestoreCost& cost);

// Exponentially weighted mean of a rate (weight of the new sample: 1/4); the first sample is taken as it is.
double update_rate(double rate, double amount, double seconds);

}  // namespace kvkeep::policy
