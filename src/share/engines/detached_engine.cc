#include "share/engines/detached_engine.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <iterator>
#include <optional>
#include <utility>

namespace kvkeep::share {

namespace {

// Fewer heads are read on one thread, and others on several.
constexpr std::size_t kLeastHeadsOfPart = 16;
constexpr std::size_t kMostParts = 4;
// Publications come one at a time: one and a sweep may hang, and others go on.
constexpr std::size_t kWriteThreads = 3;

}  // namespace

// One call that may outlive its caller.
template <typename Outcome>
class DetachedEngine::Call {
 public:
  void finish(Outcome outcome) EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    outcome_ = std::move(outcome);
    changed_.notify_all();
  }
  // So many bytes of a piece are there by now.
  void advance(std::size_t bytes) EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    bytes_ = bytes;
    changed_.notify_all();
  }
  // Waits until it ends, or has more bytes than `bytes`, which becomes their number. Returns the outcome if it ended,
  // which may be asked for once. kIo if neither came within the limits.
  Result<std::optional<Outcome>> wait(os::Clock& clock, const TransferLimits& limits, std::size_t& bytes)
      EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    std::int64_t now_ns = clock.monotonic_ns();
    const std::int64_t until_ns = limits.wait_until(now_ns);
    while (!outcome_ && bytes_ <= bytes) {
      if (now_ns >= until_ns) return io_error("it is late");
      changed_.wait_for(mutex_, std::chrono::nanoseconds(until_ns - now_ns));
      now_ns = clock.monotonic_ns();
    }
    bytes = bytes_;
    return std::exchange(outcome_, std::nullopt);
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::optional<Outcome> outcome_ GUARDED_BY(mutex_);
  std::size_t bytes_ GUARDED_BY(mutex_) = 0;
};

DetachedEngine::DetachedEngine(std::unique_ptr<ObjectEngine> inner, os::Clock& clock, std::size_t threads)
    : inner_(std::move(inner)),
      clock_(clock),
      reads_(threads, "share-engine"),
      writes_(kWriteThreads, "share-writes") {}

DetachedEngine::~DetachedEngine() = default;

// A call that waited its whole deadline for others that are not late either says nothing of the other side.
Status DetachedEngine::enter(Lane& lane, std::int64_t deadline_ns) {
  const MutexLock lock(lane.mutex);
  while (lane.deadlines.size() >= 2 * lane.threads) {
    const std::int64_t now_ns = clock_.monotonic_ns();
    const bool all_hang = *lane.deadlines.rbegin() <= now_ns;
    if (all_hang || (deadline_ns <= now_ns && *lane.deadlines.begin() <= now_ns)) return late();
    if (deadline_ns <= now_ns) return busy(address() + " is busy with other calls of this server");
    lane.left.wait_for(lane.mutex, std::chrono::nanoseconds(std::min(deadline_ns, *lane.deadlines.rbegin()) - now_ns));
  }
  lane.deadlines.insert(deadline_ns);
  return {};
}

void DetachedEngine::leave(Lane& lane, std::int64_t deadline_ns) {
  const MutexLock lock(lane.mutex);
  lane.deadlines.erase(lane.deadlines.find(deadline_ns));
  lane.left.notify_all();
}

Error DetachedEngine::late() const { return io_error(address() + " did not answer in time"); }

template <typename Outcome>
Result<DetachedEngine::CallPtr<Outcome>> DetachedEngine::begin(Lane& lane, std::function<Outcome(Call<Outcome>&)> work,
                                                               std::int64_t deadline_ns) {
  TRY(enter(lane, deadline_ns));
  auto call = std::make_shared<Call<Outcome>>();
  lane.pool->post([&lane, call, work = std::move(work), deadline_ns] {
    call->finish(work(*call));
    leave(lane, deadline_ns);
  });
  return call;
}

template <typename Outcome>
Outcome DetachedEngine::run(Lane& lane, std::function<Outcome()> work, const TransferLimits& limits) {
  const auto call_work = [work = std::move(work)](Call<Outcome>&) { return work(); };
  TRY_ASSIGN(const CallPtr<Outcome> call, begin<Outcome>(lane, call_work, limits.end_ns()));
  std::size_t none = SIZE_MAX;
  auto outcome = call->wait(clock_, {limits.deadline_ns, INT64_MAX, limits.earlier_end}, none);
  if (!outcome.ok()) return late();
  return std::move(**outcome);
}

std::vector<HeadBytes> DetachedEngine::heads(const std::vector<ObjectName>& names, std::size_t first_bytes,
                                             std::int64_t deadline_ns) {
  using Outcome = std::vector<HeadBytes>;
  const std::size_t parts = std::clamp<std::size_t>(names.size() / kLeastHeadsOfPart, 1, kMostParts);
  const auto begin_of = [&](std::size_t part) { return static_cast<std::ptrdiff_t>(names.size() * part / parts); };
  std::vector<Result<CallPtr<Outcome>>> calls;
  for (std::size_t part = 0; part < parts; ++part) {
    const std::vector<ObjectName> own(names.begin() + begin_of(part), names.begin() + begin_of(part + 1));
    const auto read = [this, own, first_bytes, deadline_ns](Call<Outcome>&) {
      return inner_->heads(own, first_bytes, deadline_ns);
    };
    calls.push_back(begin<Outcome>(reads_, read, deadline_ns));
  }
  Outcome heads;
  for (std::size_t part = 0; part < parts; ++part) {
    const auto add_error = [&](const Error& error) {
      heads.resize(static_cast<std::size_t>(begin_of(part + 1)), HeadBytes(error));
    };
    if (!calls[part].ok()) {
      add_error(calls[part].error());
      continue;
    }
    std::size_t none = SIZE_MAX;
    auto outcome = (*calls[part])->wait(clock_, deadline_ns, none);
    outcome.ok() ? (void)std::ranges::move(**outcome, std::back_inserter(heads)) : add_error(late());
  }
  return heads;
}

