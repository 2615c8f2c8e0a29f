#pragma once

// The nodes of an engine: whether each may be asked, how long its answers take, and how fast bytes come and
// go. It decides with policy/share_limits.h, and logs when a node stops or begins again to be asked.

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "os/clock.h"
#include "policy/share_limits.h"
#include "share/object_engine.h"
#include "share/share_types.h"

namespace kvkeep::share {

// Thread safe.
class Nodes {
 public:
  Nodes(const ObjectEngine& engine, os::Clock& clock, ShareCounting& counting);

  bool may_ask(NodeId node) EXCLUDES(mutex_);
  bool may_ask_any() EXCLUDES(mutex_);
  // A probe will say soon whether the node may be asked.
  bool suspects(NodeId node) EXCLUDES(mutex_);
  // Returns true if some node may be asked now or, for all that is known, soon.
  bool may_ask_soon() EXCLUDES(mutex_);
  // The longest that a round trip of a look-up may take at any node that may be asked.
  std::int64_t longest_lookup_ns() EXCLUDES(mutex_);
  // Returns the limits of a read, which shares the network with so many others side by side. A read waits many times
  // for bytes, and a server on a busy machine may let it wait longer than a look-up once: it may be silent as long as
  // any look-up may take.
  TransferLimits read_limits(ByteCount bytes, std::size_t side_by_side) EXCLUDES(mutex_);
  // Returns the deadline of a call that no request waits for, such as publishing and touching.
  std::int64_t background_deadline_ns() const;
  // The server stops: calls of the background, and transfers under way, end by then (monotonic), and are no trouble.
  void end_by(std::int64_t ns) { *end_ns_ = ns; }
  std::int64_t end_ns() const { return *end_ns_; }
  TransferLimits write_limits(ByteCount bytes) EXCLUDES(mutex_);

  // The outcome of one call at a node: an answer, be it a miss, or trouble, which is counted and, once a minute,
  // logged. A node that answers that it cannot serve this now (kBusy) is asked on and probed soon: its names may belong
  // to another node by now, or its connections lead to a server that is no longer the one that takes writes.
  void note_answer(NodeId node, policy::ShareCall call) EXCLUDES(mutex_);
  void note_lookup_ms(NodeId node, double ms) EXCLUDES(mutex_);
  void note_trouble(NodeId node, policy::ShareCall call, const Error& error) EXCLUDES(mutex_);
  // A write that was refused, for the node is full or this server lacks the right: it is counted, and reads go on. The
  // publisher says what it does about it.
  void note_refused_write(NodeId node, const Error& error) EXCLUDES(mutex_);
  // Bytes that are not what a holder of the share key published under this name: counted and, once a minute, logged.
  void note_damaged(const ObjectName& name, const Error& error) EXCLUDES(mutex_);
  // As note_trouble() for a read that was given up, for no byte came any more: the node is not asked for some time.
  void note_silence(NodeId node, const Error& error) EXCLUDES(mutex_);
  // The same for the many answers of one call, each node once. A node that answered for some names in time, and not for
  // all, is slow. Returns true if one failed.
  bool note_heads(const std::vector<ObjectName>& names, const std::vector<HeadBytes>& answers, double ms)
      EXCLUDES(mutex_);
  // A read begins; returns what end_read() wants to know of it. Reads may go on side by side: the rate is that of all.
  std::int64_t begin_read() EXCLUDES(mutex_);
  // `bytes` is 0 unless all came.
  void end_read(std::int64_t begun, ByteCount bytes) EXCLUDES(mutex_);
  void note_written(ByteCount bytes, double ms) EXCLUDES(mutex_);

  // The node ended connections that were idle: it is probed soon.
  void note_hang_up(NodeId node) EXCLUDES(mutex_);

  // Nodes with names whose breaker wants a probe, that were never probed, that answered that they cannot serve, or that
  // were slow when they were last asked: if a request is not worth that wait, none would find out that it is over.
  std::vector<NodeId> to_probe() EXCLUDES(mutex_);
  void note_probe(NodeId node, const Status& status, double ms) EXCLUDES(mutex_);

  // The nodes that have names, and how many of them are not asked now.
  struct Count {
    std::size_t all = 0;
    std::size_t left_alone = 0;
  };
  Count count() EXCLUDES(mutex_);
  double latency_ms() const EXCLUDES(mutex_);
  double read_bytes_per_s() const EXCLUDES(mutex_);
  double write_bytes_per_s() const EXCLUDES(mutex_);

 private:
  // Long enough for a thread that waits for a processor on a machine where every core computes.
  static constexpr std::int64_t kBackgroundNs = 1'000'000'000;

  struct Node {
    explicit Node(policy::DeadlineRange range) : latency(range) {}
    policy::ShareBreaker breaker;
    policy::ShareLatency latency;
    bool probed = false;
    bool in_doubt = false;  // it answered that it cannot serve, or refused us
    std::int64_t probed_ns = 0;
    std::int64_t measured_ns = 0;     // its latency
    bool opened = false;              // and that was logged
    std::int64_t quiet_until_ns = 0;  // its trouble was logged
  };
  Node& at(NodeId node) REQUIRES(mutex_);
  double most_deadline_ms() REQUIRES(mutex_);
  void complain(NodeId node, const Error& error) REQUIRES(mutex_);
  void note_opening(NodeId node, const Error& error, std::uint32_t times) REQUIRES(mutex_);

  const ObjectEngine& engine_;
  os::Clock& clock_;
  ShareCounting& counting_;
  const policy::DeadlineRange range_;
  const std::shared_ptr<std::atomic<std::int64_t>> end_ns_ = std::make_shared<std::atomic<std::int64_t>>(INT64_MAX);
  mutable Mutex mutex_;
  std::vector<Node> nodes_ GUARDED_BY(mutex_);
  double read_bytes_per_s_ GUARDED_BY(mutex_) = 0;
  policy::DividedTime reads_ GUARDED_BY(mutex_);
  double write_bytes_per_s_ GUARDED_BY(mutex_) = 0;
  std::int64_t quiet_of_damage_until_ns_ GUARDED_BY(mutex_) = 0;
};

}  // namespace kvkeep::share
