#pragma once

// An engine whose calls may hang, such as a directory on a NAS that is gone: they run on threads of their own, and a
// call that is late is left to end whenever it does. So many calls run or wait for a thread at a time; further ones
// wait for a place until their deadline. If all places are taken by calls that hang, they fail at once.
//
// A call for many heads runs on several threads: where each file that is opened takes a round trip, one after the other
// would take too long.

#include <functional>
#include <memory>
#include <set>
#include <vector>

#include "base/mutex.h"
#include "os/clock.h"
#include "os/threads.h"
#include "share/object_engine.h"

namespace kvkeep::share {

// Waits for calls that hang when it is destroyed. Publishing, removing, touching and tidying up are not bounded: nobody
// waits for them but the executor of the shared store.
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
             const TransferLimits& limits) override {
    return inner_->put(name, head, payload, ttl_s, limits);
  }
  void tidy(std::int64_t ttl_s, std::int64_t until_ns) override { inner_->tidy(ttl_s, until_ns); }
  Result<std::vector<ObjectName>> touch(const std::vector<Touched>& objects, std::int64_t ttl_s,
                                        std::int64_t deadline_ns) override {
    return inner_->touch(objects, ttl_s, deadline_ns);
  }
  Status remove(const ObjectName& name, std::int64_t deadline_ns) override { return inner_->remove(name, deadline_ns); }
  Result<NamesPage> list(const std::string& space, const std::string& from, std::int64_t deadline_ns) override;
  Status probe(NodeId node, std::int64_t deadline_ns) override;
  Result<EngineFacts> facts(std::int64_t deadline_ns) override { return inner_->facts(deadline_ns); }

 private:
  template <typename Outcome>
  class Call;
  template <typename Outcome>
  using CallPtr = std::shared_ptr<Call<Outcome>>;
  // Begins the work on another thread. kIo or kBusy if no place was free in time.
  template <typename Outcome>
  Result<CallPtr<Outcome>> begin(std::function<Outcome(Call<Outcome>&)> work, std::int64_t deadline_ns)
      EXCLUDES(mutex_);
  // Runs the work and returns its outcome. kIo if it is late, kBusy if no place was free in time.
  template <typename Outcome>
  Result<Outcome> run(std::function<Outcome()> work, std::int64_t deadline_ns) EXCLUDES(mutex_);
  Status get_piece(const ObjectName& name, const PayloadSlice& part, MutableByteSpan out, const Arrived& arrived,
                   const TransferLimits& limits) EXCLUDES(mutex_);
  Error late() const;
  // Takes one of the places.
  Status enter(std::int64_t deadline_ns) EXCLUDES(mutex_);
  void leave(std::int64_t deadline_ns) EXCLUDES(mutex_);

  const std::unique_ptr<ObjectEngine> inner_;
  os::Clock& clock_;
  const std::size_t threads_;
  Mutex mutex_;
  CondVar left_;
  std::multiset<std::int64_t> deadlines_ GUARDED_BY(mutex_);  // of the calls that run or wait for a thread
  std::unique_ptr<os::ThreadPool> pool_;                      // last: it is joined before the rest dies
};

}  // namespace kvkeep::share
