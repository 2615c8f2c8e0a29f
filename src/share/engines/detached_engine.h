#pragma once

// An engine whose calls may hang, such as a directory on a NAS that is gone: they run on threads of their own, and a
// call that is late is left to end whenever it does. So many calls run or wait for a thread at a time; further ones
// wait for a place until their deadline. If all places are taken by calls that hang, they fail at once.
//
// A call for many heads runs on several threads: where each file that is opened takes a round trip, one after the other
// would take too long.
//
// Calls that change something have threads of their own: publications that hang take no place from look-ups, and while
// some hang, others go on.

#include <atomic>
#include <functional>
#include <memory>
#include <set>
#include <vector>

#include "base/mutex.h"
#include "os/clock.h"
#include "os/threads.h"
#include "share/object_engine.h"

namespace kvkeep::share {

// Waits for calls that hang when it is destroyed. Only deadlines bound publications: a file system does not tell how
// far it got, as most of the time is spent in making a file durable. One that was left may be done later.
class DetachedEngine final : public ObjectEngine {
 public:
  DetachedEngine(std::unique_ptr<ObjectEngine> inner, os::Clock& clock, std::size_t threads);
  ~DetachedEngine() override;

  std::string address() const override { return inner_->address(); }
  Pace pace() const override { return inner_->pace(); }
  NodeId node_of(const ObjectName& name) const override { return inner_->node_of(name); }
  std::size_t nodes() const override { return inner_->nodes(); }
  std::string node_address(NodeId node) const override { return inner_->node_address(node); }

  std::vector<HeadBytes> heads(const std::vector<ObjectName>& names, std::size_t first_bytes,
                               std::int64_t deadline_ns) override;
  Status get(const ObjectName& name, const PayloadSlice& slice, MutableByteSpan out, const Arrived& arrived,
             const TransferLimits& limits) override;
  Status put(const ObjectName& name, ByteSpan head, ByteSpan payload, std::int64_t ttl_s,
             const TransferLimits& limits) override;
  // Leaves the portion at its end, and begins no other one while it goes on.
  void tidy(std::int64_t ttl_s, std::int64_t until_ns) override;
  Result<std::vector<ObjectName>> touch(const std::vector<Touched>& objects, std::int64_t ttl_s,
                                        std::int64_t deadline_ns) override;
  Status remove(const ObjectName& name, std::int64_t deadline_ns) override;
  Result<NamesPage> list(const std::string& space, const std::string& from, std::int64_t deadline_ns) override;
  Status probe(NodeId node, std::int64_t deadline_ns) override;
  Result<EngineFacts> facts(std::int64_t deadline_ns) override;

 private:
  template <typename Outcome>
  class Call;
  template <typename Outcome>
  using CallPtr = std::shared_ptr<Call<Outcome>>;
  // Threads, and a place for each call that runs on one or waits for one.
  struct Lane {
    Lane(std::size_t count, const char* name) : threads(count), pool(os::make_thread_pool(count, name)) {}
    const std::size_t threads;
    Mutex mutex;
    CondVar left;
    std::multiset<std::int64_t> deadlines GUARDED_BY(mutex);  // of the calls
    std::unique_ptr<os::ThreadPool> pool;                     // last: it is joined before the rest dies
  };
  // Begins the work on another thread. kIo or kBusy if no place was free in time.
  template <typename Outcome>
  Result<CallPtr<Outcome>> begin(Lane& lane, std::function<Outcome(Call<Outcome>&)> work, std::int64_t deadline_ns)
      EXCLUDES(lane.mutex);
  // Runs the work and returns its outcome. kIo if it is late, kBusy if no place was free in time.
  template <typename Outcome>
  Outcome run(Lane& lane, std::function<Outcome()> work, const TransferLimits& limits) EXCLUDES(lane.mutex);
  Status get_piece(const ObjectName& name, const PayloadSlice& part, MutableByteSpan out, const Arrived& arrived,
                   const TransferLimits& limits);
  Error late() const;
  // Takes one of the places.
  Status enter(Lane& lane, std::int64_t deadline_ns) EXCLUDES(lane.mutex);
  static void leave(Lane& lane, std::int64_t deadline_ns) EXCLUDES(lane.mutex);

  const std::unique_ptr<ObjectEngine> inner_;
  os::Clock& clock_;
  std::atomic<bool> tidying_ = false;
  Lane reads_;  // and probes; joined before the rest dies, as the other one
  Lane writes_;
};

}  // namespace kvkeep::share
