#include "share/engines/detached_engine.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

namespace kvkeep::share {

// One call that may outlive its caller.
template <typename Outcome>
class DetachedEngine::Call {
 public:
  void finish(Outcome outcome) EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    outcome_ = std::move(outcome);
    done_.notify_all();
  }
  // Returns nullopt if the call is late.
  std::optional<Outcome> wait(os::Clock& clock, std::int64_t deadline_ns) EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    while (!outcome_) {
      const std::int64_t left_ns = deadline_ns - clock.monotonic_ns();
      if (left_ns <= 0) return std::nullopt;
      done_.wait_for(mutex_, std::chrono::nanoseconds(left_ns));
    }
    return std::move(outcome_);
  }

 private:
  Mutex mutex_;
  CondVar done_;
  std::optional<Outcome> outcome_ GUARDED_BY(mutex_);
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
    if (all_hang || (deadline_ns <= now_ns && *deadlines_.begin() <= now_ns)) {
      return io_error(address() + " did not answer in time");
    }
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

template <typename Outcome>
Result<Outcome> DetachedEngine::run(std::function<Outcome()> work, std::int64_t deadline_ns) {
  TRY(enter(deadline_ns));
  auto call = std::make_shared<Call<Outcome>>();
  pool_->post([this, call, work = std::move(work), deadline_ns] {
    call->finish(work());
    leave(deadline_ns);
  });
  auto outcome = call->wait(clock_, deadline_ns);
  if (!outcome) return io_error(address() + " did not answer in time");
  return std::move(*outcome);
}

std::vector<HeadBytes> DetachedEngine::heads(const std::vector<ObjectName>& names, std::size_t first_bytes,
                                             std::int64_t deadline_ns) {
  using Outcome = std::vector<HeadBytes>;
  auto heads = run<Outcome>(
      [this, names, first_bytes, deadline_ns] { return inner_->heads(names, first_bytes, deadline_ns); }, deadline_ns);
  return heads.ok() ? std::move(*heads) : Outcome(names.size(), HeadBytes(heads.error()));
}

Status DetachedEngine::get(const ObjectName& name, const PayloadSlice& slice, MutableByteSpan out,
                           const Arrived& arrived, std::int64_t deadline_ns) {
  // A late read must not write into memory that is the caller's again, so that each piece has its own.
  for (std::size_t at = 0; at < out.size();) {
    const std::size_t size = std::min(kPieceBytes, out.size() - at);
    const auto piece = std::make_shared<std::vector<std::byte>>(size);
    const PayloadSlice part{slice.head_bytes, slice.begin + at, slice.payload_bytes};
    TRY_ASSIGN(const Status read,
               run<Status>([this, name, part, piece,
                            deadline_ns] { return inner_->get(name, part, *piece, [](std::size_t) {}, deadline_ns); },
                           deadline_ns));
    TRY(read);
    std::ranges::copy(*piece, out.subspan(at).begin());
    at += size;
    arrived(at);
  }
  return {};
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