Status DetachedEngine::get(const ObjectName& name, const PayloadSlice& slice, MutableByteSpan out,
                           const Arrived& arrived, const TransferLimits& limits) {
  for (std::size_t at = 0; at < out.size();) {
    const std::size_t size = std::min(kPieceBytes, out.size() - at);
    const PayloadSlice part{slice.head_bytes, slice.begin + at, slice.payload_bytes};
    TRY(get_piece(name, part, out.subspan(at, size), [&](std::size_t count) { arrived(at + count); }, limits));
    at += size;
  }
  return {};
}

// A late read must not write into memory that is the caller's again, so that each piece has its own.
Status DetachedEngine::get_piece(const ObjectName& name, const PayloadSlice& part, MutableByteSpan out,
                                 const Arrived& arrived, const TransferLimits& limits) {
  const auto piece = std::make_shared<std::vector<std::byte>>(out.size());
  const auto read = [this, name, part, piece, limits](Call<Status>& call) {
    return inner_->get(name, part, *piece, [&](std::size_t count) { call.advance(count); }, limits);
  };
  TRY_ASSIGN(const CallPtr<Status> call, begin<Status>(reads_, read, limits.wait_until(clock_.monotonic_ns())));
  for (std::size_t copied = 0;;) {
    std::size_t come = copied;
    const auto outcome = call->wait(clock_, limits, come);
    if (!outcome.ok()) return late();
    std::ranges::copy(ByteSpan(*piece).subspan(copied, come - copied), out.subspan(copied).begin());
    if (come > copied) arrived(come);
    copied = come;
    if (!outcome->has_value()) continue;
    TRY(**outcome);
    return copied == out.size() ? Status{} : Status(damaged("a read ended before all bytes were there"));
  }
}

// The caller's bytes may be gone when a call that it left reads them. One that comes to a thread only after it was left
// must not begin.
Status DetachedEngine::put(const ObjectName& name, ByteSpan head, ByteSpan payload, std::int64_t ttl_s,
                           const TransferLimits& limits) {
  using Bytes = std::vector<std::byte>;
  const auto own_head = std::make_shared<const Bytes>(head.begin(), head.end());
  const auto own_payload = std::make_shared<const Bytes>(payload.begin(), payload.end());
  const auto write = [this, name, own_head, own_payload, ttl_s, limits]() -> Status {
    if (clock_.monotonic_ns() >= limits.end_ns()) return late();
    return inner_->put(name, *own_head, *own_payload, ttl_s, limits);
  };
  return run<Status>(writes_, write, limits);
}

void DetachedEngine::tidy(std::int64_t ttl_s, std::int64_t until_ns) {
  if (tidying_.exchange(true)) return;
  const auto tidy = [this, ttl_s, until_ns](Call<bool>&) {
    inner_->tidy(ttl_s, until_ns);
    tidying_ = false;
    return true;
  };
  const auto call = begin<bool>(writes_, tidy, until_ns);
  if (!call.ok()) {
    tidying_ = false;
    return;
  }
  std::size_t none = SIZE_MAX;
  (void)(*call)->wait(clock_, until_ns, none);
}

Result<std::vector<ObjectName>> DetachedEngine::touch(const std::vector<Touched>& objects, std::int64_t ttl_s,
                                                      std::int64_t deadline_ns) {
  return run<Result<std::vector<ObjectName>>>(
      writes_, [this, objects, ttl_s, deadline_ns] { return inner_->touch(objects, ttl_s, deadline_ns); }, deadline_ns);
}

Status DetachedEngine::remove(const ObjectName& name, std::int64_t deadline_ns) {
  return run<Status>(writes_, [this, name, deadline_ns] { return inner_->remove(name, deadline_ns); }, deadline_ns);
}

Result<NamesPage> DetachedEngine::list(const std::string& space, const std::string& from, std::int64_t deadline_ns) {
  return run<Result<NamesPage>>(
      reads_, [this, space, from, deadline_ns] { return inner_->list(space, from, deadline_ns); }, deadline_ns);
}

Status DetachedEngine::probe(NodeId node, std::int64_t deadline_ns) {
  return run<Status>(reads_, [this, node, deadline_ns] { return inner_->probe(node, deadline_ns); }, deadline_ns);
}

Result<EngineFacts> DetachedEngine::facts(std::int64_t deadline_ns) {
  return run<Result<EngineFacts>>(reads_, [this, deadline_ns] { return inner_->facts(deadline_ns); }, deadline_ns);
}

}  // namespace kvkeep::share
