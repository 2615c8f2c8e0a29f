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
// A call of the model takes about as long for one token as for some: fewer tell no rate, and an estimate stays.
constexpr std::uint64_t kLeastTokens = 32;

std::uint64_t microseconds(double ms) { return static_cast<std::uint64_t>(std::max(ms, 0.0) * 1e3); }
double milliseconds(std::uint64_t us) { return static_cast<double>(us) / 1e3; }

format::WorkRecord record_of(const Work& work, std::int64_t since_ns) {
  return {.since_ns = since_ns,
          .reused_tokens = work.reused_tokens,
          .load_us = microseconds(work.load_ms),
          .prefilled_tokens = work.prefilled_tokens,
          .prefill_us = microseconds(work.prefill_ms),
          .saved_us = microseconds(work.saved_ms)};
}

Work work_in(const format::WorkRecord& record) {
  Work work{.reused_tokens = record.reused_tokens,
            .load_ms = milliseconds(record.load_us),
            .prefilled_tokens = record.prefilled_tokens,
            .prefill_ms = milliseconds(record.prefill_us)};
  work.saved_ms = record.saved_us ? milliseconds(*record.saved_us) : std::max(0.0, estimate_saved_ms(work, work));
  return work;
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
  saved_ms += more.saved_ms;
}

void Work::subtract(const Work& part) {
  reused_tokens -= part.reused_tokens;
  load_ms -= part.load_ms;
  prefilled_tokens -= part.prefilled_tokens;
  prefill_ms -= part.prefill_ms;
  saved_ms -= part.saved_ms;
}

double estimate_saved_ms(const Work& part, const Work& all) {
  if (all.prefilled_tokens < kLeastTokens) return 0;
  const double per_token_ms = all.prefill_ms / static_cast<double>(all.prefilled_tokens);
  return per_token_ms * static_cast<double>(part.reused_tokens) - part.load_ms;
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

Work Savings::all(const Work& now) const {
  Work all = before_;
  all.add(now);
  all.subtract(own_);
  return all;
}

Savings::Sums Savings::sums(const Work& now) {
  const MutexLock lock(base_mutex_);
  // Another thread may have come with later figures before.
  if (now.reused_tokens > estimated_.reused_tokens) {
    Work since = now;
    since.subtract(estimated_);
    if (const double ms = estimate_saved_ms(since, all(now)); ms > 0) {
      saved_ms_ += ms;
      estimated_ = now;
    }
  }
  Work own = now;
  own.saved_ms = saved_ms_;
  return {.own = own, .ever = all(own)};
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
  const auto [own, ever] = sums(now);
  const format::WorkRecord record = record_of(ever, since_ns());
  if (record == written_) return;
  const auto done =
      store::RecordLog::rewrite(files_, options_.path, format::kWorkRecords, {format::encode_work(record)});
  if (done) {
    written_ = record;
    kept_ = own;
    return;
  }
  if (std::exchange(reported_failure_, true)) return;
  spdlog::warn("saved time cannot be written: {}; a restart will count anew from the last that was written",
               done.error().message);
}

}  // namespace kvkeep::server
