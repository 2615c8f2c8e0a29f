#include "cache/loader.h"

#include <algorithm>
#include <atomic>
#include <utility>

namespace kvkeep::cache {

// ---- one segment ----

Fetcher::Fetch Fetcher::begin(SegmentId segment) const {
  CacheLock lock(mutex_);
  return {.chain = chains_.chain_to(segment)};
}

Result<Fetcher::Bytes> Fetcher::fetch(SegmentId segment) {
  Fetch fetch = begin(segment);
  LoadResult unused;
  LoadTime alone;
  return advance(fetch, nullptr, unused, alone);
}

void Fetcher::build(SegmentId leaf) {
  const auto build = chains_.begin_build(leaf);
  if (!build) return;
  const Result<Bytes> base = fetch(build->base);
  chains_.finish_build(*build, base ? *base : nullptr);
}

Result<Fetcher::Bytes> Fetcher::advance(Fetch& fetch, const os::Executor* here, LoadResult& result, LoadTime& time) {
  for (; fetch.next < fetch.chain.size(); ++fetch.next) {
    StateChains::Link& link = fetch.chain[fetch.next];
    if (link.state != nullptr) continue;  // RAM has it, or another request brought it in the meantime
    if (link.stored == nullptr) {
      const LowerTier* tier = tier_of(link.item.segment);
      if (tier == nullptr) return not_found("it left every tier meanwhile");
      if (here != nullptr && tier->reader != here) {
        fetch.reader = tier->reader;
        return Bytes{};
      }
      TRY(read(fetch, *tier, result, time));
    }
    const Status decoded = StateChains::decode(fetch.next > 0 ? &fetch.chain[fetch.next - 1] : nullptr, link);
    if (!decoded) {
      forgetting_.report_damaged(link.item.segment);
      return decoded.error();
    }
  }
  const StateChains::Link& last = fetch.chain.back();
  if (last.item.header.parts.front().built()) chains_.hold_state(last.item.segment, last.state);
  return last.state;
}

const LowerTier* Fetcher::tier_of(SegmentId segment) const {
  CacheLock lock(mutex_);
  return find_tier(segment);
}

const LowerTier* Fetcher::find_tier(SegmentId segment) const {
  for (const LowerTier& tier : lower_) {
    if (table_.entry(segment).in(tier.id) == CopyState::kHere) return &tier;
  }
  return nullptr;
}

// Returns what each tier has of those that RAM lacks. Headers are copied under the lock.
std::vector<std::vector<TierItem>> Fetcher::items_of(const std::vector<SegmentId>& segments) const {
  std::vector<std::vector<TierItem>> items(lower_.size());
  CacheLock lock(mutex_);
  for (const SegmentId segment : segments) {
    const LowerTier* tier = table_.entry(segment).in_ram() ? nullptr : find_tier(segment);
    if (tier != nullptr) items[static_cast<std::size_t>(tier - lower_.data())].push_back(table_.item(segment));
  }
  return items;
}

// Nothing is done where no tier wants to know.
void Fetcher::expect(const std::vector<SegmentId>& segments) {
  if (std::ranges::none_of(lower_, [](const LowerTier& tier) { return tier.port->reads_ahead(); })) return;
  const std::vector<std::vector<TierItem>> items = items_of(segments);
  for (std::size_t i = 0; i < lower_.size(); ++i) lower_[i].port->expect(items[i]);
}

double Fetcher::patience_ms(const std::vector<SegmentId>& segments) {
  if (std::ranges::find(lower_, kSharedTier, &LowerTier::id) == lower_.end()) return 0;
  const std::vector<std::vector<TierItem>> items = items_of(segments);
  double ms = 0;
  for (std::size_t i = 0; i < lower_.size(); ++i) {
    for (const TierItem& item : items[i]) ms += lower_[i].port->patience_ms(item);
  }
  return ms;
}

namespace {

void note_read(const LowerTier& tier, ByteCount bytes, double ms, LoadResult& result) {
  const bool disk = tier.id == kDiskTier;
  (disk ? result.bytes_read : result.shared_bytes) += bytes;
  (disk ? result.read_ms : result.shared_ms) += ms;
  result.shared_reads += disk ? 0 : 1;
}

}  // namespace

void Fetcher::count_time_ahead(LoadResult& result) const {
  for (const LowerTier& tier : lower_) {
    if (tier.id != kSharedTier) continue;
    result.shared_ms = std::max(result.shared_ms, tier.port->least_read_ms(result.shared_bytes));
  }
}

// The bytes stay in RAM for the next request.
Status Fetcher::read(Fetch& fetch, const LowerTier& tier, LoadResult& result, LoadTime& time) {
  StateChains::Link& link = fetch.chain[fetch.next];
  const std::int64_t begin_ns = clock_.monotonic_ns();
  Result<Bytes> bytes = tier.port->get_in_time(link.item, time);
  const double ms = os::elapsed_ms(begin_ns, clock_.monotonic_ns());
  if (tier.id == kSharedTier) time.spent_ms += ms;
  if (!bytes) {
    note_failure(fetch, tier, bytes.error());
    return bytes.error();
  }
  link.stored = std::move(*bytes);
  note_read(tier, ByteCount{link.stored->size()}, ms, result);
  admit(link.item.segment, tier, link.stored);
  return {};
}

// A device may refuse once and read the next time; after kRefusalsToGiveUp refusals the segment is lost there. The
// shared tier is asked anew by the next request, if it is well then.
void Fetcher::note_failure(Fetch& fetch, const LowerTier& tier, const Error& error) {
  constexpr std::uint8_t kRefusalsToGiveUp = 3;
  const SegmentId segment = fetch.chain[fetch.next].item.segment;
  fetch.gone = error.kind == ErrorKind::kNotFound && tier.port->others_drop();
  if (fetch.gone) return;
  {
    CacheLock lock(mutex_);
    if (tier.id == kSharedTier) return forgetting_.forget_copy(segment, tier.id);
    if (error.kind == ErrorKind::kIo && table_.note_read_refused(segment) < kRefusalsToGiveUp) return;
    if (tier.port->promise() == Promise::kNone) return forgetting_.forget_copy(segment, tier.id);
  }
  forgetting_.report_damaged(segment);
}

void Fetcher::admit(SegmentId segment, const LowerTier& tier, const Bytes& bytes) {
  {
    CacheLock lock(mutex_);
    const bool there = table_.entry(segment).in(kRamTier) != CopyState::kAbsent;
    if (table_.entry(segment).forgotten || there || ByteCount{bytes->size()} > ram_.budget()) return;
    ram_.hold(segment, bytes);
    if (tier.id == kSharedTier && arrived_) arrived_(segment);
  }
  room_.trim();
}

// ---- a lease ----

namespace {

// More is not read ahead of a portion (SharedTier).
constexpr ByteCount kMostLater = mebibytes(128);

}  // namespace

struct Loader::Job {
  // A step or a point of the lease.
  struct Target {
    SegmentId segment;
    std::size_t at = 0;
    bool is_point = false;
  };
  std::shared_ptr<Lease> lease;
  std::function<void(LoadResult)> done;
  std::shared_ptr<bool> alive;
  std::vector<Target> targets;          // points first: rows are worth nothing without them
  std::vector<SegmentId> later;         // that the next loads of this lease will ask for
  bool announced = false;               // to the tiers
  std::atomic<std::size_t> next = 0;    // of the targets; changed only where the job runs
  std::optional<Fetcher::Fetch> fetch;  // of targets[next]
  std::int64_t posted_ns = 0;
  LoadTime time;
  LoadResult result;

