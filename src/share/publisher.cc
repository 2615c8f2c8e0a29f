#include "share/publisher.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace kvkeep::share {
namespace {

constexpr std::int64_t kFirstPauseNs = 5 * kSecondNs;
constexpr std::int64_t kLongestPauseNs = 300 * kSecondNs;
constexpr std::size_t kMostQueued = 10'000;  // of one kind; offers of no bytes count as well
constexpr ByteCount kMostRecordsQueued = mebibytes(16);
constexpr std::size_t kMostRememberedParents = 65'536;
// An engine that lost everything is noticed after this long, by the first publication.
constexpr std::int64_t kThereNs = 3 * kSecondNs;
// Long enough for this server to compute what it could not read, and to come round to publishing it.
constexpr std::int64_t kBrokenNs = 3600 * kSecondNs;
constexpr std::size_t kMostRememberedBroken = 65'536;

std::uint64_t size_of(const Publication& publication) { return publication.payload->size(); }
std::uint64_t size_of(const RecordOffer& record) { return record.contents.size(); }
template <typename Offer>
ByteCount bytes_of(const Offer& offer) {
  return ByteCount{std::visit([](const auto& what) { return size_of(what); }, offer)};
}

// It is full, or this server lacks the right.
bool refuses_writes(ErrorKind kind) { return kind == ErrorKind::kNoSpace || kind == ErrorKind::kInvalid; }

// A state that is built on another begins with that one's hash.
std::optional<format::ShortHash> base_of(const Publication& publication) {
  const format::Part& part = publication.segment.parts.front();
  const ByteSpan bytes = publication.payload->bytes();
  if (!part.built() || bytes.size() < format::kNameHashBytes) return std::nullopt;
  format::ShortHash hash;
  std::memcpy(hash.data(), bytes.data(), hash.size());
  return hash;
}

}  // namespace

Publisher::Publisher(ObjectEngine& engine, const Vault& vault, Lookup& lookup, Nodes& nodes, ShareCounting& counting,
                     os::Clock& clock, os::Executor& executor, const ShareOptions& options, RandomSalt salt)
    : engine_(engine),
      vault_(vault),
      lookup_(lookup),
      nodes_(nodes),
      counting_(counting),
      clock_(clock),
      executor_(executor),
      limit_(options.queue_limit),
      ttl_s_(options.ttl_s),
      salt_(std::move(salt)),
      there_(kMostRememberedParents),
      broken_(kMostRememberedBroken) {}

void Publisher::note_broken(const ObjectName& name) {
  counting_.add(&ShareCounters::broken);
  broken_.put(name, true, clock_.monotonic_ns() + kBrokenNs);
  there_.forget(name);
}

Publisher::Queue& Publisher::queue_of(const Offer& offer) {
  return std::holds_alternative<RecordOffer>(offer) ? records_ : segments_;
}

bool Publisher::offer(Publication publication) { return enqueue(std::move(publication)); }
bool Publisher::offer(RecordOffer record) { return enqueue(std::move(record)); }

bool Publisher::enqueue(Offer offer) {
  const ByteCount bytes = bytes_of(offer);
  const bool asked = nodes_.may_ask_soon();
  {
    const MutexLock lock(mutex_);
    Queue& queue = queue_of(offer);
    const ByteCount limit = std::holds_alternative<RecordOffer>(offer) ? kMostRecordsQueued : limit_;
    const bool has_room = queue.offers.size() < kMostQueued && (queue.offers.empty() || queue.bytes + bytes <= limit);
    if (stopped_ || !asked || !has_room || clock_.monotonic_ns() < paused_until_ns_) {
      counting_.add(&ShareCounters::refused);
      return false;
    }
    queue.bytes += bytes;
    queue.offers.push_back(std::move(offer));
  }
  executor_.post([this] { publish_next(); });
  return true;
}

void Publisher::stop() {
  const MutexLock lock(mutex_);
  stopped_ = true;
  clear();
}

void Publisher::clear() {
  records_ = Queue{};
  segments_ = Queue{};
}

ByteCount Publisher::queued() const {
  const MutexLock lock(mutex_);
  return records_.bytes + segments_.bytes;
}

std::size_t Publisher::waiting() const {
  const MutexLock lock(mutex_);
  return count() + (in_hand_ ? 1 : 0);
}

