#pragma once

// The types of the shared tier: its options, what is looked for, found and published, and what it counts.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/hash.h"
#include "base/mutex.h"
#include "base/types.h"
#include "format/shared_object.h"
#include "store/ram_store.h"

namespace kvkeep::share {

class ObjectEngine;

enum class ShareMode { kRead, kWrite, kBoth };

// Makes the record that is written of the one that is there and the one that is offered, at most
// format::kMostRecordBytes. It is called on the executor that publishes, and must be right for as long as that runs.
using MergeRecords = std::function<std::vector<std::byte>(ByteSpan there, ByteSpan offered)>;

// A record that is to be there for as long as servers use its namespace.
struct LastingRecord {
  PrefixHash key = {};
  std::vector<std::byte> contents = {};
  MergeRecords merge = {};
};

struct ShareOptions {
  FingerprintHash fingerprint = {};
  // Describes what computes the rows ("CUDA0: NVIDIA H100", "cpu: AVX512"). Rows of other devices differ in the last
  // bits, so servers with other devices have another namespace. Empty: rows of any device are taken.
  std::string device = {};
  // The hash of the model's files, in hexadecimal digits: a fingerprint may know them by samples. Empty: the
  // fingerprint tells all files apart.
  std::string weights = {};
  // Contents of the key file; empty: no key, and whoever writes to the engine can plant state.
  std::string key = {};
  // Encrypts what lies in the engine (AES-256-GCM) under a key derived from `key`. Precondition: a key.
  bool encrypt = false;
  ShareMode mode = ShareMode::kBoth;
  std::int64_t ttl_s = 7 * 24 * 3600;
  // Bytes of payloads that wait to be published; more are refused.
  ByteCount queue_limit = mebibytes(256);
  // Memory that lies ready for what is read, so that a read does not wait for the system; 0: none.
  ByteCount ready_memory = {};
  // Written at the first tick(), every ten minutes, and after trouble, for engines evict, and begin anew. With kRead it
  // is not written, and its time to live is renewed as that of what is read.
  std::optional<LastingRecord> lasting = {};
  // Called on the prober after a probe was answered, until it returns true: then the engine can be asked what it is.
  // After trouble, and after a node ended connections, that begins anew, for it may be another one by now; at most
  // every ten seconds.
  std::function<bool(ObjectEngine&, std::int64_t deadline_ns)> when_well = {};
};

// A prompt as find() looks for it.
struct ShareQuery {
  TokenSpan prompt = {};
  Tenant tenant = kNoTenant;
  // The kind of state that lies at the end that is found: kRows for models with rows only, kPoint or kWhole for others.
  format::PartKind kind = format::PartKind::kRows;
  // Ends that a publisher can have chosen, ascending, at most kMostShareEnds, each at most prompt.size().
  std::vector<Position> ends = {};
  Position known = {};  // the caller has everything up to here: shallower ends are of no use
};
inline constexpr std::size_t kMostShareEnds = 512;

// The result of find(); every end, hash and token id in it was compared with the prompt's own.
struct SharedPath {
  // The segments of rows on the way whose rows are used after `known`, without gaps: each begins where the rows of the
  // one before are no longer used, which may be in that one's middle. The first may begin before `known`, and the last
  // may go on after `end`.
  std::vector<format::SharedHead> rows;
  // The point or whole state at `end`, if that was asked for. The state that a whole one is built on is not here.
  std::optional<format::SharedHead> leaf;
  Position end;
  double ms = 0;  // how long the look-up took
};

// A segment or leaf to publish. `path` has the segments of rows from the root; its last step is the segment itself or,
// for a leaf, that in which it lies, used up to the leaf's end.
struct Publication {
  format::SegmentHeader segment;  // sizes and sums filled
  std::vector<format::PathStep> path;
  std::shared_ptr<const store::Payload> payload;
};

// Counts since the start.
struct ShareCounters {
  std::uint64_t lookups = 0;
  std::uint64_t lookups_skipped = 0;  // a breaker was open, or the negative memory knew
  std::uint64_t hits = 0;
  std::uint64_t loads = 0;
  std::uint64_t loaded_bytes = 0;
  std::uint64_t load_misses = 0;    // evicted between head and payload
  std::uint64_t failures = 0;       // late, refused, cut, misbehaving
  std::uint64_t damaged = 0;        // not authentic, or not of this prompt
  std::uint64_t broken = 0;         // heads that were there without all of their payload
  std::uint64_t foreign_paths = 0;  // authentic, but its path is not the prompt's
  std::uint64_t published = 0;
  std::uint64_t published_bytes = 0;
  std::uint64_t already_there = 0;
  std::uint64_t refused = 0;  // the queue was full, or no node well
  std::uint64_t orphans = 0;  // not published, for the parent is not there
  std::uint64_t publish_failures = 0;
  std::uint64_t breaker_openings = 0;
  std::uint64_t touched = 0;
  // Now:
  std::uint64_t waiting = 0;     // offers that are to be published
  std::uint64_t nodes = 0;       // that have names
  std::uint64_t left_alone = 0;  // of these, because calls failed
  double latency_ms = 0;         // as SharedStore has it, and the following
  double read_bytes_per_s = 0;
  double write_bytes_per_s = 0;
};

// The counters of all parts of one store. Thread safe.
class ShareCounting {
 public:
  void add(std::uint64_t ShareCounters::* which, std::uint64_t count = 1) {
    const MutexLock lock(mutex_);
    counters_.*which += count;
  }
  ShareCounters counters() const {
    const MutexLock lock(mutex_);
    return counters_;
  }

 private:
  mutable Mutex mutex_;
  ShareCounters counters_ GUARDED_BY(mutex_);
};

}  // namespace kvkeep::share