  // The targets from this one on.
  std::vector<SegmentId> wanted(std::size_t from) const {
    std::vector<SegmentId> segments;
    for (std::size_t i = from; i < targets.size(); ++i) segments.push_back(targets[i].segment);
    return segments;
  }
  void fill(std::shared_ptr<const store::Payload> payload) {
    const Target& target = targets[next];
    target.is_point ? lease->fill_point(target.at, std::move(payload))
                    : lease->fill_step(target.at, std::move(payload));
  }
};

void Loader::load(std::shared_ptr<Lease> lease, TokenRange range, std::function<void(LoadResult)> done,
                  std::optional<Position> point) {
  if (lease->loaded(range) && (!point || lease->point_loaded(*point))) return done({});
  const auto job = std::make_shared<Job>();
  job->lease = std::move(lease);
  job->done = std::move(done);
  job->alive = alive_;
  const auto covers = point ? job->lease->cover(*point) : std::vector<Lease::Cover>{};
  if (!covers) job->result.status = not_found("no state is stored there");
  for (std::size_t i = 0; covers && i < covers->size(); ++i) {
    const LeasedPoint& leaf = job->lease->points()[(*covers)[i].point];
    if (leaf.payload == nullptr) job->targets.push_back({leaf.id, (*covers)[i].point, true});
  }
  const std::vector<LeasedStep>& steps = job->lease->steps();
  ByteCount later;
  for (std::size_t i = 0; covers && i < steps.size(); ++i) {
    const LeasedStep& step = steps[i];
    if (step.payload != nullptr || step.range.end <= range.begin) continue;
    if (step.range.begin < range.end) {
      job->targets.push_back({step.segment, i, false});
    } else if (step.range.begin < job->lease->goal() && later < kMostLater) {
      job->later.push_back(step.segment);
      later += step.bytes;
    }
  }
  post(job, reader_);
}

void Loader::post(const JobPtr& job, os::Executor& there) {
  job->posted_ns = clock_.monotonic_ns();
  there.post([this, job, &there] { run(job, there); });
}

// A load's time runs from load() on: that of the loads before it counts, too.
void Loader::run(const JobPtr& job, os::Executor& here) {
  job->time.spent_ms += os::elapsed_ms(job->posted_ns, clock_.monotonic_ns());
  if (!std::exchange(job->announced, true)) announce(job);
  if (!go_on(job, here)) return;
  leave(job);
  fetcher_.count_time_ahead(job->result);
  // The lease must be released by its owner's thread order, not kept alive by this task.
  job->lease.reset();
  job->done(std::move(job->result));
}

bool Loader::go_on(const JobPtr& job, os::Executor& here) {
  while (job->next < job->targets.size()) {
    if (job->lease->abandoned()) {
      job->result.status = not_found("the request ended");
      return true;
    }
    if (!job->fetch) job->fetch = fetcher_.begin(job->targets[job->next].segment);
    const Result<Fetcher::Bytes> bytes = fetcher_.advance(*job->fetch, &here, job->result, job->time);
    if (!bytes) {
      job->result.status = bytes.error();
      if (job->fetch->gone) gone_(job->fetch->chain[job->fetch->next].item.header.name);
      return true;
    }
    if (*bytes == nullptr) {
      post(job, *job->fetch->reader);
      return false;
    }
    job->fill(*bytes);
    job->fetch.reset();
    if (++job->next == job->targets.size() || &here == &reader_) continue;
    post(job, here);
    return false;
  }
  return true;
}

// ---- loads under way ----

void Loader::announce(const JobPtr& job) {
  job->time.allowed_ms = fetcher_.patience_ms(job->wanted(0));
  const MutexLock lock(mutex_);
  under_way_.insert(under_way_.begin(), job);
  fetcher_.expect(expected());
}

// Before its lease is released.
void Loader::leave(const JobPtr& job) {
  const MutexLock lock(mutex_);
  std::erase_if(under_way_, [&](const std::weak_ptr<Job>& each) { return each.expired() || each.lock() == job; });
  if (job->lease->abandoned()) fetcher_.expect(expected());
}

std::vector<SegmentId> Loader::expected() const {
  std::vector<SegmentId> segments;
  for (const std::weak_ptr<Job>& each : under_way_) {
    const JobPtr job = each.lock();
    if (job == nullptr) continue;
    const std::vector<SegmentId> wanted = job->wanted(job->next);
    segments.insert(segments.end(), wanted.begin(), wanted.end());
    segments.insert(segments.end(), job->later.begin(), job->later.end());
  }
  return segments;
}

}  // namespace kvkeep::cache