void Publisher::go_on() {
  const bool now = nodes_.may_ask_any();
  const bool soon = nodes_.may_ask_soon();
  std::size_t waiting = 0;
  {
    const MutexLock lock(mutex_);
    if (!held_ || (soon && !now)) return;
    held_ = false;
    waiting = count();
    if (!soon) {
      counting_.add(&ShareCounters::refused, waiting);
      clear();
    }
  }
  for (; soon && waiting > 0; --waiting) executor_.post([this] { publish_next(); });
}

// While the queue is held, the tasks of its offers end here.
std::optional<Publisher::Offer> Publisher::take() {
  const MutexLock lock(mutex_);
  if (clock_.monotonic_ns() >= nodes_.end_ns()) clear();  // the server stops
  if (count() == 0 || held_) return std::nullopt;
  Queue& queue = records_.offers.empty() ? segments_ : records_;
  Offer next = std::move(queue.offers.front());
  queue.offers.pop_front();
  if (clock_.monotonic_ns() < paused_until_ns_) {
    counting_.add(&ShareCounters::refused);
    note_left(next);
    return std::nullopt;
  }
  in_hand_ = true;
  return next;
}

// stop() may have emptied the queue meanwhile.
void Publisher::note_left(const Offer& offer) {
  const ByteCount bytes = bytes_of(offer);
  ByteCount& queued = queue_of(offer).bytes;
  queued = queued < bytes ? ByteCount{} : queued - bytes;
}

void Publisher::put_back(Offer offer) {
  const MutexLock lock(mutex_);
  in_hand_ = false;
  if (stopped_) return;
  held_ = true;
  Queue& queue = queue_of(offer);
  queue.offers.push_front(std::move(offer));
}

void Publisher::publish_next() {
  std::optional<Offer> next = take();
  if (!next) return;
  const Outcome outcome = std::visit([this](const auto& what) { return publish(what); }, *next);
  if (outcome == Outcome::kAgain) return put_back(std::move(*next));
  const MutexLock lock(mutex_);
  in_hand_ = false;
  note_left(*next);
}

// A reader comes to an object over all segments of rows before it, and to a built state over its base. The last one
// first, then from the root on, as many as the engine is asked for at once: an engine that began anew has the newest
// again and lacks the root.
std::vector<ObjectName> Publisher::parents(const Publication& publication) const {
  std::vector<ObjectName> parents;
  const auto& path = publication.path;
  const std::size_t before = path.size() - (publication.segment.name.kind == format::PartKind::kRows ? 1 : 0);
  const std::size_t most = std::max<std::size_t>(engine_.pace().heads_at_once, 2) - 1;
  const auto add = [&](std::size_t i) {
    parents.push_back(vault_.name_of(path[i].object_hash, format::PartKind::kRows));
  };
  if (before > 0) add(before - 1);
  for (std::size_t i = 0; i + 1 < before && parents.size() < most; ++i) add(i);
  if (const auto base = base_of(publication)) parents.push_back(vault_.name_of(*base, format::PartKind::kWhole));
  return parents;
}

Publisher::Standing Publisher::standing(const Publication& publication, const ObjectName& name) {
  const std::int64_t now_ns = clock_.monotonic_ns();
  std::vector<ObjectName> asked{name};
  for (ObjectName& parent : parents(publication)) {
    if (!there_.find(parent, now_ns)) asked.push_back(std::move(parent));
  }
  const auto answers = lookup_.ask_until(asked, format::kEnvelopeBytes, nodes_.background_deadline_ns());
  const auto unknown = [&](std::size_t i) {
    return nodes_.suspects(engine_.node_of(asked[i])) ? Standing::kAgain : Standing::kUnknown;
  };
  const auto is_there = [&](std::size_t i) {
    return answers[i].ok() && vault_.open_envelope(asked[i], *answers[i]).ok() && !broken_.find(asked[i], now_ns);
  };
  for (std::size_t i = 1; i < asked.size(); ++i) {
    if (!is_there(i))
      return answers[i].ok() || answers[i].error().kind == ErrorKind::kNotFound ? Standing::kOrphan : unknown(i);
    there_.put(asked[i], true, now_ns + kThereNs);
  }
  if (is_there(0)) return Standing::kThere;
  const bool wanted = answers[0].ok() || answers[0].error().kind == ErrorKind::kNotFound;
  return wanted ? Standing::kWanted : unknown(0);
}

