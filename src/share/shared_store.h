#pragma once

// The shared tier over an object engine: names, authentication, look-up, loading and publishing, with a bound on what
// an engine that is slow, dead or malicious can cost.
//
// - Names: h(end) of a prompt is hashed again under the share key, so that names cannot be guessed without it. A
//   namespace keeps apart models, tenants' keys do as everywhere, and (unless ShareOptions say otherwise) the kinds of
//   devices that computed the state.
// - Authentication: every head and payload has a BLAKE3 code under the share key, bound to the name. Without a key the
//   key is a constant: damage is found, malice is not.
// - Look-up: no index. The caller guesses ends; find() asks for all of them at once and follows the deepest one's path.
// - Failure: each node has a breaker and each call a deadline that follows the measured latency. A call that finds a
//   breaker open costs nothing. Probes ride on tick(), never on a request.
// - Publishing: a bounded queue, worked off on an executor; parents first, head last, the newest offers are refused
// when
//   it lags.
//
// Thread safe. find(), get() and records() wait for the engine: never call them on the engine thread.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "format/shared_object.h"
#include "os/clock.h"
#include "os/executor.h"
#include "share/object_engine.h"
#include "store/ram_store.h"

namespace kvkeep::share {

class Publisher;
class Nodes;
class Vault;

enum class ShareMode { kRead, kWrite, kBoth };

struct ShareOptions {
  FingerprintHash fingerprint;
  // Describes what computes the rows ("CUDA0: NVIDIA H100", "cpu: AVX512"). Rows of other devices differ in the last
  // bits, so servers with other devices have another namespace. Empty: rows of any device are taken.
  std::string device;
  // Contents of the key file; empty: no key, and whoever writes to the engine can plant state.
  std::string key;
  // Encrypts what lies in the engine (AES-256-GCM) under a key derived from `key`. Precondition: a key.
  bool encrypt = false;
  ShareMode mode = ShareMode::kBoth;
  std::int64_t ttl_s = 7 * 24 * 3600;
  // Bytes of payloads that wait to be published; more are refused.
  ByteCount queue_limit = mebibytes(256);
};

// A prompt as find() looks for it.
struct ShareQuery {
  TokenSpan prompt;
  Tenant tenant = kNoTenant;
  // What must lie at the end that is found: kRows for models with rows only, kPoint or kWhole for others.
  format::PartKind kind = format::PartKind::kRows;
  // Ends that a publisher can have chosen, ascending, at most kMostShareEnds, each at most prompt.size().
  std::vector<Position> ends;
  Position known;  // the caller has everything up to here: shallower ends are of no use
};
inline constexpr std::size_t kMostShareEnds = 512;

// What find() found; every end, hash and token id in it was compared with the prompt's own.
struct SharedPath {
  // The segments of rows on the way that end after `known`, without gaps; the last one ends at `end`. The first may
  // begin before `known`.
  std::vector<format::SharedHead> rows;
  // The point or whole state at `end`, if that was asked for. The state that a whole one is built on is not here.
  std::optional<format::SharedHead> leaf;
  Position end;
  double ms = 0;  // how long the look-up took
};

// A segment or leaf to publish. `path` has the ends of the segments of rows from the root; its last step is the
// segment's own end.
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
  std::uint64_t late = 0;           // a deadline passed
  std::uint64_t failures = 0;       // refused, cut, misbehaving
  std::uint64_t damaged = 0;        // not authentic, or not of this prompt
  std::uint64_t foreign_paths = 0;  // authentic, but its path is not the prompt's
  std::uint64_t published = 0;
  std::uint64_t published_bytes = 0;
  std::uint64_t already_there = 0;
  std::uint64_t refused = 0;  // the queue was full
  std::uint64_t orphans = 0;  // not published, for the parent is not there
  std::uint64_t publish_failures = 0;
  std::uint64_t breaker_openings = 0;
  std::uint64_t touched = 0;
};

class SharedStore {
 public:
  // The engine's clock is this one. Publishing, probes and touches run on `executor`, which must outlive the store and
  // be drained before it dies. kInvalid if options contradict each other.
  static Result<std::unique_ptr<SharedStore>> make(std::unique_ptr<ObjectEngine> engine, ShareOptions options,
                                                   os::Clock& clock, os::Executor& executor);
  ~SharedStore();

  // Returns false if a look-up would cost time for nothing: the mode is kWrite, or all breakers are open.
  bool readable() const;
  // Returns the deepest authentic path beyond `query.known`, nullopt if there is none or the engine is in trouble.
  // Takes until `deadline_ns` (monotonic) at most, and no longer than the measured latency allows.
  std::optional<SharedPath> find(const ShareQuery& query, std::int64_t deadline_ns);
  // Returns the heads of leaves of one kind at these ends of the prompt, as far as they are there and authentic; for
  // window rows, which a found path needs besides its rows.
  std::vector<std::optional<format::SharedHead>> heads(const ShareQuery& query, std::int64_t deadline_ns);

  // Returns the payload of a head that find() or heads() returned, verified. kNotFound: evicted meanwhile; kDamaged:
  // not the bytes that were published; kIo, kBusy: the engine is in trouble or the deadline passed.
  Result<std::shared_ptr<const store::Payload>> get(const format::SegmentHeader& segment, std::int64_t deadline_ns);

  // Queues a segment to be published. Returns false if it was refused: full queue, mode kRead, engine in trouble.
  bool offer(Publication publication);
  // Reports a use of published objects, for the engine's eviction; each name at most once a minute.
  void touch(const std::vector<format::SegmentHeader>& segments);

  // Small records: `key` names one, such as the hash of an open turn. At most format::kMostRecordBytes.
  bool offer_record(const PrefixHash& key, std::vector<std::byte> contents);
  std::vector<std::optional<std::vector<std::byte>>> records(const std::vector<PrefixHash>& keys,
                                                             std::int64_t deadline_ns);

  // Probes nodes whose breaker wants it and closes those that answer; on the executor. Call it about once a second.
  void tick();
  // Stops publishing for good (stored state was found wrong). Queued publications are dropped.
  void distrust();

  // Measured; 0: not known yet.
  double latency_ms() const;
  double read_bytes_per_s() const;
  double write_bytes_per_s() const;
  ByteCount queued() const;
  ShareCounters counters() const;
  const ObjectEngine& engine() const { return *engine_; }
  // The namespace: 16 hexadecimal digits.
  const std::string& space() const;

 private:
  SharedStore(std::unique_ptr<ObjectEngine> engine, ShareOptions options, os::Clock& clock, os::Executor& executor);

  std::unique_ptr<ObjectEngine> engine_;
  const ShareOptions options_;
  os::Clock& clock_;
  os::Executor& executor_;
  std::unique_ptr<Vault> vault_;          // names, codes, encryption
  std::unique_ptr<Nodes> nodes_state_;    // breakers, deadlines, rates
  std::unique_ptr<Publisher> publisher_;  // the queue
};

}  // namespace kvkeep::share
