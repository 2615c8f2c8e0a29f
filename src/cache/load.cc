// Loading: rows that lie on disk only come into RAM on the reader executor, beside the engine thread.

#include <utility>

#include "cache/cache.h"
#include "format/delta.h"

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
  std::vector<Link> chain;
  {
    MutexLock lock(mutex_);
    chain = chain_to(segment);
  }
  for (std::size_t i = 0; i < chain.size(); ++i) {
    Link& link = chain[i];
    if (link.state != nullptr) continue;  // RAM has it, or another request brought it in the meantime
    if (link.stored == nullptr) TRY(read_stored(link, result));
    const format::Part& part = link.header.parts.front();
    if (!part.built()) {
      link.state = link.stored;
      continue;
    }
    const Link& base = chain[i - 1];
    store::PayloadBuffer state = store::PayloadBuffer::allocate(part.state_bytes);
    const Status decoded =
        format::decode_built_state(base.header.name.end_hash, base.state->bytes(), link.stored->bytes(), state.span());
    if (!decoded) {
      report_damaged(link.segment);
      return decoded;
    }
    link.state = std::move(state).freeze();
  }
  payload = chain.back().state;
  if (chain.back().header.parts.front().built()) hold_state(segment, payload);
  return {};
}

// The bytes of a file, for whoever wants them next as well.
Status Cache::read_stored(Link& link, LoadResult& result) {
  const std::int64_t begin_ns = clock_.monotonic_ns();
  const format::Part& part = link.header.parts.front();
  store::PayloadBuffer buffer = store::PayloadBuffer::allocate(part.size_bytes);
  const Status read = disk_->get(link.header, part.kind, buffer.span());
  if (!read) {
    // A device may refuse once and read the next time; one that goes on is no place for this segment.
    if (read.error().kind == ErrorKind::kNotFound && disk_->shared()) {
      forget_gone({link.header.name});  // the server that keeps the budget took it away
    } else if (read.error().kind != ErrorKind::kIo || refused_again(link.segment)) {
      report_damaged(link.segment);
    }
    return read;
  }
  link.stored = std::move(buffer).freeze();
  result.bytes_read += ByteCount{link.stored->size()};
  result.read_ms += os::elapsed_ms(begin_ns, clock_.monotonic_ns());
  admit_loaded(link.segment, link.stored);
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

}  // namespace kvkeep::cache
