#pragma once

// Publishing: a bounded queue of segments and records, worked off on an executor, one at a time. Parents are published
// before what continues them; where the queue is full or the engine in trouble, the newest offers are refused.

#include <cstdint>
#include <deque>
#include <functional>
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

// A record to publish.
struct RecordOffer {
  ObjectName name;
  std::vector<std::byte> contents;
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
  // Drops what waits and refuses everything from now on.
  void stop() EXCLUDES(mutex_);
  ByteCount queued() const EXCLUDES(mutex_);

 private:
  using Offer = std::variant<Publication, RecordOffer>;
  bool enqueue(Offer offer) EXCLUDES(mutex_);
  void publish_next() EXCLUDES(mutex_);
  void publish(const Publication& publication) EXCLUDES(mutex_);
  void publish(const RecordOffer& record) EXCLUDES(mutex_);
  void write(const ObjectName& name, ByteSpan head, ByteSpan payload) EXCLUDES(mutex_);
  enum class Standing { kWanted, kThere, kOrphan, kUnknown };
  Standing standing(const Publication& publication, const ObjectName& name) EXCLUDES(mutex_);
  std::vector<ObjectName> parents(const Publication& publication) const;
  void note_failure(const Error& error) EXCLUDES(mutex_);

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
  RecentNames<bool> there_;  // published, or seen there

  mutable Mutex mutex_;
  std::deque<Offer> queue_ GUARDED_BY(mutex_);
  ByteCount queued_ GUARDED_BY(mutex_);  // what is being published included
  bool stopped_ GUARDED_BY(mutex_) = false;
  std::int64_t paused_until_ns_ GUARDED_BY(mutex_) = 0;  // the engine was full
  std::int64_t pause_ns_ GUARDED_BY(mutex_) = 0;
};

}  // namespace kvkeep::share
