// Loading: rows that lie on disk only come into RAM on the reader executor, beside the engine thread.

#include <spdlog/spdlog.h>

#include <utility>

#include "cache/cache.h"

namespace kvkeep::cache {

void Cache::load(std::shared_ptr<Lease> lease, TokenRange range, std::function<void(LoadResult)> done,
                 std::optional<Position> /*point*/) {
  if (lease->loaded(range)) return done({});
  reader_.post([this, lease = std::move(lease), range, done = std::move(done)]() mutable {
    LoadResult result;
    for (LeasedStep& step : lease->steps_) {
      if (step.payload != nullptr || step.range.end <= range.begin || step.range.begin >= range.end) continue;
      result.status = load_step(step, result);
      if (!result.status) break;
    }
    // The lease must be released by its owner's thread order, not kept alive by this task.
    lease.reset();
    done(std::move(result));
  });
}

Status Cache::load_step(LeasedStep& step, LoadResult& result) {
  format::SegmentHeader expected;
  {
    MutexLock lock(mutex_);
    Entry& known = entry(step.segment);
    if (known.payload != nullptr) {  // another request brought it in the meantime
      step.payload = known.payload;
      return {};
    }
    expected = header_of(step.segment);
  }
  const std::int64_t begin_ns = clock_.monotonic_ns();
  store::PayloadBuffer buffer = store::PayloadBuffer::allocate(expected.parts.front().size_bytes);
  const Status read = disk_->get(expected, format::PartKind::kRows, buffer.span());
  if (!read) {
    // A device may refuse once and read the next time; one that goes on is no place for this segment.
    if (read.error().kind != ErrorKind::kIo || refused_again(step.segment)) report_damaged(step.segment);
    return read;
  }
  step.payload = std::move(buffer).freeze();
  result.bytes_read += ByteCount{step.payload->size()};
  result.read_ms += os::elapsed_ms(begin_ns, clock_.monotonic_ns());
  admit_loaded(step.segment, step.payload);
  return {};
}

bool Cache::refused_again(SegmentId segment) {
  constexpr std::uint8_t kRefusalsToGiveUp = 3;
  MutexLock lock(mutex_);
  return ++entry(segment).refusals >= kRefusalsToGiveUp;
}

void Cache::admit_loaded(SegmentId segment, const std::shared_ptr<const store::Payload>& payload) {
  {
    MutexLock lock(mutex_);
    Entry& known = entry(segment);
    const ByteCount size{payload->size()};
    if (known.dead || known.payload != nullptr || size > options_.ram_budget) return;
    known.payload = payload;
    ram_used_ += size;
    if (ram_used_ <= options_.ram_budget) return;
  }
  trim_ram();
}

void Cache::report_damaged(SegmentId segment) {
  MutexLock lock(mutex_);
  ++counters_.damaged;
  if (!entry(segment).dead) log_damaged(segment);
  bury(segment);
  sweep_dead();
}

// A quiet loss would puzzle whoever sees long conversations prefilled again.
void Cache::log_damaged(SegmentId segment) {
  const Subtree below = measure_below(segment);
  const TokenRange range = index_.info(segment).range;
  spdlog::warn(
      "kv cache: the rows of tokens {} to {} of a prompt are damaged (file {}); {} segments ({} MiB) that "
      "continue it are forgotten with it",
      range.begin.value(), range.end.value(), format::file_name(header_of(segment).name), below.segments,
      below.bytes.value() >> 20);
}

Cache::Subtree Cache::measure_below(SegmentId segment) {
  Subtree sum;
  for (const SegmentId child : index_.children(segment)) {
    const Subtree below = measure_below(child);
    sum.segments += below.segments + 1;
    sum.bytes += below.bytes + ByteCount{entry(child).part.size_bytes};
  }
  return sum;
}

}  // namespace kvkeep::cache
