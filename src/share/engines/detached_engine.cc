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
      threads_(threads),
      pool_(os::make_thread_pool(threads, "share-engine")) {}

DetachedEngine::~DetachedEngine() = default;

// A call that waited its whole deadline for others that are not late either says nothing of the other side.
Status DetachedEngine::enter(std::int64_t deadline_ns) {
  const MutexLock lock(mutex_);
  while (deadlines_.size() >= 2 * threads_) {
    const std::int64_t now_ns = clock_.monotonic_ns();
    const bool all_hang = *deadlines_.rbegin() <= now_ns;
    if (all_hang || (deadline_ns <= now_ns && *deadlines_.begin() <= now_ns)) return late();
    if (deadline_ns <= now_ns) return busy(address() + " is busy with other calls of this server");
    left_.wait_for(mutex_, std::chrono::nanoseconds(std::min(deadline_ns, *deadlines_.rbegin()) - now_ns));
  }
  deadlines_.insert(deadline_ns);
  return {};
}

void DetachedEngine::leave(std::int64_t deadline_ns) {
  const MutexLock lock(mutex_);
  deadlines_.erase(deadlines_.find(deadline_ns));
  left_.notify_all();
}

Error DetachedEngine::late() const { return io_error(address() + " did not answer in time"); }

template <typename Outcome>
Result<DetachedEngine::CallPtr<Outcome>> DetachedEngine::begin(std::function<Outcome(Call<Outcome>&)> work,
                                                               std::int64_t deadline_ns) {
  TRY(enter(deadline_ns));
  auto call = std::make_shared<Call<Outcome>>();
  pool_->post([this, call, work = std::move(work), deadline_ns] {
    call->finish(work(*call));
    leave(deadline_ns);
  });
  return call;
}

template <typename Outcome>
Result<Outcome> DetachedEngine::run(std::function<Outcome()> work, std::int64_t deadline_ns) {
  TRY_ASSIGN(const CallPtr<Outcome> call,
             begin<Outcome>([work = std::move(work)](Call<Outcome>&) { return work(); }, deadline_ns));
  std::size_t none = SIZE_MAX;
  auto outcome = call->wait(clock_, deadline_ns, none);
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
    calls.push_back(begin<Outcome>(read, deadline_ns));
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
  TRY_ASSIGN(const CallPtr<Status> call, begin<Status>(read, limits.wait_until(clock_.monotonic_ns())));
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

Result<NamesPage> DetachedEngine::list(const std::string& space, const std::string& from, std::int64_t deadline_ns) {
  using Outcome = Result<NamesPage>;
  TRY_ASSIGN(
      Outcome page,
      run<Outcome>([this, space, from, deadline_ns] { return inner_->list(space, from, deadline_ns); }, deadline_ns));
  return page;
}

Status DetachedEngine::probe(NodeId node, std::int64_t deadline_ns) {
  TRY_ASSIGN(Status probed,
             run<Status>([this, node, deadline_ns] { return inner_->probe(node, deadline_ns); }, deadline_ns));
  return probed;
}

}  // namespace kvkeep::share
