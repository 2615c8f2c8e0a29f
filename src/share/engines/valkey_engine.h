#pragma once

// Objects in Valkey or Redis, a single server or a cluster. A payload lies in pieces of 1 MiB: a server that is asked
// for larger values keeps all its other clients waiting, and hiredis reads them slowly.
//
// In a cluster the braces in keys keep an object on one node. Which node has which slots is learned from any of them,
// and from MOVED; a slot that is just being moved, and a cluster that is down, are a miss. Several hosts that are no
// cluster are a primary and its replicas: all names belong to the one that takes writes.
//
// A probe of a node that is gone, or that became a replica, asks the others which of them has its names now.

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "os/clock.h"
#include "os/network.h"
#include "share/engines/engine_url.h"
#include "share/engines/valkey_connection.h"
#include "share/object_engine.h"

namespace kvkeep::share {

inline constexpr std::size_t kClusterSlots = 16'384;
// Returns the slot of a key: of the text in its first braces, if it has any.
std::size_t slot_of(std::string_view key);
// Returns the slot of all keys of an object, whose id is in their braces.
std::size_t slot_of(const ObjectName& name);

// Which node has which slot. Nodes are never removed, so that their numbers stay. Thread safe.
class SlotMap {
 public:
  explicit SlotMap(const std::vector<HostPort>& seeds);

  std::size_t size() const EXCLUDES(mutex_);
  HostPort host(NodeId node) const EXCLUDES(mutex_);
  NodeId node_of(std::size_t slot) const EXCLUDES(mutex_);
  NodeId node_of(const ObjectName& name) const EXCLUDES(mutex_);
  bool has_slots(NodeId node) const EXCLUDES(mutex_);
  // Takes the answer to CLUSTER SLOTS; `asked` answers where a node does not tell its host. Others' junk is passed
  // over.
  void learn(const ValkeyReply& slots, const HostPort& asked) EXCLUDES(mutex_);
  // Takes a message "MOVED <slot> <host>:<port>".
  void learn_moved(std::string_view message, const HostPort& asked) EXCLUDES(mutex_);
  // All slots are this node's.
  void give_all(NodeId node) EXCLUDES(mutex_);

 private:
  NodeId node(const HostPort& host) REQUIRES(mutex_);
  void give(std::size_t slot, NodeId owner) REQUIRES(mutex_);

  mutable Mutex mutex_;
  std::vector<HostPort> hosts_ GUARDED_BY(mutex_);
  std::array<std::uint32_t, kClusterSlots> slots_ GUARDED_BY(mutex_){};
  std::vector<std::size_t> counts_ GUARDED_BY(mutex_);  // of slots, by node
};

// Thread safe.
class ValkeyEngine final : public ObjectEngine {
 public:
  ValkeyEngine(EngineUrl url, ValkeyAccess access, os::Clock& clock);
  ~ValkeyEngine() override;

  std::string address() const override { return url_.text; }
  Pace pace() const override {
    return {.least_deadline_ms = kLeastDeadlineMs, .most_deadline_ms = 50, .heads_at_once = 512};
  }
  NodeId node_of(const ObjectName& name) const override;
  std::size_t nodes() const override { return slots_.size(); }
  std::string node_address(NodeId node) const override;
  bool has_names(NodeId node) const override { return slots_.has_slots(node); }

  std::vector<HeadBytes> heads(const std::vector<ObjectName>& names, std::size_t first_bytes,
                               std::int64_t deadline_ns) override;
  Status get(const ObjectName& name, const PayloadSlice& slice, MutableByteSpan out, const Arrived& arrived,
             const TransferLimits& limits) override;
  Status put(const ObjectName& name, ByteSpan head, ByteSpan payload, std::int64_t ttl_s,
             const TransferLimits& limits) override;
  Result<std::vector<ObjectName>> touch(const std::vector<Touched>& objects, std::int64_t ttl_s,
                                        std::int64_t deadline_ns) override;
  Status remove(const ObjectName& name, std::int64_t deadline_ns) override;
  // Pages of SCAN, one node after the other.
  Result<NamesPage> list(const std::string& space, const std::string& from, std::int64_t deadline_ns) override;
  std::vector<NodeId> hung_up() override EXCLUDES(mutex_);
  Status probe(NodeId node, std::int64_t deadline_ns) override;
  Result<EngineFacts> facts(std::int64_t deadline_ns) override;

 private:
  using Connection = std::unique_ptr<ValkeyConnection>;
  class Lent;
  using Places = std::vector<std::size_t>;  // of names in a call
  Result<Connection> take(NodeId node, std::int64_t deadline_ns) EXCLUDES(mutex_);
  // Returns null if there is none.
  Connection take_idle(NodeId node) EXCLUDES(mutex_);
  // Finds a node's address, if its name has another one by now.
  Result<std::string> find_address(NodeId node, std::int64_t deadline_ns) EXCLUDES(mutex_);
  void give_back(NodeId node, Connection connection) EXCLUDES(mutex_);
  // Returns the error that a reply is, and learns from MOVED.
  Status check(const ValkeyReply& reply, NodeId node);
  Status write(Lent& lent, const std::string& key, ByteSpan bytes, std::string_view ttl_ms,
               const TransferLimits& limits);
  // Returns true if all of the payload is there, or the head is not.
  Result<bool> touch(const Touched& object, std::string_view ttl_ms, std::int64_t deadline_ns);
  // The role of a server: one of a cluster, or else one that takes writes, or a replica.
  enum class Role { kInCluster, kPrimary, kReplica };
  Result<Role> probe_alone(NodeId node, std::int64_t deadline_ns) EXCLUDES(mutex_);
  Result<Role> learn_slots(Lent& lent, std::int64_t deadline_ns);
  void ask_others(NodeId node, std::int64_t deadline_ns) EXCLUDES(mutex_);
  NodeId next_other(NodeId node, std::uint32_t others) EXCLUDES(mutex_);
  // Returns the first node from this one on that has slots.
  std::optional<std::uint64_t> next_with_slots(std::uint64_t node) const;
  Result<ValkeyReply> ask(Lent& lent, const ValkeyConnection::Words& words, std::int64_t deadline_ns);
  // Trouble is the answer for all of a node's names.
  bool ask_heads(Lent& lent, const Places& places, const std::vector<ObjectName>& names, std::size_t first_bytes,
                 std::vector<HeadBytes>& heads, std::int64_t deadline_ns);
  void receive_heads(Lent& lent, const Places& places, std::vector<HeadBytes>& heads, std::size_t first_bytes,
                     std::int64_t deadline_ns);

  const EngineUrl url_;
  const ValkeyAccess access_;
  os::Clock& clock_;
  SlotMap slots_;
  os::HostResolver resolver_;
  Mutex mutex_;
  std::map<NodeId, std::vector<Connection>> idle_ GUARDED_BY(mutex_);
  std::set<NodeId> hung_up_ GUARDED_BY(mutex_);                 // since hung_up() was asked
  std::map<NodeId, std::string> addresses_ GUARDED_BY(mutex_);  // resolved
  std::uint32_t asked_ GUARDED_BY(mutex_) = 0;                  // for another node's names, so far
};

}  // namespace kvkeep::share
