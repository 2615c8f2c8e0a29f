#pragma once

// Publishing: bounded queues of segments and of records, worked off on an executor, one at a time. Records go first:
// they are small, and another server asks for one as soon as the conversation goes on there. Parents are published
// before what continues them; where a queue is full or the engine in trouble, the newest offers are refused. A call
// that failed may have met a hiccup: the queue waits for the probe of its node, and what the failure hit stays in it.

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <variant>
#include <vector>

#include "base/mutex.h"
#include "os/clock.h"
#include "os/executor.h"
#include "share/lookup.h"
#include "share/nodes.h"
#include "share/object_engine.h"
#include "share/recent_names.h"
#include "share/share_types.h"
#include "share/vault.h"

namespace kvkeep::share {

// A record to publish. With `merge` the one that is there is read first, and what `merge` makes of both is written.
struct RecordOffer {
  ObjectName name;
  std::vector<std::byte> contents;
  MergeRecords merge = {};
};

// Thread safe. Must outlive the tasks that it posts: drain the executor first.
class Publisher {
 public:
  // Makes random bytes for the encryption of one object.
  using RandomSalt = std::function<Cipher::Salt()>;
  Publisher(ObjectEngine& engine, const Vault& vault, Lookup& lookup, Nodes& nodes, ShareCounting& counting,
            os::Clock& clock, os::Executor& executor, const ShareOptions& options, RandomSalt salt);

  // Return false if the offer is refused.
  bool offer(Publication publication) EXCLUDES(mutex_);
  bool offer(RecordOffer record) EXCLUDES(mutex_);
  // Goes on with a queue that waits for a node's probe, if that was answered; drops it if no node is well. About once a
  // second.
  void go_on() EXCLUDES(mutex_);
  // Drops what waits and refuses everything from now on.
  void stop() EXCLUDES(mutex_);
  // The head of this object is there, and its payload is not, or is another one. Counts as absent until it was
  // published again: the next server that has it and offers it replaces it.
  void note_broken(const ObjectName& name);
  ByteCount queued() const EXCLUDES(mutex_);
  // Returns how many offers wait or are being published.
  std::size_t waiting() const EXCLUDES(mutex_);

 private:
  using Offer = std::variant<Publication, RecordOffer>;
  enum class Outcome { kDone, kAgain };  // published or given up; or to be tried again when go_on() says so
  bool enqueue(Offer offer) EXCLUDES(mutex_);
  void publish_next() EXCLUDES(mutex_);
  // Offers of one kind that wait. The bytes of the one in hand count as well.
  struct Queue {
    std::deque<Offer> offers = {};
    ByteCount bytes = {};
  };
  Queue& queue_of(const Offer& offer) REQUIRES(mutex_);
  std::size_t count() const REQUIRES(mutex_) { return records_.offers.size() + segments_.offers.size(); }
  std::optional<Offer> take() EXCLUDES(mutex_);
  void put_back(Offer offer) EXCLUDES(mutex_);
  void note_left(const Offer& offer) REQUIRES(mutex_);
  void clear() REQUIRES(mutex_);
  Outcome publish(const Publication& publication) EXCLUDES(mutex_);
  Outcome publish(const RecordOffer& record) EXCLUDES(mutex_);
  Outcome write(const ObjectName& name, ByteSpan head, ByteSpan payload) EXCLUDES(mutex_);
  enum class Standing { kWanted, kThere, kOrphan, kAgain, kUnknown };
  Standing standing(const Publication& publication, const ObjectName& name) EXCLUDES(mutex_);
  std::vector<ObjectName> parents(const Publication& publication) const;
  void note_refusal(const Error& error) EXCLUDES(mutex_);

  ObjectEngine& engine_;
  const Vault& vault_;
  Lookup& lookup_;
  Nodes& nodes_;
  ShareCounting& counting_;
  os::Clock& clock_;
  os::Executor& executor_;
  const ByteCount limit_;
  const std::int64_t ttl_s_;
  const RandomSalt salt_;
  RecentNames<bool> there_;   // published, or seen there
  RecentNames<bool> broken_;  // seen there in part

  mutable Mutex mutex_;
  Queue records_ GUARDED_BY(mutex_);
  Queue segments_ GUARDED_BY(mutex_);
  bool in_hand_ GUARDED_BY(mutex_) = false;  // one that is no longer in the queue is being published
  bool held_ GUARDED_BY(mutex_) = false;     // the queue waits for a probe
  bool stopped_ GUARDED_BY(mutex_) = false;
  std::int64_t paused_until_ns_ GUARDED_BY(mutex_) = 0;  // the engine was full
  std::int64_t pause_ns_ GUARDED_BY(mutex_) = 0;
};

}  // namespace kvkeep::share
