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

template <typename Outcome>
std::shared_ptr<DetachedEngine::Call<Outcome>> DetachedEngine::start(std::function<Outcome()> work) {
  {
    const MutexLock lock(mutex_);
    if (running_ >= 2 * threads_) return nullptr;
    ++running_;
  }
  auto call = std::make_shared<Call<Outcome>>();
  pool_->post([this, call, work = std::move(work)] {
    call->finish(work());
    const MutexLock lock(mutex_);
    --running_;
  });
  return call;
}

std::vector<HeadBytes> DetachedEngine::heads(const std::vector<ObjectName>& names, std::size_t first_bytes,
                                             std::int64_t deadline_ns) {
  using Outcome = std::vector<HeadBytes>;
  const auto call = start<Outcome>(
      [this, names, first_bytes, deadline_ns] { return inner_->heads(names, first_bytes, deadline_ns); });
  if (call) {
    if (auto heads = call->wait(clock_, deadline_ns)) return std::move(*heads);
  }
  return Outcome(names.size(), HeadBytes(io_error(address() + " did not answer in time")));
}

Status DetachedEngine::get(const ObjectName& name, const PayloadSlice& slice, MutableByteSpan out,
                           const Arrived& arrived, std::int64_t deadline_ns) {
  // A late read must not write into memory that is the caller's again, so that each piece has its own.
  for (std::size_t at = 0; at < out.size();) {
    const std::size_t size = std::min(kPieceBytes, out.size() - at);
    const auto piece = std::make_shared<std::vector<std::byte>>(size);
    const PayloadSlice part{slice.head_bytes, slice.begin + at, slice.payload_bytes};
    const auto call = start<Status>([this, name, part, piece, deadline_ns] {
      return inner_->get(name, part, *piece, [](std::size_t) {}, deadline_ns);
    });
    auto read = call ? call->wait(clock_, deadline_ns) : std::nullopt;
    if (!read) return io_error(address() + " did not answer in time");
    TRY(*read);
    std::ranges::copy(*piece, out.subspan(at).begin());
    at += size;
    arrived(at);
  }
  return {};
}

Result<NamesPage> DetachedEngine::list(const std::string& space, const std::string& from, std::int64_t deadline_ns) {
  using Outcome = Result<NamesPage>;
  const auto call = start<Outcome>([this, space, from, deadline_ns] { return inner_->list(space, from, deadline_ns); });
  auto page = call ? call->wait(clock_, deadline_ns) : std::nullopt;
  if (!page) return io_error(address() + " did not answer in time");
  return std::move(*page);
}

Status DetachedEngine::probe(NodeId node, std::int64_t deadline_ns) {
  const auto call = start<Status>([this, node, deadline_ns] { return inner_->probe(node, deadline_ns); });
  auto probed = call ? call->wait(clock_, deadline_ns) : std::nullopt;
  if (!probed) return io_error(address() + " did not answer in time");
  return std::move(*probed);
}

}  // namespace kvkeep::share
