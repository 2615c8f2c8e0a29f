#include "share/engines/valkey_engine.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <functional>
#include <utility>

#include "os/network.h"
#include "os/threads.h"

namespace kvkeep::share {
namespace {

constexpr std::size_t kMostIdle = 4;  // connections to a node
constexpr std::size_t kMostNodes = 4096;
// Answers other than heads and pieces. CLUSTER SLOTS has some MB if neighbouring slots lie on different nodes.
constexpr std::size_t kSmallBytes = 8 << 20;
constexpr std::size_t kPiecesAtOnce = 16;
constexpr std::string_view kScanned = "1000";  // keys of all users that a page looks at

std::string key_of(const ObjectName& name) { return name.join("kv1:", ":{", "}:"); }

// The reverse of key_of(); nullopt for keys of pieces, and of others.
std::optional<ObjectName> name_of(std::string_view key) {
  constexpr std::string_view kBegin = "kv1:";
  constexpr std::size_t kId = kBegin.size() + ObjectName::kSpaceDigits + 2;  // where it begins, after ":{"
  constexpr std::size_t kEnd = kId + ObjectName::kIdDigits;
  if (key.size() != kEnd + 3 || !key.starts_with(kBegin) || key.substr(kId - 2, 2) != ":{" ||
      key.substr(kEnd, 2) != "}:") {
    return std::nullopt;
  }
  return ObjectName::of_parts(key.substr(kBegin.size(), ObjectName::kSpaceDigits),
                              key.substr(kId, ObjectName::kIdDigits), key.back());
}

std::string piece_key(const std::string& key, std::uint64_t piece) { return key + ':' + std::to_string(piece); }

std::uint64_t pieces_of(std::uint64_t bytes) { return (bytes + kPieceBytes - 1) / kPieceBytes; }

std::optional<std::uint64_t> number_in(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

// CRC16 of the XMODEM kind, as the protocol of clusters has it, by bytes: a look-up asks for the slots of hundreds of
// names.
constexpr auto kCrcOfByte = [] {
  std::array<std::uint16_t, 256> table{};
  for (std::size_t byte = 0; byte < table.size(); ++byte) {
    auto crc = static_cast<std::uint16_t>(byte << 8);
    for (int bit = 0; bit < 8; ++bit) {
      crc = static_cast<std::uint16_t>((crc & 0x8000) != 0 ? crc << 1 ^ 0x1021 : crc << 1);
    }
    table[byte] = crc;
  }
  return table;
}();

std::uint16_t crc16(std::string_view text) {
  std::uint16_t crc = 0;
  for (const char letter : text) {
    const auto byte = static_cast<unsigned char>(crc >> 8 ^ static_cast<unsigned char>(letter));
    crc = static_cast<std::uint16_t>(crc << 8 ^ kCrcOfByte[byte]);
  }
  return crc;
}

// The value of "name:value" in the answer to INFO.
std::optional<std::string> info_field(std::string_view info, std::string_view name) {
  while (!info.empty()) {
    std::string_view line = info.substr(0, info.find('\n'));
    info.remove_prefix(std::min(info.size(), line.size() + 1));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.starts_with(name) && line.substr(name.size()).starts_with(':')) {
      return std::string(line.substr(name.size() + 1));
    }
  }
  return std::nullopt;
}

void add_warnings(EngineFacts& facts) {
  if (facts.max_bytes == 0) {
    facts.warnings.push_back("maxmemory is not set: the server takes all memory of its machine; set it");
  }
  if (facts.policy == "noeviction") {
    facts.warnings.push_back("maxmemory-policy is noeviction: a full server refuses new state; set allkeys-lru");
  }
  if (facts.policy && facts.policy->ends_with("lfu")) {
    facts.warnings.push_back("maxmemory-policy " + *facts.policy +
                             " keeps ends whose beginnings are gone; set allkeys-lru and maxmemory-samples 10");
  }
}

}  // namespace

std::size_t slot_of(std::string_view key) {
  const std::size_t open = key.find('{');
  if (open != std::string_view::npos) {
    const std::size_t close = key.find('}', open + 1);
    if (close != std::string_view::npos && close > open + 1) key = key.substr(open + 1, close - open - 1);
  }
  return crc16(key) % kClusterSlots;
}

std::size_t slot_of(const ObjectName& name) { return crc16(name.id) % kClusterSlots; }

// ---- SlotMap ----

SlotMap::SlotMap(const std::vector<HostPort>& seeds) : hosts_(seeds), counts_(seeds.size()) {
  counts_.front() = kClusterSlots;
}

std::size_t SlotMap::size() const {
  const MutexLock lock(mutex_);
  return hosts_.size();
}

HostPort SlotMap::host(NodeId node) const {
  const MutexLock lock(mutex_);
  return hosts_[node.value()];
}

NodeId SlotMap::node_of(std::size_t slot) const {
  const MutexLock lock(mutex_);
  return NodeId{slots_[slot]};
}

// A look-up asks this of each of its names, several times.
NodeId SlotMap::node_of(const ObjectName& name) const {
  const MutexLock lock(mutex_);
  return NodeId{hosts_.size() == 1 ? 0 : slots_[slot_of(name)]};
}

bool SlotMap::has_slots(NodeId node) const {
  const MutexLock lock(mutex_);
  return counts_[node.value()] > 0;
}

NodeId SlotMap::node(const HostPort& host) {
  const auto found = std::ranges::find(hosts_, host);
  if (found != hosts_.end()) return NodeId{static_cast<std::uint32_t>(found - hosts_.begin())};
  if (hosts_.size() >= kMostNodes) return NodeId{0};
  hosts_.push_back(host);
  counts_.push_back(0);
  return NodeId{static_cast<std::uint32_t>(hosts_.size() - 1)};
}

void SlotMap::give(std::size_t slot, NodeId owner) {
  --counts_[slots_[slot]];
  slots_[slot] = owner.value();
  ++counts_[owner.value()];
}

void SlotMap::give_all(NodeId node) {
  const MutexLock lock(mutex_);
  for (std::size_t slot = 0; slot < kClusterSlots; ++slot) give(slot, node);
}

void SlotMap::learn(const ValkeyReply& slots, const HostPort& asked) {
  const MutexLock lock(mutex_);
  for (const ValkeyReply& range : slots.list) {
    if (range.list.size() < 3 || range.list[2].list.size() < 2) continue;
    const std::int64_t first = range.list[0].number;
    const std::int64_t last = range.list[1].number;
    const ValkeyReply& master = range.list[2];
    const std::int64_t port = master.list[1].number;
    if (first < 0 || last < first || last >= static_cast<std::int64_t>(kClusterSlots) || port <= 0 || port > 65'535) {
      continue;
    }
    const std::string& told = master.list[0].text;
    const NodeId owner = node({told.empty() ? asked.host : told, static_cast<int>(port)});
    for (std::int64_t slot = first; slot <= last; ++slot) give(static_cast<std::size_t>(slot), owner);
  }
}

void SlotMap::learn_moved(std::string_view message, const HostPort& asked) {
  const std::size_t space = message.find(' ');
  const std::size_t second = message.find(' ', space + 1);
  const std::size_t colon = message.rfind(':');
  if (space == std::string_view::npos || second == std::string_view::npos || colon == std::string_view::npos) return;
  if (colon < second) return;
  const auto slot = number_in(message.substr(space + 1, second - space - 1));
  const auto port = number_in(message.substr(colon + 1));
  if (!slot || *slot >= kClusterSlots || !port || *port == 0 || *port > 65'535) return;
  const std::string_view host = message.substr(second + 1, colon - second - 1);
  const MutexLock lock(mutex_);
  give(*slot, node({host.empty() ? asked.host : std::string(host), static_cast<int>(*port)}));
}

// ---- connections ----

// A connection that goes back when it is left, unless its stream of answers is out of step.
class ValkeyEngine::Lent {
 public:
  Lent(ValkeyEngine& engine, NodeId its_node, Connection connection)
      : engine_(&engine), node_(its_node), connection_(std::move(connection)) {}
  Lent(Lent&& other) noexcept = default;
  ~Lent() {
    if (connection_ && clean_) engine_->give_back(node_, std::move(connection_));
  }
  ValkeyConnection* operator->() { return connection_.get(); }
  NodeId node() const { return node_; }
  // Answers are outstanding until settled().
  void busy() { clean_ = false; }
  void settled() { clean_ = true; }

 private:
  ValkeyEngine* engine_;
  NodeId node_;
  Connection connection_;
  bool clean_ = true;
};

ValkeyEngine::ValkeyEngine(EngineUrl url, ValkeyAccess access, os::Clock& clock)
    : url_(std::move(url)), access_(std::move(access)), clock_(clock), slots_(url_.hosts) {}

ValkeyEngine::~ValkeyEngine() = default;

NodeId ValkeyEngine::node_of(const ObjectName& name) const { return slots_.node_of(name); }

std::string ValkeyEngine::node_address(NodeId node) const {
  const HostPort host = slots_.host(node);
  return "valkey " + host.host + ':' + std::to_string(host.port);
}

ValkeyEngine::Connection ValkeyEngine::take_idle(NodeId node) {
  const MutexLock lock(mutex_);
  auto& idle = idle_[node];
  while (!idle.empty()) {
    Connection connection = std::move(idle.back());
    idle.pop_back();
    if (connection->quiet()) return connection;
    hung_up_.insert(node);
  }
  return nullptr;
}

Result<ValkeyEngine::Connection> ValkeyEngine::take(NodeId node, std::int64_t deadline_ns) {
  if (clock_.monotonic_ns() >= deadline_ns) return io_error("no time is left");
  if (Connection idle = take_idle(node)) return idle;
  const HostPort host = slots_.host(node);
  std::string address;
  {
    const MutexLock lock(mutex_);
    address = addresses_[node];
  }
  if (address.empty()) {
    // Numbers resolve at once; a name's address is looked up by probes only, because that may take long.
    if (!os::is_address(host.host)) return busy(host.host + " is not resolved yet");
    address = host.host;
  }
  return ValkeyConnection::open(address, host, access_, clock_, deadline_ns);
}

void ValkeyEngine::give_back(NodeId node, Connection connection) {
  const MutexLock lock(mutex_);
  auto& idle = idle_[node];
  if (idle.size() < kMostIdle) idle.push_back(std::move(connection));
}

Status ValkeyEngine::check(const ValkeyReply& reply, NodeId node) {
  if (reply.kind != ValkeyReply::Kind::kError) return {};
  if (reply.text.starts_with("MOVED ")) slots_.learn_moved(reply.text, slots_.host(node));
  return valkey_error(reply.text);
}

Result<ValkeyReply> ValkeyEngine::ask(Lent& lent, const ValkeyConnection::Words& words, std::int64_t deadline_ns) {
  lent.busy();
  lent->queue(words);
  TRY(lent->send(deadline_ns));
  TRY_ASSIGN(ValkeyReply reply, lent->receive(kSmallBytes, deadline_ns));
  lent.settled();
  TRY(check(reply, lent.node()));
  return reply;
}

// ---- objects ----

// Nodes work side by side while the first one's answers are read. Those that are to be connected to are asked on
// threads of their own: a handshake takes several round trips, and one that hangs must not take the others' time.
std::vector<HeadBytes> ValkeyEngine::heads(const std::vector<ObjectName>& names, std::size_t first_bytes,
                                           std::int64_t deadline_ns) {
  if (clock_.monotonic_ns() >= deadline_ns) return std::vector<HeadBytes>(names.size(), io_error("no time is left"));
  std::vector<HeadBytes> heads(names.size(), HeadBytes(not_found("")));  // until each has its answer, or trouble
  std::map<NodeId, Places> places;
  for (std::size_t i = 0; i < names.size(); ++i) places[node_of(names[i])].push_back(i);
  std::vector<std::pair<Lent, const Places*>> asked;
  std::vector<std::function<void()>> tasks;
  for (const auto& [node, here] : places) {
    if (Connection idle = take_idle(node)) {
      Lent lent(*this, node, std::move(idle));
      if (ask_heads(lent, here, names, first_bytes, heads, deadline_ns)) asked.emplace_back(std::move(lent), &here);
      continue;
    }
    tasks.emplace_back([&, at = node, &own = here] {
      auto connection = take(at, deadline_ns);
      if (!connection.ok()) {
        for (const std::size_t place : own) heads[place] = connection.error();
        return;
      }
      Lent lent(*this, at, std::move(*connection));
      if (!ask_heads(lent, own, names, first_bytes, heads, deadline_ns)) return;
      receive_heads(lent, own, heads, first_bytes, deadline_ns);
    });
  }
  if (!asked.empty()) {
    tasks.emplace_back([&] {
      for (auto& [lent, here] : asked) receive_heads(lent, *here, heads, first_bytes, deadline_ns);
    });
  }
  os::run_side_by_side(tasks);
  return heads;
}

bool ValkeyEngine::ask_heads(Lent& lent, const Places& places, const std::vector<ObjectName>& names,
                             std::size_t first_bytes, std::vector<HeadBytes>& heads, std::int64_t deadline_ns) {
  const std::string last = std::to_string(first_bytes - 1);
  lent.busy();
  for (const std::size_t place : places) lent->queue({"GETRANGE", key_of(names[place]), "0", last});
  const Status sent = lent->send(deadline_ns);
  for (const std::size_t place : places) {
    if (!sent.ok()) heads[place] = sent.error();
  }
  return sent.ok();
}

void ValkeyEngine::receive_heads(Lent& lent, const Places& places, std::vector<HeadBytes>& heads,
                                 std::size_t first_bytes, std::int64_t deadline_ns) {
  for (std::size_t i = 0; i < places.size(); ++i) {
    std::vector<std::byte> bytes;
    auto reply = lent->receive(first_bytes, deadline_ns, &bytes);
    if (!reply.ok()) {
      for (; i < places.size(); ++i) heads[places[i]] = reply.error();
      return;
    }
    HeadBytes& head = heads[places[i]];
    if (const Status ok = check(*reply, lent.node()); !ok.ok()) {
      head = ok.error();
    } else if (bytes.empty()) {  // of an absent key, too
      head = not_found("no such object");
    } else {
      head = std::move(bytes);
    }
  }
  lent.settled();
}

Status ValkeyEngine::get(const ObjectName& name, const PayloadSlice& slice, MutableByteSpan out, const Arrived& arrived,
                         const TransferLimits& limits) {
  if (out.empty()) return {};
  const NodeId node = node_of(name);
  TRY_ASSIGN(Connection connection, take(node, limits.wait_until(clock_.monotonic_ns())));
  Lent lent(*this, node, std::move(connection));
  lent.busy();
  const std::string key = key_of(name);
  std::uint64_t next = slice.begin / kPieceBytes;
  const std::uint64_t end = next + pieces_of(out.size());
  std::uint64_t outstanding = 0;
  Status read;
  for (std::size_t at = 0; at < out.size();) {
    // So many are asked for ahead that the server never waits for us, and so few that it buffers little.
    for (; next < end && outstanding < kPiecesAtOnce; ++next, ++outstanding) lent->queue({"GET", piece_key(key, next)});
    TRY(lent->send(limits));
    const MutableByteSpan piece = out.subspan(at, std::min(kPieceBytes, out.size() - at));
    read = lent->receive_into(piece, [&](std::size_t count) { arrived(at + count); }, limits);
    if (!read.ok()) break;
    --outstanding;
    at += piece.size();
  }
  if (read.ok()) lent.settled();
  return read;
}

Status ValkeyEngine::write(Lent& lent, const std::string& key, ByteSpan bytes, std::string_view ttl_ms,
                           const TransferLimits& limits) {
  lent.busy();
  TRY(lent->send_large({"SET", key}, bytes, {"PX", ttl_ms}, limits));
  TRY_ASSIGN(const ValkeyReply reply, lent->receive(kSmallBytes, limits));
  lent.settled();
  return check(reply, lent.node());
}

Status ValkeyEngine::put(const ObjectName& name, ByteSpan head, ByteSpan payload, std::int64_t ttl_s,
                         const TransferLimits& limits) {
  const NodeId node = node_of(name);
  TRY_ASSIGN(Connection connection, take(node, limits.wait_until(clock_.monotonic_ns())));
  Lent lent(*this, node, std::move(connection));
  const std::string key = key_of(name);
  const std::string ttl_ms = std::to_string(ttl_s * 1000);
  for (std::uint64_t piece = 0; piece < pieces_of(payload.size()); ++piece) {
    const ByteSpan bytes = payload.subspan(piece * kPieceBytes);
    TRY(write(lent, piece_key(key, piece), bytes.first(std::min(kPieceBytes, bytes.size())), ttl_ms, limits));
  }
  return write(lent, key, head, ttl_ms, limits);
}

Result<std::vector<ObjectName>> ValkeyEngine::touch(const std::vector<Touched>& objects, std::int64_t ttl_s,
                                                    std::int64_t deadline_ns) {
  const std::string ttl_ms = std::to_string(ttl_s * 1000);
  std::vector<ObjectName> broken;
  for (const Touched& object : objects) {
    TRY_ASSIGN(const bool whole, touch(object, ttl_ms, deadline_ns));
    if (!whole) broken.push_back(object.name);
  }
  return broken;
}

Result<bool> ValkeyEngine::touch(const Touched& object, std::string_view ttl_ms, std::int64_t deadline_ns) {
  const NodeId node = node_of(object.name);
  TRY_ASSIGN(Connection connection, take(node, deadline_ns));
  Lent lent(*this, node, std::move(connection));
  lent.busy();
  const std::string key = key_of(object.name);
  const std::uint64_t pieces = pieces_of(object.payload_bytes);
  lent->queue({"PEXPIRE", key, ttl_ms});
  for (std::uint64_t piece = 0; piece < pieces; ++piece) lent->queue({"PEXPIRE", piece_key(key, piece), ttl_ms});
  TRY(lent->send(deadline_ns));
  Status touched;
  std::vector<bool> there;
  for (std::uint64_t i = 0; i <= pieces; ++i) {
    TRY_ASSIGN(const ValkeyReply reply, lent->receive(kSmallBytes, deadline_ns));
    if (Status ok = check(reply, node); !ok.ok()) {
      // The rights to read and to renew are two. Whoever may not log in comes no further than take().
      touched = reply.text.starts_with("NOPERM") ? Status(unsupported(ok.error().message)) : std::move(ok);
    }
    there.push_back(reply.number == 1);
  }
  lent.settled();
  TRY(touched);
  return !there.front() || std::ranges::find(there, false) == there.end();
}

Status ValkeyEngine::remove(const ObjectName& name, std::int64_t deadline_ns) {
  const NodeId node = node_of(name);
  TRY_ASSIGN(Connection connection, take(node, deadline_ns));
  Lent lent(*this, node, std::move(connection));
  const std::string key = key_of(name);
  TRY(ask(lent, {"DEL", key}, deadline_ns));
  // Pieces have no gaps, unless some were evicted: those that are left leave by themselves.
  for (std::uint64_t piece = 0;; ++piece) {
    TRY_ASSIGN(const ValkeyReply removed, ask(lent, {"DEL", piece_key(key, piece)}, deadline_ns));
    if (removed.number == 0) return {};
  }
}

std::optional<std::uint64_t> ValkeyEngine::next_with_slots(std::uint64_t node) const {
  while (node < nodes() && !slots_.has_slots(NodeId{static_cast<std::uint32_t>(node)})) ++node;
  return node < nodes() ? std::optional(node) : std::nullopt;
}

Result<NamesPage> ValkeyEngine::list(const std::string& space, const std::string& from, std::int64_t deadline_ns) {
  // "<node>:<cursor>"
  const std::size_t colon = std::min(from.find(':'), from.size());
  const auto node = from.empty() ? next_with_slots(0) : number_in(std::string_view(from).substr(0, colon));
  const std::string cursor = from.empty() ? "0" : from.substr(std::min(colon + 1, from.size()));
  if (!node || *node >= nodes() || !number_in(cursor)) return invalid("no page of this engine: " + from);
  const NodeId here{static_cast<std::uint32_t>(*node)};
  TRY_ASSIGN(Connection connection, take(here, deadline_ns));
  Lent lent(*this, here, std::move(connection));
  const std::string match = "kv1:" + (space.empty() ? "*" : space + ":*");
  TRY_ASSIGN(const ValkeyReply reply, ask(lent, {"SCAN", cursor, "MATCH", match, "COUNT", kScanned}, deadline_ns));
  if (reply.list.size() != 2 || !number_in(reply.list[0].text)) return damaged("an answer to SCAN without a cursor");
  NamesPage page;
  for (const ValkeyReply& key : reply.list[1].list) {
    if (auto name = name_of(key.text)) page.names.push_back(std::move(*name));
  }
  if (reply.list[0].text != "0") {
    page.next = std::to_string(*node) + ':' + reply.list[0].text;
  } else if (const auto next = next_with_slots(*node + 1)) {
    page.next = std::to_string(*next) + ":0";
  }
  return page;
}

// ---- nodes ----

std::vector<NodeId> ValkeyEngine::hung_up() {
  const MutexLock lock(mutex_);
  for (auto& [node, idle] : idle_) {
    const auto is_dead = [](const Connection& connection) { return !connection->quiet(); };
    if (std::erase_if(idle, is_dead) > 0) hung_up_.insert(node);
  }
  std::vector<NodeId> nodes(hung_up_.begin(), hung_up_.end());
  hung_up_.clear();
  return nodes;
}

// A node that hangs leaves half of the time to the others.
Status ValkeyEngine::probe(NodeId node, std::int64_t deadline_ns) {
  const std::int64_t now_ns = clock_.monotonic_ns();
  const auto role = probe_alone(node, nodes() > 1 ? now_ns + (deadline_ns - now_ns) / 2 : deadline_ns);
  if (!role.ok() || *role == Role::kReplica) ask_others(node, deadline_ns);
  return role.ok() ? Status{} : Status(role.error());
}

// A name server in trouble says nothing of the node: its last address is good until there is another.
Result<std::string> ValkeyEngine::find_address(NodeId node, std::int64_t deadline_ns) {
  const std::int64_t left_ms = (deadline_ns - clock_.monotonic_ns()) / 1'000'000;
  auto found = resolver_.resolve(slots_.host(node).host, left_ms / 2);
  const MutexLock lock(mutex_);
  std::string& address = addresses_[node];
  if (found.ok()) address = *found;
  if (!found.ok() && address.empty()) return found;
  return address;
}

Result<ValkeyEngine::Role> ValkeyEngine::probe_alone(NodeId node, std::int64_t deadline_ns) {
  const HostPort host = slots_.host(node);
  {
    const MutexLock lock(mutex_);
    idle_[node].clear();  // of a node that was suspected: none of them is known to work
  }
  TRY_ASSIGN(const std::string address, find_address(node, deadline_ns));
  TRY_ASSIGN(Connection connection, ValkeyConnection::open(address, host, access_, clock_, deadline_ns));
  Lent lent(*this, node, std::move(connection));
  TRY(ask(lent, {"PING"}, deadline_ns));
  return learn_slots(lent, deadline_ns);
}

Result<ValkeyEngine::Role> ValkeyEngine::learn_slots(Lent& lent, std::int64_t deadline_ns) {
  const auto slots = ask(lent, {"CLUSTER", "SLOTS"}, deadline_ns);
  if (slots.ok()) {
    slots_.learn(*slots, slots_.host(lent.node()));
    return Role::kInCluster;
  }
  // A single server has no slots, and a user may lack the right to ask: then MOVED tells.
  if (slots.error().kind == ErrorKind::kInvalid) return Role::kInCluster;
  if (!slots.error().message.starts_with("ERR")) return slots.error();
  if (url_.hosts.size() < 2) return Role::kPrimary;
  const auto info = ask(lent, {"INFO", "replication"}, deadline_ns);
  if (!info.ok() && info.error().kind != ErrorKind::kInvalid) return info.error();
  return info.ok() && info_field(info->text, "role") == "slave" ? Role::kReplica : Role::kPrimary;
}

// Asks some of the others, each time beginning with another one, until one tells who has which slots, or is a primary
// and so has them all.
void ValkeyEngine::ask_others(NodeId node, std::int64_t deadline_ns) {
  constexpr std::uint32_t kMostAsked = 4;
  const auto others = static_cast<std::uint32_t>(nodes()) - 1;
  for (std::uint32_t left = std::min(kMostAsked, others); left > 0; --left) {
    const NodeId other = next_other(node, others);
    const std::int64_t now_ns = clock_.monotonic_ns();
    const auto role = probe_alone(other, now_ns + (deadline_ns - now_ns) / left);
    if (!role.ok() || *role == Role::kReplica) continue;
    if (*role == Role::kPrimary) slots_.give_all(other);
    return;
  }
}

NodeId ValkeyEngine::next_other(NodeId node, std::uint32_t others) {
  const MutexLock lock(mutex_);
  return NodeId{(node.value() + 1 + asked_++ % others) % (others + 1)};
}

Result<EngineFacts> ValkeyEngine::facts(std::int64_t deadline_ns) {
  EngineFacts facts{.keys = 0, .reads_found = 0, .reads_missed = 0};
  std::uint64_t used = 0;
  std::size_t count = 0;
  for (auto i = next_with_slots(0); i; i = next_with_slots(*i + 1), ++count) {
    const NodeId node{static_cast<std::uint32_t>(*i)};
    TRY_ASSIGN(Connection connection, take(node, deadline_ns));
    Lent lent(*this, node, std::move(connection));
    TRY_ASSIGN(const ValkeyReply info, ask(lent, {"INFO"}, deadline_ns));
    const std::string version = info_field(info.text, "valkey_version")
                                    .value_or(info_field(info.text, "redis_version").value_or("of an unknown version"));
    facts.description = "valkey " + version + (count > 0 ? ", " + std::to_string(count + 1) + " nodes" : "");
    facts.policy = info_field(info.text, "maxmemory_policy");
    const auto number = [&](std::string_view name) {
      return number_in(info_field(info.text, name).value_or("")).value_or(0);
    };
    const std::uint64_t most = number("maxmemory");
    facts.max_bytes = count == 0 ? most : (most == 0 ? 0 : *facts.max_bytes + most);
    used += number("used_memory");
    *facts.reads_found += number("keyspace_hits");
    *facts.reads_missed += number("keyspace_misses");
    const std::string keyspace = info_field(info.text, "db0").value_or("keys=0");
    *facts.keys += number_in(std::string_view(keyspace).substr(5, keyspace.find(',') - 5)).value_or(0);
  }
  facts.used_bytes = used;
  add_warnings(facts);
  return facts;
}

}  // namespace kvkeep::share
