#include "share/shared_store.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <utility>

#include "os/process.h"
#include "share/lookup.h"
#include "share/nodes.h"
#include "share/publisher.h"
#include "share/recent_names.h"
#include "share/vault.h"

namespace kvkeep::share {
namespace {

constexpr std::int64_t kTouchEveryNs = 60 * kSecondNs;
constexpr std::int64_t kTouchRecordsEveryNs = 600 * kSecondNs;
constexpr std::int64_t kLastingAfterHangUpNs = 60 * kSecondNs;
constexpr std::int64_t kRefusedLastingNs = 10 * kSecondNs;  // until the record is offered again
constexpr std::int64_t kFactsEveryNs = 10 * kSecondNs;
constexpr std::int64_t kFactsNs = 2 * kSecondNs;
constexpr std::int64_t kRefusedTouchesNs = 3600 * kSecondNs;
// All probes of a tick together take this long, unless they are many: healing is to be noticed within seconds.
constexpr std::int64_t kProbesNs = kSecondNs;
constexpr std::int64_t kLeastProbeNs = kSecondNs / 5;
// Publications wait so long for housekeeping, once a tick.
constexpr std::int64_t kTidyNs = kSecondNs / 10;
constexpr std::size_t kMostRememberedTouches = 65'536;

std::uint64_t random_number() {
  std::uint64_t number = 0;
  os::fill_random(std::as_writable_bytes(std::span(&number, 1)));
  return number;
}

bool describes(const format::Envelope& envelope, const format::SegmentHeader& segment) {
  // The name tells h(end), from which the rest of the prompt follows.
  return envelope.begin == segment.name.begin && envelope.end == segment.name.end &&
         envelope.payload_bytes == format::payload_bytes(segment) + (envelope.encrypted ? kCipherTagBytes : 0);
}

}  // namespace

// Everything in the order in which it is made.
class SharedStore::Parts {
 public:
  Parts(std::unique_ptr<ObjectEngine> own_engine, ShareOptions own_options, os::Clock& own_clock,
        os::Executor& own_executor, os::Executor& own_prober)
      : engine(std::move(own_engine)),
        options(std::move(own_options)),
        clock(own_clock),
        executor(own_executor),
        prober(own_prober),
        vault({.fingerprint = options.fingerprint,
               .device = options.device,
               .weights = options.weights,
               .key = options.key,
               .encrypt = options.encrypt,
               .writer = random_number()}),
        nodes(*engine, clock, counting),
        lookup(*engine, vault, options.fingerprint, nodes, counting, clock),
        publisher(*engine, vault, lookup, nodes, counting, clock, executor, options, Cipher::random_salt),
        touched(kMostRememberedTouches),
        memory(options.mode == ShareMode::kWrite ? ByteCount{} : options.ready_memory) {}

  ObjectName name_of(const format::SegmentHeader& segment) const {
    return vault.name_of(format::short_hash(segment.name.end_hash), segment.name.kind);
  }
  bool reads() const { return options.mode != ShareMode::kWrite; }
  bool writes() const { return options.mode != ShareMode::kRead; }
  Result<Payload> fetch(const format::SegmentHeader& segment, const ObjectName& name, std::int64_t deadline_ns,
                        std::size_t side_by_side);
  void touch(std::vector<ObjectEngine::Touched> objects, std::int64_t every_ns);
  void touch_now(NodeId node, const std::vector<ObjectEngine::Touched>& objects);
  void note_refused_touch(const Error& error);
  void keep_lasting();
  void probe(const std::vector<NodeId>& wanting);
  void tell_facts();
  Result<std::vector<std::byte>> open_record(const ObjectName& name, const HeadBytes& bytes);

  const std::unique_ptr<ObjectEngine> engine;
  const ShareOptions options;
  os::Clock& clock;
  os::Executor& executor;
  os::Executor& prober;
  ShareCounting counting;
  const Vault vault;
  Nodes nodes;
  Lookup lookup;
  Publisher publisher;
  RecentNames<bool> touched;
  store::ReadyMemory memory;
  std::atomic<std::size_t> reads_now = 0;
  std::atomic<bool> preparing = false;
  std::atomic<std::int64_t> touches_refused_until_ns = 0;
  std::atomic<bool> reads_encrypted = false;  // others encrypt what this server reads
  std::atomic<bool> probing = false;
  std::atomic<bool> tidying = false;
  std::atomic<bool> distrusted = false;
  std::atomic<bool> known = false;      // options.when_well said so, and nothing happened since
  std::atomic<bool> facts_due = false;  // it is to be called
  std::atomic<std::int64_t> lasting_due_ns = INT64_MIN;

