#include "server/trace/savings.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "server/run/scheduler_stats.h"
#include "store/small_files.h"

namespace kvkeep::server {
namespace {

constexpr ByteCount kMostWorkBytes = ByteCount{4 << 10};

std::uint64_t microseconds(double ms) { return static_cast<std::uint64_t>(std::max(ms, 0.0) * 1e3); }
double milliseconds(std::uint64_t us) { return static_cast<double>(us) / 1e3; }

format::WorkRecord record_of(const Work& work, std::int64_t since_ns) {
  return {.since_ns = since_ns,
          .reused_tokens = work.reused_tokens,
          .load_us = microseconds(work.load_ms),
          .prefilled_tokens = work.prefilled_tokens,
          .prefill_us = microseconds(work.prefill_ms)};
}

Work work_in(const format::WorkRecord& record) {
  return {.reused_tokens = record.reused_tokens,
          .load_ms = milliseconds(record.load_us),
          .prefilled_tokens = record.prefilled_tokens,
          .prefill_ms = milliseconds(record.prefill_us)};
}

// Returns nullopt if there is none.
std::optional<format::WorkRecord> read_work(os::FileSystem& files, const std::string& path) {
  const auto records = store::read_records(files, path, format::kWorkRecords, kMostWorkBytes);
  if (!records) {
    spdlog::warn("saved time cannot be read: {}; counting anew", records.error().message);
    return std::nullopt;
  }
  if (records->payloads.empty() && !records->damaged) return std::nullopt;
  const auto record = records->payloads.size() == 1 ? format::decode_work(records->payloads.front())
                                                    : Result<format::WorkRecord>(damaged("not one record"));
  if (record) return *record;
  spdlog::warn("saved time: {} is damaged; counting anew", path);
  return std::nullopt;
}

}  // namespace

void Work::add(const Work& more) {
  reused_tokens += more.reused_tokens;
  load_ms += more.load_ms;
  prefilled_tokens += more.prefilled_tokens;
  prefill_ms += more.prefill_ms;
}

void Work::subtract(const Work& part) {
  reused_tokens -= part.reused_tokens;
  load_ms -= part.load_ms;
  prefilled_tokens -= part.prefilled_tokens;
  prefill_ms -= part.prefill_ms;
}

double Work::saved_s() const {
  if (prefilled_tokens == 0) return 0;
  const double per_token_ms = prefill_ms / static_cast<double>(prefilled_tokens);
  return std::max(0.0, per_token_ms * static_cast<double>(reused_tokens) - load_ms) / 1e3;
}

Work work_of(const SchedulerStats& stats) {
  return {.reused_tokens = stats.figures.reused_tokens,
          .load_ms = stats.figures.reuse_load_ms,
          .prefilled_tokens = stats.prefilled_tokens,
          .prefill_ms = stats.prefill_ms};
}

Work read_kept_work(os::FileSystem& files, const std::string& path) {
  const auto record = read_work(files, path);
  return record ? work_in(*record) : Work{};
}

Savings::Savings(SavingsOptions options, os::FileSystem& files)
    : options_(std::move(options)), files_(files), since_ns_(options_.now_ns) {
  if (options_.path.empty()) return;
  const MutexLock lock(mutex_);
  waits_for_file_ = options_.may_write && !options_.may_write();
  const auto record = read_work(files_, options_.path);
  if (!record) return;
  begin_with(*record, {});
  written_ = *record;
}

void Savings::begin_with(const format::WorkRecord& record, const Work& own) {
  const MutexLock lock(base_mutex_);
  before_ = work_in(record);
  own_ = own;
  since_ns_ = record.since_ns;
}

Work Savings::ever(const Work& now) const {
  const MutexLock lock(base_mutex_);
  Work all = before_;
  all.add(now);
  all.subtract(own_);
  return all;
}

std::int64_t Savings::since_ns() const {
  const MutexLock lock(base_mutex_);
  return since_ns_;
}

void Savings::keep(const Work& now) {
  if (options_.path.empty()) return;
  const MutexLock lock(mutex_);
  if (options_.may_write && !options_.may_write()) {
    waits_for_file_ = true;
    return;
  }
  // The other server's sums are in the file only.
  const bool is_others = std::exchange(waits_for_file_, false);
  if (const auto record = is_others ? read_work(files_, options_.path) : std::nullopt) begin_with(*record, kept_);
  const format::WorkRecord record = record_of(ever(now), since_ns());
  if (record == written_) return;
  const auto done =
      store::RecordLog::rewrite(files_, options_.path, format::kWorkRecords, {format::encode_work(record)});
  if (done) {
    written_ = record;
    kept_ = now;
    return;
  }
  if (std::exchange(reported_failure_, true)) return;
  spdlog::warn("saved time cannot be written: {}; a restart will count anew from the last that was written",
               done.error().message);
}

}  // namespace kvkeep::server