Publisher::Outcome Publisher::publish(const Publication& publication) {
  const format::SegmentName& segment = publication.segment.name;
  const ObjectName name = vault_.name_of(format::short_hash(segment.end_hash), segment.kind);
  switch (standing(publication, name)) {
    case Standing::kThere:
      there_.put(name, true, clock_.monotonic_ns() + kThereNs);
      counting_.add(&ShareCounters::already_there);
      return Outcome::kDone;
    case Standing::kOrphan: counting_.add(&ShareCounters::orphans); return Outcome::kDone;
    case Standing::kAgain: return Outcome::kAgain;
    case Standing::kUnknown: counting_.add(&ShareCounters::publish_failures); return Outcome::kDone;
    case Standing::kWanted: break;
  }
  const Vault::Sealed sealed =
      vault_.seal(publication.segment, publication.path, publication.payload->bytes(), salt_());
  return write(name, sealed.head, sealed.payload);
}

Publisher::Outcome Publisher::publish(const RecordOffer& record) {
  const NodeId node = engine_.node_of(record.name);
  const auto failed = [&] { return nodes_.suspects(node) ? Outcome::kAgain : Outcome::kDone; };
  if (!nodes_.may_ask(node)) return failed();
  if (!record.merge) return write(record.name, vault_.seal_record(record.name, record.contents, salt_()), {});
  const HeadBytes answer =
      lookup_.ask_until({record.name}, format::kMostStoredRecordBytes, nodes_.background_deadline_ns()).front();
  if (!answer.ok() && answer.error().kind != ErrorKind::kNotFound) {
    if (failed() == Outcome::kDone) counting_.add(&ShareCounters::publish_failures);
    return failed();
  }
  const auto there = answer.ok() ? vault_.open_record(record.name, *answer) : answer;
  const std::vector<std::byte> contents = there.ok() ? record.merge(*there, record.contents) : record.contents;
  return write(record.name, vault_.seal_record(record.name, contents, salt_()), {});
}

Publisher::Outcome Publisher::write(const ObjectName& name, ByteSpan head, ByteSpan payload) {
  const ByteCount bytes{head.size() + payload.size()};
  const std::int64_t from_ns = clock_.monotonic_ns();
  const Status written = engine_.put(name, head, payload, ttl_s_, nodes_.write_limits(bytes));
  const std::int64_t now_ns = clock_.monotonic_ns();
  lookup_.forget(name);
  if (!written.ok()) {
    if (refuses_writes(written.error().kind)) {
      nodes_.note_refused_write(engine_.node_of(name), written.error());
      note_refusal(written.error());
      return Outcome::kDone;
    }
    nodes_.note_trouble(engine_.node_of(name), policy::ShareCall::kTransfer, written.error());
    if (counts_for_breaker(written.error().kind) && nodes_.suspects(engine_.node_of(name))) return Outcome::kAgain;
    counting_.add(&ShareCounters::publish_failures);
    return Outcome::kDone;
  }
  nodes_.note_answer(engine_.node_of(name), policy::ShareCall::kTransfer);
  nodes_.note_written(bytes, os::elapsed_ms(from_ns, now_ns));
  broken_.forget(name);
  there_.put(name, true, now_ns + kThereNs);
  counting_.add(&ShareCounters::published);
  counting_.add(&ShareCounters::published_bytes, bytes.value());
  const MutexLock lock(mutex_);
  pause_ns_ = 0;
  return Outcome::kDone;
}

void Publisher::note_refusal(const Error& error) {
  counting_.add(&ShareCounters::publish_failures);
  const MutexLock lock(mutex_);
  pause_ns_ = std::clamp(2 * pause_ns_, kFirstPauseNs, kLongestPauseNs);
  paused_until_ns_ = clock_.monotonic_ns() + pause_ns_;
  spdlog::warn("shared tier: {} {} ({}): publishing pauses for {} s, and reads go on", engine_.address(),
               error.kind == ErrorKind::kNoSpace ? "is full" : "does not let this server write", error.message,
               pause_ns_ / kSecondNs);
}

}  // namespace kvkeep::share