 private:
  // One try to read a payload: what came, and whether the engine has other bytes than the envelope says, or none.
  struct Reading {
    Result<Payload> payload;
    bool differs = false;
  };
  Reading read(const format::SegmentHeader& segment, const ObjectName& name, const format::Envelope& envelope,
               std::int64_t deadline_ns, std::size_t side_by_side);
  Status transfer(const ObjectName& name, const format::Envelope& envelope, Vault::Opening& opening,
                  MutableByteSpan out, std::int64_t deadline_ns, std::size_t side_by_side);

  std::int64_t next_facts_ns_ = INT64_MIN;  // used only by tell_facts()
};

Result<std::unique_ptr<SharedStore>> SharedStore::make(std::unique_ptr<ObjectEngine> engine, ShareOptions options,
                                                       os::Clock& clock, os::Executor& executor, os::Executor* prober) {
  if (options.encrypt && options.key.empty()) return invalid("encryption of the shared tier needs a share key");
  if (options.encrypt && !can_encrypt()) return unsupported("this build has no OpenSSL, which encryption needs");
  if (options.ttl_s <= 0) return invalid("objects of the shared tier must live for a while");
  auto parts = std::make_unique<Parts>(std::move(engine), std::move(options), clock, executor,
                                       prober != nullptr ? *prober : executor);
  std::unique_ptr<SharedStore> store(new SharedStore(std::move(parts)));
  store->tick();
  return store;
}

SharedStore::SharedStore(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
SharedStore::~SharedStore() = default;

bool SharedStore::readable() const { return parts_->reads() && !parts_->distrusted && parts_->nodes.may_ask_any(); }

std::optional<SharedPath> SharedStore::find(const ShareQuery& query, std::int64_t patient_until_ns) {
  parts_->counting.add(&ShareCounters::lookups);
  if (!readable()) {
    parts_->counting.add(&ShareCounters::lookups_skipped);
    return std::nullopt;
  }
  auto path = parts_->lookup.find(query, patient_until_ns);
  if (path) parts_->counting.add(&ShareCounters::hits);
  return path;
}

std::vector<std::optional<format::SharedHead>> SharedStore::heads(const ShareQuery& query,
                                                                  std::int64_t patient_until_ns) {
  if (!readable()) return std::vector<std::optional<format::SharedHead>>(query.ends.size());
  return parts_->lookup.heads(query, patient_until_ns);
}

Result<SharedStore::Payload> SharedStore::get(const format::SegmentHeader& segment, std::int64_t deadline_ns,
                                              std::size_t side_by_side) {
  if (!readable()) return busy("the shared tier is not asked at the moment");
  const ObjectName name = parts_->name_of(segment);
  if (!parts_->nodes.may_ask(parts_->engine->node_of(name))) return busy("its node is not asked at the moment");
  parts_->counting.add(&ShareCounters::loads);
  auto bytes = parts_->fetch(segment, name, deadline_ns, side_by_side);
  if (bytes.ok()) {
    parts_->counting.add(&ShareCounters::loaded_bytes, (*bytes)->size());
    return bytes;
  }
  // Another server may have replaced the object since its head was read: the next caller asks for it again.
  parts_->lookup.forget(name);
  if (bytes.error().kind == ErrorKind::kNotFound) parts_->counting.add(&ShareCounters::load_misses);
  if (bytes.error().kind == ErrorKind::kDamaged) parts_->nodes.note_damaged(name, bytes.error());
  return bytes;
}

// An object that does not have what its head says may have been replaced since that was read, by a server that cut the
// prompt elsewhere: its head is read anew before it counts as broken.
Result<SharedStore::Payload> SharedStore::Parts::fetch(const format::SegmentHeader& segment, const ObjectName& name,
                                                       std::int64_t deadline_ns, std::size_t side_by_side) {
  TRY_ASSIGN(const format::Envelope seen, lookup.envelope(name, deadline_ns));
  if (!describes(seen, segment)) return not_found("a segment with another begin lies under this name");
  if (seen.encrypted) reads_encrypted = true;
  Reading reading = read(segment, name, seen, deadline_ns, side_by_side);
  if (!reading.differs) return reading.payload;
  lookup.forget(name);
  const auto now = lookup.envelope(name, deadline_ns);
  if (!now.ok()) {
    if (now.error().kind == ErrorKind::kDamaged) publisher.note_broken(name);
    return reading.payload;
  }
  if (*now != seen && !describes(*now, segment)) return not_found("another segment lies under this name by now");
  if (*now != seen) reading = read(segment, name, *now, deadline_ns, side_by_side);
  if (*now == seen) publisher.note_broken(name);
  return reading.payload;
}

SharedStore::Parts::Reading SharedStore::Parts::read(const format::SegmentHeader& segment, const ObjectName& name,
                                                     const format::Envelope& envelope, std::int64_t deadline_ns,
                                                     std::size_t side_by_side) {
  auto buffer = memory.allocate(envelope.payload_bytes);
  Vault::Opening opening(vault, name, envelope, buffer.span());
  opening.sum_up(segment);
  const Status come = transfer(name, envelope, opening, buffer.span(), deadline_ns, side_by_side);
  if (!come.ok()) return {come.error(), come.error().kind == ErrorKind::kNotFound};
  auto payload = unpack(opening, segment, std::move(buffer));
  const bool differs = !payload.ok();
  return {std::move(payload), differs};
}

// Fills `out`, and notes how that went. A read whose bytes do not come any more is worse than one that is slow: each
// one that follows would wait as long. If bytes came, and only the caller had no more time for the rest, the node is
// well.
Status SharedStore::Parts::transfer(const ObjectName& name, const format::Envelope& envelope, Vault::Opening& opening,
                                    MutableByteSpan out, std::int64_t deadline_ns, std::size_t side_by_side) {
  const ByteCount size{out.size()};
  TransferLimits limits = nodes.read_limits(size, side_by_side);
  const bool is_hurried = deadline_ns < limits.deadline_ns;
  limits.deadline_ns = std::min(limits.deadline_ns, deadline_ns);
  const std::int64_t begun = nodes.begin_read();
  ++reads_now;
  std::int64_t came_ns = clock.monotonic_ns();
  std::size_t came = 0;
  Status come = engine->get(
      name, {.head_bytes = envelope.head_bytes(), .begin = 0, .payload_bytes = size.value()}, out,
      [&](std::size_t count) {
        opening.arrived(count);
        came = count;
        came_ns = clock.monotonic_ns();
      },
      limits);
  --reads_now;
  const std::int64_t now_ns = clock.monotonic_ns();
  const std::int64_t lookup_ns = nodes.longest_lookup_ns() * static_cast<std::int64_t>(side_by_side);
  const bool was_silent = now_ns - came_ns >= std::min(limits.silence_ns, lookup_ns);
  const bool was_cut_short = is_hurried && came > 0 && now_ns >= deadline_ns;
  nodes.end_read(begun, come.ok() ? size : ByteCount{});
  const NodeId node = engine->node_of(name);
  if (come.ok() || come.error().kind == ErrorKind::kNotFound) {
    nodes.note_answer(node, policy::ShareCall::kTransfer);
  } else if (was_silent && counts_for_breaker(come.error().kind)) {
    nodes.note_silence(node, come.error());
  } else if (!was_cut_short || come.error().kind != ErrorKind::kIo) {
    nodes.note_trouble(node, policy::ShareCall::kTransfer, come.error());
  }
  return come;
}

bool SharedStore::offer(Publication publication) {
  if (!parts_->writes() || parts_->distrusted) return false;
  return parts_->publisher.offer(std::move(publication));
}

void SharedStore::touch(const std::vector<format::SegmentHeader>& segments) {
  std::vector<ObjectEngine::Touched> objects;
  // An encrypted payload is longer. Whether it is, the engine knows no better: a piece too many is looked at again.
  const std::uint64_t tag = parts_->options.encrypt || parts_->reads_encrypted ? kCipherTagBytes : 0;
  for (const format::SegmentHeader& segment : segments) {
    objects.push_back({parts_->name_of(segment), format::payload_bytes(segment) + tag});
  }
  parts_->touch(std::move(objects), kTouchEveryNs);
}

void SharedStore::touch_records(const std::vector<PrefixHash>& keys) {
  std::vector<ObjectEngine::Touched> objects;
  for (const PrefixHash& key : keys) objects.push_back({parts_->vault.record_name(key), 0});
  parts_->touch(std::move(objects), kTouchRecordsEveryNs);
}

void SharedStore::Parts::touch(std::vector<ObjectEngine::Touched> objects, std::int64_t every_ns) {
  const std::int64_t now_ns = clock.monotonic_ns();
  if (distrusted || now_ns < touches_refused_until_ns) return;
  std::map<NodeId, std::vector<ObjectEngine::Touched>> by_node;
  for (ObjectEngine::Touched& object : objects) {
    const NodeId node = engine->node_of(object.name);
    if (touched.find(object.name, now_ns) || !nodes.may_ask(node)) continue;
    touched.put(object.name, true, now_ns + every_ns);
    by_node[node].push_back(std::move(object));
  }
  for (auto& [node, own] : by_node) {
    counting.add(&ShareCounters::touched, own.size());
    executor.post([this, node, own = std::move(own)] { touch_now(node, own); });
  }
}

// The rights to read and to renew are two: a server with the first one alone is no trouble of the node.
void SharedStore::Parts::note_refused_touch(const Error& error) {
  touches_refused_until_ns = clock.monotonic_ns() + kRefusedTouchesNs;
  spdlog::warn(
      "shared tier: {} does not let this server renew what it uses ({}), so that leaves {} hours after it was written: "
      "give it the right to (docs/sharing.md), or let servers that write use it as well",
      engine->address(), error.message, (options.ttl_s + 3599) / 3600);
}

void SharedStore::Parts::touch_now(NodeId node, const std::vector<ObjectEngine::Touched>& objects) {
  // Another call may have met trouble there meanwhile. Uses that were not reported are, with the next use.
  const auto forget = [&] {
    for (const ObjectEngine::Touched& object : objects) touched.forget(object.name);
  };
  if (!nodes.may_ask(node)) return forget();
  const auto broken = engine->touch(objects, options.ttl_s, nodes.background_deadline_ns());
  if (!broken.ok()) {
    forget();
    if (broken.error().kind == ErrorKind::kUnsupported) return note_refused_touch(broken.error());
    // It takes as long as the engine needs for hundreds of objects: that says nothing of look-ups.
    return nodes.note_trouble(node, policy::ShareCall::kTransfer, broken.error());
  }
  // A server that cut the prompt elsewhere may have published another segment with this end, which is whole.
  for (const ObjectName& name : *broken) {
    const auto own = std::ranges::find(objects, name, &ObjectEngine::Touched::name);
    lookup.forget(name);
    const auto envelope = lookup.envelope(name, nodes.background_deadline_ns());
    if (envelope.ok() && envelope->payload_bytes == own->payload_bytes) publisher.note_broken(name);
  }
}

bool SharedStore::offer_record(const PrefixHash& key, std::vector<std::byte> contents, MergeRecords merge) {
  if (!parts_->writes() || parts_->distrusted || contents.size() > format::kMostRecordBytes) return false;
  return parts_->publisher.offer(RecordOffer{parts_->vault.record_name(key), std::move(contents), std::move(merge)});
}

std::vector<Result<std::vector<std::byte>>> SharedStore::records(const std::vector<PrefixHash>& keys,
                                                                 std::int64_t patient_until_ns) {
  using Record = Result<std::vector<std::byte>>;
  std::vector<Record> records(keys.size(), Record(busy("the shared tier is not asked at the moment")));
  if (!readable()) return records;
  std::vector<ObjectName> names;
  for (const PrefixHash& key : keys) names.push_back(parts_->vault.record_name(key));
  // More at once would take several round trips, which would count as one that is slow.
  const std::size_t at_once = std::max<std::size_t>(parts_->engine->pace().heads_at_once, 1);
  Lookup::Limits limits = parts_->lookup.limits_until(patient_until_ns);
  for (std::size_t end = names.size(); end > 0;) {
    const std::size_t begin = end - std::min(end, at_once);
    const std::vector<ObjectName> asked(names.begin() + static_cast<std::ptrdiff_t>(begin),
                                        names.begin() + static_cast<std::ptrdiff_t>(end));
    const auto answers = parts_->lookup.ask(asked, format::kMostStoredRecordBytes, limits);
    for (std::size_t i = 0; i < asked.size(); ++i) records[begin + i] = parts_->open_record(asked[i], answers[i]);
    end = begin;
  }
  return records;
}

Result<std::vector<std::byte>> SharedStore::Parts::open_record(const ObjectName& name, const HeadBytes& bytes) {
  if (!bytes.ok()) return bytes.error();
  auto record = vault.open_record(name, *bytes);
  if (!record.ok()) nodes.note_damaged(name, record.error());
  return record;
}

void SharedStore::Parts::keep_lasting() {
  const std::int64_t now_ns = clock.monotonic_ns();
  if (!options.lasting || distrusted || now_ns < lasting_due_ns) return;
  const ObjectName name = vault.record_name(options.lasting->key);
  if (!writes()) return touch({{name, 0}}, kTouchRecordsEveryNs);
  if (!nodes.may_ask(engine->node_of(name))) return;
  const bool offered = publisher.offer(RecordOffer{name, options.lasting->contents, options.lasting->merge});
  lasting_due_ns = now_ns + (offered ? kTouchRecordsEveryNs : kRefusedLastingNs);
}

void SharedStore::tick() {
  Parts& parts = *parts_;
  parts.publisher.go_on();
  parts.keep_lasting();
  // Not beside reads, for which it would have to wait.
  if (parts.memory.lacks_some() && parts.reads_now == 0 && !parts.preparing.exchange(true)) {
    parts.executor.post([&parts] {
      parts.memory.prepare();
      parts.preparing = false;
    });
  }
  if (parts.writes() && parts.nodes.may_ask_any() && !parts.tidying.exchange(true)) {
    parts.executor.post([&parts] {
      parts.engine->tidy(parts.options.ttl_s, parts.clock.monotonic_ns() + kTidyNs);
      parts.tidying = false;
    });
  }
  for (const NodeId node : parts.engine->hung_up()) {
    parts.nodes.note_hang_up(node);
    parts.known = false;
    // An engine that began anew hangs up, and so do those that close idle connections.
    parts.lasting_due_ns = std::min(parts.lasting_due_ns.load(), parts.clock.monotonic_ns() + kLastingAfterHangUpNs);
  }
  const std::vector<NodeId> wanting = parts.nodes.to_probe();
  if ((wanting.empty() && !parts.facts_due) || parts.probing.exchange(true)) return;
  parts.prober.post([&parts, wanting] { parts.probe(wanting); });
}

void SharedStore::Parts::probe(const std::vector<NodeId>& wanting) {
  bool answered = false;
  for (const NodeId node : wanting) {
    const auto count = static_cast<std::int64_t>(wanting.size());
    const std::int64_t from_ns = clock.monotonic_ns();
    const bool was_in_trouble = !nodes.may_ask(node);
    const std::int64_t until_ns = std::min(from_ns + std::max(kProbesNs / count, kLeastProbeNs), nodes.end_ns());
    const Status probed = engine->probe(node, until_ns);
    nodes.note_probe(node, probed, os::elapsed_ms(from_ns, clock.monotonic_ns()));
    answered |= probed.ok();
    if (!probed.ok() || !was_in_trouble) continue;
    known = false;
    lasting_due_ns = INT64_MIN;
  }
  if (answered && !known) facts_due = true;
  if (facts_due) tell_facts();
  probing = false;
  publisher.go_on();
}

void SharedStore::Parts::tell_facts() {
  const std::int64_t now_ns = clock.monotonic_ns();
  if (now_ns < next_facts_ns_) return;
  next_facts_ns_ = now_ns + kFactsEveryNs;
  facts_due = false;
  known = true;
  const std::int64_t until_ns = std::min(now_ns + kFactsNs, nodes.end_ns());
  if (options.when_well && !options.when_well(*engine, until_ns)) known = false;
}

void SharedStore::distrust() {
  parts_->distrusted = true;
  parts_->publisher.stop();
}

void SharedStore::end_by(std::int64_t ns) { parts_->nodes.end_by(ns); }

double SharedStore::latency_ms() const { return parts_->nodes.latency_ms(); }
double SharedStore::read_bytes_per_s() const { return parts_->nodes.read_bytes_per_s(); }
double SharedStore::write_bytes_per_s() const { return parts_->nodes.write_bytes_per_s(); }
ByteCount SharedStore::queued() const { return parts_->publisher.queued(); }
ShareCounters SharedStore::counters() const {
  ShareCounters counters = parts_->counting.counters();
  counters.waiting = parts_->publisher.waiting();
  const Nodes::Count nodes = parts_->nodes.count();
  counters.nodes = nodes.all;
  counters.left_alone = nodes.left_alone;
  counters.latency_ms = latency_ms();
  counters.read_bytes_per_s = read_bytes_per_s();
  counters.write_bytes_per_s = write_bytes_per_s();
  return counters;
}
const ObjectEngine& SharedStore::engine() const { return *parts_->engine; }
const std::string& SharedStore::space() const { return parts_->vault.space(); }

// ---- threads ----

namespace {

// As many look-ups as an engine keeps connections for (Valkey four to a node, S3 four handles).
constexpr std::size_t kSearchers = 4;
// A load of a few tokens goes on beside two large ones. More would make all of them slow where the network is.
constexpr std::size_t kReaders = 3;

}  // namespace

ShareThreads::ShareThreads(std::size_t reads_at_once)
    : worker(os::make_thread_executor("share-worker")),
      prober(os::make_thread_executor("share-prober")),
      reader(os::make_thread_executor("share-reader", kReaders)),
      searcher(os::make_thread_executor("share-searcher", kSearchers)) {
  for (std::size_t i = 0; i < reads_at_once; ++i) helpers.push_back(os::make_thread_executor("share-helper"));
}

}  // namespace kvkeep::share
