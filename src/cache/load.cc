// Loading: rows that lie on disk only come into RAM on the reader executor, beside the engine thread.

#include <utility>

#include "cache/cache.h"

namespace kvkeep::cache {

void Cache::load(std::shared_ptr<Lease> lease, TokenRange range, std::function<void(LoadResult)> done) {
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
  bury(segment);
  sweep_dead();
}

}  // namespace kvkeep::cache
