#include "share/publisher.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace kvkeep::share {
namespace {

constexpr std::int64_t kFirstPauseNs = 5 * kSecondNs;
constexpr std::int64_t kLongestPauseNs = 300 * kSecondNs;
constexpr std::size_t kMostQueued = 10'000;  // offers of no bytes count as well
constexpr std::size_t kMostRememberedParents = 65'536;
constexpr std::int64_t kThereNs = 60 * kSecondNs;

std::uint64_t size_of(const Publication& publication) { return publication.payload->size(); }
std::uint64_t size_of(const RecordOffer& record) { return record.contents.size(); }

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
      there_(kMostRememberedParents) {}

bool Publisher::offer(Publication publication) { return enqueue(std::move(publication)); }
bool Publisher::offer(RecordOffer record) { return enqueue(std::move(record)); }

bool Publisher::enqueue(Offer offer) {
  const ByteCount bytes{std::visit([](const auto& what) { return size_of(what); }, offer)};
  const bool asked = nodes_.may_ask_any();
  {
    const MutexLock lock(mutex_);
    const bool has_room = queue_.size() < kMostQueued && (queue_.empty() || queued_ + bytes <= limit_);
    if (stopped_ || !asked || !has_room || clock_.monotonic_ns() < paused_until_ns_) {
      counting_.add(&ShareCounters::refused);
      return false;
    }
    queue_.push_back(std::move(offer));
    queued_ += bytes;
  }
  executor_.post([this] { publish_next(); });
  return true;
}

void Publisher::stop() {
  const MutexLock lock(mutex_);
  stopped_ = true;
  queue_.clear();
  queued_ = ByteCount{};
}

ByteCount Publisher::queued() const {
  const MutexLock lock(mutex_);
  return queued_;
}

void Publisher::publish_next() {
  Offer next;
  {
    const MutexLock lock(mutex_);
    if (queue_.empty()) return;
    next = std::move(queue_.front());
    queue_.pop_front();
    if (clock_.monotonic_ns() < paused_until_ns_) {
      counting_.add(&ShareCounters::refused);
      queued_ = queued_ - ByteCount{std::visit([](const auto& what) { return size_of(what); }, next)};
      return;
    }
  }
  std::visit([this](const auto& what) { publish(what); }, next);
  const ByteCount bytes{std::visit([](const auto& what) { return size_of(what); }, next)};
  const MutexLock lock(mutex_);
  // stop() may have emptied the queue meanwhile.
  queued_ = queued_ < bytes ? ByteCount{} : queued_ - bytes;
}

// A reader comes to an object over the segments of rows before it, and to a built state over its base.
std::vector<ObjectName> Publisher::parents(const Publication& publication) const {
  std::vector<ObjectName> parents;
  const bool is_rows = publication.segment.name.kind == format::PartKind::kRows;
  const auto& path = publication.path;
  if (path.size() > (is_rows ? 1 : 0)) {
    const format::PathStep& before = is_rows ? path[path.size() - 2] : path.back();
    parents.push_back(vault_.name_of(before.object_hash, format::PartKind::kRows));
  }
  if (const auto base = base_of(publication)) parents.push_back(vault_.name_of(*base, format::PartKind::kWhole));
  return parents;
}

Publisher::Standing Publisher::standing(const Publication& publication, const ObjectName& name) {
  const std::int64_t now_ns = clock_.monotonic_ns();
  std::vector<ObjectName> asked{name};
  for (ObjectName& parent : parents(publication)) {
    if (!there_.find(parent, now_ns)) asked.push_back(std::move(parent));
  }
  const auto answers = lookup_.ask(asked, format::kEnvelopeBytes, nodes_.lookup_deadline_ns());
  const auto is_there = [&](std::size_t i) {
    return answers[i].ok() && vault_.open_envelope(asked[i], *answers[i]).ok();
  };
  for (std::size_t i = 1; i < asked.size(); ++i) {
    if (!is_there(i))
      return answers[i].ok() || answers[i].error().kind == ErrorKind::kNotFound ? Standing::kOrphan
                                                                                : Standing::kUnknown;
    there_.put(asked[i], true, now_ns + kThereNs);
  }
  if (is_there(0)) return Standing::kThere;
  const bool wanted = answers[0].ok() || answers[0].error().kind == ErrorKind::kNotFound;
  return wanted ? Standing::kWanted : Standing::kUnknown;
}

void Publisher::publish(const Publication& publication) {
  const format::SegmentName& segment = publication.segment.name;
  const ObjectName name = vault_.name_of(format::short_hash(segment.end_hash), segment.kind);
  switch (standing(publication, name)) {
    case Standing::kThere:
      there_.put(name, true, clock_.monotonic_ns() + kThereNs);
      counting_.add(&ShareCounters::already_there);
      return;
    case Standing::kOrphan: counting_.add(&ShareCounters::orphans); return;
    case Standing::kUnknown: counting_.add(&ShareCounters::publish_failures); return;
    case Standing::kWanted: break;
  }
  const Vault::Sealed sealed =
      vault_.seal(publication.segment, publication.path, publication.payload->bytes(), salt_());
  write(name, sealed.head, sealed.payload);
}

void Publisher::publish(const RecordOffer& record) {
  if (nodes_.may_ask(engine_.node_of(record.name))) write(record.name, record.contents, {});
}

void Publisher::write(const ObjectName& name, ByteSpan head, ByteSpan payload) {
  const ByteCount bytes{head.size() + payload.size()};
  const std::int64_t from_ns = clock_.monotonic_ns();
  const Status written = engine_.put(name, head, payload, ttl_s_, nodes_.write_deadline_ns(bytes));
  const std::int64_t now_ns = clock_.monotonic_ns();
  lookup_.forget(name);
  if (!written.ok()) {
    nodes_.note_trouble(engine_.node_of(name), policy::ShareCall::kTransfer, written.error());
    note_failure(written.error());
    return;
  }
  nodes_.note_answer(engine_.node_of(name), policy::ShareCall::kTransfer);
  nodes_.note_written(bytes, os::elapsed_ms(from_ns, now_ns));
  there_.put(name, true, now_ns + kThereNs);
  counting_.add(&ShareCounters::published);
  counting_.add(&ShareCounters::published_bytes, bytes.value());
  const MutexLock lock(mutex_);
  pause_ns_ = 0;
}

void Publisher::note_failure(const Error& error) {
  counting_.add(&ShareCounters::publish_failures);
  if (error.kind != ErrorKind::kNoSpace && error.kind != ErrorKind::kInvalid) return;
  const MutexLock lock(mutex_);
  pause_ns_ = std::clamp(2 * pause_ns_, kFirstPauseNs, kLongestPauseNs);
  paused_until_ns_ = clock_.monotonic_ns() + pause_ns_;
  spdlog::warn("shared tier: publishing pauses for {} s: {}", pause_ns_ / kSecondNs, error.message);
}

}  // namespace kvkeep::share
