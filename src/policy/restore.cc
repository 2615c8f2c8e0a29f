#include "policy/restore.h"

#include <algorithm>

namespace kvkeep::policy {

namespace {

// Samples of models without rows are measured from so many bytes on.
constexpr std::uint64_t kLeastBytesWithoutRows = 64 << 10;

// Seconds at the rate; an unknown rate counts as no time, so that it never speaks against restoring.
double seconds_at(double amount, double rate) { return rate > 0 ? amount / rate : 0; }

}  // namespace

std::string_view to_string(CacheTier tier) {
  switch (tier) {
    case CacheTier::kRam: return "ram";
    case CacheTier::kDisk: return "disk";
    case CacheTier::kShared: return "shared";
  }
  return "ram";
}

void RestoreCost::add_read(CacheTier tier, ByteCount bytes) {
  if (tier == CacheTier::kDisk) disk_bytes += bytes;
  if (tier != CacheTier::kShared) return;
  shared_bytes += bytes;
  ++shared_reads;
}

bool worth_restoring(RestoreMode mode, const Rates& rates, const RestoreCost& cost) {
  if (cost.tokens == 0) return false;
  if (mode == RestoreMode::kAlways || rates.prefill_tokens_per_s <= 0) return true;
  const double load_s = seconds_at(static_cast<double>(cost.ram_bytes.value()), rates.ram_restore_bytes_per_s) +
                        seconds_at(static_cast<double>(cost.disk_bytes.value()), rates.disk_read_bytes_per_s) +
                        seconds_at(static_cast<double>(cost.shared_bytes.value()), rates.shared_read_bytes_per_s) +
                        static_cast<double>(cost.shared_reads) * rates.shared_wait_s;
  return load_s <= seconds_at(static_cast<double>(cost.tokens), rates.prefill_tokens_per_s);
}

double update_rate(double rate, double amount, double seconds, double least_amount) {
  if (amount <= 0 || amount < least_amount || seconds <= 0) return rate;
  const double sample = amount / seconds;
  return rate > 0 ? rate + (sample - rate) / 4 : sample;
}

RateMeter::RateMeter(std::uint64_t row_bytes)
    : least_bytes_(static_cast<double>(row_bytes > 0 ? row_bytes : kLeastBytesWithoutRows)) {}

void RateMeter::note_prefilled(std::size_t tokens, double ms) {
  rates_.prefill_tokens_per_s =
      update_rate(rates_.prefill_tokens_per_s, static_cast<double>(tokens), ms / 1e3, kLeastMeasuredTokens);
}

void RateMeter::note_restored(double bytes, double ms) {
  rates_.ram_restore_bytes_per_s = update_rate(rates_.ram_restore_bytes_per_s, bytes, ms / 1e3, least_bytes_);
}

void RateMeter::note_read(ByteCount bytes, double ms) {
  const auto amount = static_cast<double>(bytes.value());
  rates_.disk_read_bytes_per_s = update_rate(rates_.disk_read_bytes_per_s, amount, ms / 1e3, least_bytes_);
}

// A read takes the wait and the time of its bytes. If the wait is said to be longer than all of it, other work held up
// the question by which it was measured.
void RateMeter::note_shared_read(ByteCount bytes, std::size_t reads, double ms) {
  const double wait_s = std::min(static_cast<double>(reads) * rates_.shared_wait_s, ms / 1e3 / 2);
  rates_.shared_read_bytes_per_s =
      update_rate(rates_.shared_read_bytes_per_s, static_cast<double>(bytes.value()), ms / 1e3 - wait_s, least_bytes_);
}

void RateMeter::note_shared_answer(double ms) {
  const double sample_s = ms / 1e3;
  rates_.shared_wait_s =
      rates_.shared_wait_s > 0 ? rates_.shared_wait_s + (sample_s - rates_.shared_wait_s) / 4 : sample_s;
}

void RestoreTrials::note_restored() {
  constexpr std::uint32_t kFirstInterval = 4;
  constexpr std::uint32_t kLongestInterval = 64;
  interval_ = due() ? std::min(interval_ * 2, kLongestInterval) : kFirstInterval;
  refused_ = 0;
}

}  // namespace kvkeep::policy
