// Loading: rows that lie on disk only come into RAM on the reader executor, beside the engine thread.

#include <spdlog/spdlog.h>

#include <utility>

#include "cache/cache.h"

namespace kvkeep::cache {

void Cache::load(std::shared_ptr<Lease> lease, TokenRange range, std::function<void(LoadResult)> done,
                 std::optional<Position> point) {
  if (lease->loaded(range) && (!point || lease->point_loaded(*point))) return done({});
  reader_.post([this, lease = std::move(lease), range, done = std::move(done), point]() mutable {
    LoadResult result;
    if (point) result.status = load_point(*lease, *point, result);
    for (LeasedStep& step : lease->steps_) {
      if (!result.status) break;
      if (step.payload != nullptr || step.range.end <= range.begin || step.range.begin >= range.end) continue;
      result.status = load_into(step.segment, step.payload, result);
    }
    // The lease must be released by its owner's thread order, not kept alive by this task.
    lease.reset();
    done(std::move(result));
  });
}

Status Cache::load_point(Lease& lease, Position at, LoadResult& result) {
  const auto covers = lease.cover(at);
  if (!covers) return not_found("no state is stored there");
  for (const Lease::Cover& part : *covers) {
    LeasedPoint& point = lease.points_[part.point];
    if (point.payload == nullptr) TRY(load_into(point.id, point.payload, result));
  }
  return {};
}

Status Cache::load_into(SegmentId segment, std::shared_ptr<const store::Payload>& payload, LoadResult& result) {
  format::SegmentHeader expected;
  {
    MutexLock lock(mutex_);
    Entry& known = entry(segment);
    if (known.payload != nullptr) {  // another request brought it in the meantime
      payload = known.payload;
      return {};
    }
    expected = header_of(segment);
  }
  const std::int64_t begin_ns = clock_.monotonic_ns();
  const format::Part& part = expected.parts.front();
  store::PayloadBuffer buffer = store::PayloadBuffer::allocate(part.size_bytes);
  const Status read = disk_->get(expected, part.kind, buffer.span());
  if (!read) {
    // A device may refuse once and read the next time; one that goes on is no place for this segment.
    if (read.error().kind != ErrorKind::kIo || refused_again(segment)) report_damaged(segment);
    return read;
  }
  payload = std::move(buffer).freeze();
  result.bytes_read += ByteCount{payload->size()};
  result.read_ms += os::elapsed_ms(begin_ns, clock_.monotonic_ns());
  admit_loaded(segment, payload);
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
    hold_payload(segment, payload);
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
  const std::string file = format::file_name(header_of(segment).name);
  if (is_leaf(entry(segment))) {
    return spdlog::warn("kv cache: the state at token {} of a prompt is damaged (file {}); it is forgotten",
                        range.end.value(), file);
  }
  spdlog::warn(
      "kv cache: the rows of tokens {} to {} of a prompt are damaged (file {}); {} segments and points ({} MiB) that "
      "continue it are forgotten with it",
      range.begin.value(), range.end.value(), file, below.segments, below.bytes.value() >> 20);
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
