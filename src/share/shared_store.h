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
//   breaker open costs nothing. Probes ride on tick(), never on a request, and have an executor of their own: a
//   publication that hangs must not hide that a node is well again.
// - Publishing: a bounded queue, worked off on an executor; parents first, head last, the newest offers are refused
//   when it lags.
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
#include "share/share_types.h"

namespace kvkeep::share {

class SharedStore {
 public:
  using Payload = std::shared_ptr<const store::Payload>;
  // The engine must have been made with the same clock. Publishing, touches and housekeeping run on `executor`, probes
  // on `prober` (null: on the same); they must outlive the store and be drained before it dies. kInvalid if options
  // contradict each other.
  static Result<std::unique_ptr<SharedStore>> make(std::unique_ptr<ObjectEngine> engine, ShareOptions options,
                                                   os::Clock& clock, os::Executor& executor,
                                                   os::Executor* prober = nullptr);
  ~SharedStore();

  // Returns false if a look-up would cost time for nothing: the mode is kWrite, or all breakers are open.
  bool readable() const;
  // Look-ups begin no round trip after `patient_until_ns` (monotonic). Each takes as long as the measured latency
  // allows at most, and those that fail no longer together: only a node that is slower than usual counts as in trouble.
  //
  // Returns the deepest authentic path beyond `query.known`, nullopt if there is none or the engine is in trouble.
  std::optional<SharedPath> find(const ShareQuery& query, std::int64_t patient_until_ns);
  // Returns the heads of leaves of one kind at these ends of the prompt, as far as they are there and authentic; for
  // window rows, which a found path needs besides its rows.
  std::vector<std::optional<format::SharedHead>> heads(const ShareQuery& query, std::int64_t patient_until_ns);

  // Returns the payload of a head that find() or heads() returned, verified. kNotFound: evicted meanwhile; kDamaged:
  // not the bytes that were published; kIo, kBusy: the engine is in trouble or the deadline passed. If so many reads go
  // on side by side, each may take so many times as long as by itself.
  Result<Payload> get(const format::SegmentHeader& segment, std::int64_t deadline_ns, std::size_t side_by_side = 1);

  // Queues a segment to be published. Returns false if it was refused: full queue, mode kRead, engine in trouble.
  bool offer(Publication publication);
  // Reports a use of published objects, for the engine's eviction and their time to live; each name at most once a
  // minute. In every mode: what a fleet only reads must stay as well. If the engine does not let this server do that,
  // it says so in the log and is not asked for an hour.
  void touch(const std::vector<format::SegmentHeader>& segments);

  // Small records: `key` names one, such as the hash of an open turn. At most format::kMostRecordBytes. Replaces the
  // one that is there, or is merged with it; of two servers that do so at the same moment, one may not see the other's.
  bool offer_record(const PrefixHash& key, std::vector<std::byte> contents, MergeRecords merge = {});
  // As touch(), of records; each at most every ten minutes, for they are small and many.
  void touch_records(const std::vector<PrefixHash>& keys);
  // Returns the records of these keys. The last ones are asked for first, as many at a time as the engine answers in
  // one round trip. kNotFound: there is none; kDamaged: it is not authentic; other errors say nothing of it.
  std::vector<Result<std::vector<std::byte>>> records(const std::vector<PrefixHash>& keys,
                                                      std::int64_t patient_until_ns);

  // Probes nodes whose breaker wants it, closes those that answer, goes on with publishing that waited for that, keeps
  // ShareOptions::lasting there, and lets the engine do a portion of its housekeeping; all on the executors. Call it
  // about once a second.
  void tick();
  // Stops publishing for good (stored state was found wrong). Queued publications are dropped.
  void distrust();
  // The server stops: what goes on in the background ends by then (monotonic), and what still waits to be published is
  // dropped.
  void end_by(std::int64_t ns);

  // Measured; 0: not known yet.
  double latency_ms() const;
  double read_bytes_per_s() const;
  double write_bytes_per_s() const;
  ByteCount queued() const;
  ShareCounters counters() const;
  const ObjectEngine& engine() const;
  // The namespace: 16 hexadecimal digits.
  const std::string& space() const;

 private:
  class Parts;
  explicit SharedStore(std::unique_ptr<Parts> parts);

  const std::unique_ptr<Parts> parts_;
};

// The threads of a server's shared tier. Kinds of work that must not wait for each other have their own: a look-up for
// a load, a probe for a publication, and a request for what other requests look up or load.
struct ShareThreads {
  // `reads_at_once`: payloads that are read ahead side by side, as ObjectEngine::pace() says.
  explicit ShareThreads(std::size_t reads_at_once);

  std::unique_ptr<os::Executor> worker;                // publishes, reports uses, and tidies up
  std::unique_ptr<os::Executor> prober;                // asks whether nodes are well
  std::unique_ptr<os::Executor> reader;                // loads, several side by side
  std::unique_ptr<os::Executor> searcher;              // looks prompts up, several side by side
  std::vector<std::unique_ptr<os::Executor>> helpers;  // each loads ahead of the reader
};

}  // namespace kvkeep::share
