// Several servers on one directory: what a server does about the others once a second.
//
// The keeper's count at any moment is at least what is there, because it adds what members may still write
// (granted - used) to what it found, and because of an order: it hears what members have used, then it looks at their
// files, and only then counts the one instead of the other. A member says what it used when nothing of it is
// unfinished, and nothing that it removed could come back after a power cut.

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "store/disk_store_impl.h"
#include "store/distrust.h"
#include "store/mutations.h"
#include "store/segment_io.h"

namespace kvkeep::store {
namespace {

// What each member may write before the keeper looks again: a share of the budget, and of that all of them together.
constexpr ByteCount kLargestLease = mebibytes(1024);
constexpr std::uint64_t kLeaseShare = 8;
constexpr std::uint64_t kAllLeasesShare = 4;
// Of the time, looking through directories takes at most one part in so many, but others do not wait longer than that.
constexpr std::int64_t kScanShare = 20;
constexpr std::int64_t kLongestPauseNs = 10'000'000'000;
// What others only read changes nothing that they say: their files' times are looked at so often.
constexpr std::int64_t kLongestWithoutLookNs = 60'000'000'000;
// A note (sampled turns, pins, which model it was) is written in less time.
constexpr std::int64_t kLongestNoteNs = 60'000'000'000;
// Totals beyond that are no numbers of ours.
constexpr std::uint64_t kMostTotal = 1ULL << 62;

std::uint64_t outstanding(const ListedServer& member) {
  return member.granted > member.used ? std::min(member.granted, kMostTotal) - std::min(member.used, kMostTotal) : 0;
}

}  // namespace

DiskTick DiskStore::Impl::tick(Look look) {
  DiskTick tick;
  const MutexLock lock(write_mutex_);
  if (!find_again(tick)) return tick;
  if (!keeper_ && take_over(tick)) tick.more_room = true;
  if (keeper_) {
    keep(tick);
  } else {
    take_part(tick, look);
  }
  look_at_notes();
  const MutexLock state_lock(mutex_);
  tick.found = std::exchange(recovered_, {});
  std::ranges::sort(tick.found, {}, [](const StoredSegment& segment) { return segment.header.name.begin; });
  return tick;
}

ByteCount DiskStore::Impl::grant() {
  const MutexLock lock(write_mutex_);
  return keeper_ ? top_up() : ByteCount{};
}

void DiskStore::Impl::disown(const format::SegmentName& name) {
  const std::string file_name = file_name_of(name);
  const MutexLock lock(write_mutex_);
  const auto generation = generation_of(file_name);
  const auto entry = generation ? take_entry(file_name, *generation) : std::nullopt;
  if (entry) unserved_.add_removable(path_of(file_name), entry->physical(), entry->modified_ns);
}

// While nobody else is there the keeper needs no lock for them.
void DiskStore::Impl::look_at_notes() {
  notes_ = (keeper_ && !shared_) || servers_.take_notes(options_.fingerprint.hex());
}

void DiskStore::Impl::note_scan(std::int64_t begin_ns) {
  const std::int64_t end_ns = clock_.monotonic_ns();
  next_look_ns_ = end_ns + kLongestWithoutLookNs;
  next_scan_ns_ = end_ns + std::min(kLongestPauseNs, kScanShare * (end_ns - begin_ns));
}

// What may be written in a day is the disk's. `heard`: bytes that each of the others ever used. What they had used when
// this server heard of them for the first time was counted before it came.
void DiskStore::Impl::count_writing(const std::map<std::string, std::uint64_t>& heard) {
  const std::uint64_t most = std::max(ledger_.budget(), kLargestLease).value();
  for (const auto& [id, used] : heard) {
    // A total only grows; a listing may miss the name that tells it, for its owner renames it.
    std::uint64_t& counted = counted_writing_.try_emplace(id, heard_writing_ ? 0 : used).first->second;
    if (used <= counted) continue;
    const std::uint64_t grown = used - std::exchange(counted, used);
    // Nobody writes that much between two looks, about a second apart: the name was forged.
    if (grown > most && !mutations().believe_totals) continue;
    write_budget_.wrote(ByteCount{grown});
  }
  heard_writing_ = true;
  while (counted_writing_.size() > kMostServers) counted_writing_.erase(counted_writing_.begin());  // the oldest
}

// ---- The keeper ----

Result<DiskStore::Impl::Living> DiskStore::Impl::tell_living() {
  TRY_ASSIGN(ListedServers listed, servers_.list());
  Living living;
  for (auto& [id, server] : listed) {
    if (id == servers_.id()) continue;
    std::unique_ptr<os::FileLock> claim = server.locks ? servers_.claim(id) : nullptr;
    const bool lives = (server.locks || mutations().lockless_lives) && claim == nullptr;
    if (claim != nullptr) living.claims.push_back(std::move(claim));
    (lives ? living.members : living.dead).emplace(id, std::move(server));
  }
  living_.clear();
  for (const auto& [id, server] : living.members) living_.insert(id);
  return living;
}

// A temporary file of a living server. Those of notes tell no owner: while others live any of them may be writing a
// young one; an old one was left by a process that died, a former keeper for example.
bool DiskStore::Impl::is_busy(const os::FileInfo& temporary) const {
  if (!is_temporary_name(temporary.name) || mutations().sweep_living) return false;
  const std::string owner = owner_of_temporary(temporary.name);
  if (!owner.empty()) return living_.contains(owner);
  const std::size_t stem = temporary.name.size() - kTemporarySuffix.size();
  const std::int64_t age_ns = std::abs(clock_.wall_ns() - temporary.modified_ns);
  return !living_.empty() && age_ns < kLongestNoteNs && is_note_name(std::string_view(temporary.name).substr(0, stem));
}

std::vector<os::FileInfo> DiskStore::Impl::busy_of(const std::vector<os::FileInfo>& temporaries) const {
  std::vector<os::FileInfo> busy;
  for (const os::FileInfo& info : temporaries) {
    if (is_busy(info)) busy.push_back(info);
  }
  return busy;
}

// Their files were looked at since `living` was told: what they said that they used is among what was found, and of the
// dead all is. What a member was granted counts as far as anybody knows.
void DiskStore::Impl::accept(Living living) {
  for (auto& [id, member] : living.members) {
    const auto before = members_.find(id);
    if (before == members_.end()) continue;
    const auto [least, most] = std::minmax(member.granted, before->second.granted);
    member.granted = mutations().smaller_grant ? least : most;
  }
  if (mutations().keep_dead_leases) living.members.insert(members_.begin(), members_.end());
  members_ = std::move(living.members);
  std::uint64_t leased = 0;
  for (const auto& [id, member] : members_) leased = std::min(kMostTotal, leased + outstanding(member));
  ledger_.set_leased(ByteCount{mutations().count_leases_late && !shared_ ? 0 : leased});
  shared_ = !members_.empty();
  grant_failed_ = false;
  for (const auto& [id, server] : living.dead) servers_.sweep(server);
}

ByteCount DiskStore::Impl::lease_for_others(ByteCount bytes) {
  ByteCount given = ledger_.lease(bytes);
  if (given < bytes && settle_removals()) given += ledger_.lease(bytes - given);
  return given;
}

ByteCount DiskStore::Impl::top_up() {
  ByteCount shortage;
  if (members_.empty() || grant_failed_) return shortage;
  const std::uint64_t budget = ledger_.budget().value();
  const std::uint64_t usual =
      std::min({kLargestLease.value(), budget / kLeaseShare, budget / kAllLeasesShare / members_.size()});
  for (auto& [id, member] : members_) {
    const std::uint64_t wanted = member.wanted <= budget ? member.wanted : 0;
    const std::uint64_t has = outstanding(member);
    if (has >= wanted && has >= usual / 2) continue;
    const ByteCount lacking{std::max(usual, wanted) - has};
    const ByteCount given = lease_for_others(lacking);
    shortage += lacking - given;
    if (given == ByteCount{}) continue;
    // It may have taken effect all the same: until that was looked at, the bytes stay leased.
    grant_failed_ = !servers_.grant(id, member.granted, member.granted + given.value());
    if (grant_failed_) break;
    member.granted += given.value();
  }
  return shortage;
}

void DiskStore::Impl::keep(DiskTick& tick) {
  auto living = tell_living();
  if (!living) return;
  std::map<std::string, std::uint64_t> heard;
  for (const auto& [id, member] : living->members) heard.emplace(id, member.used);
  count_writing(heard);
  for (const auto& [id, member] : living->members) {
    if (const auto known = members_.find(id); known != members_.end()) known->second.wanted = member.wanted;
  }
  const bool due = !members_.empty() && clock_.monotonic_ns() >= next_look_ns_;
  const bool news = heard != heard_ || !living->dead.empty() || grant_failed_ || due;
  if (news && may_scan()) {
    const std::int64_t begin_ns = clock_.monotonic_ns();
    auto found = mutations().grant_before_scan ? Survey{} : survey();
    // What the dead removed must stay away before their room is given to others.
    const bool settles = !living->dead.empty() && !mutations().release_dead_early;
    if (!found || (settles && !settle_former_removals(found->root))) return;
    if (!mutations().grant_before_scan) merge(*found, tick);
    removals_ += tick.gone.size();
    accept(std::move(*living));
    heard_ = std::move(heard);
    note_scan(begin_ns);
  }
  tick.shortage = top_up();
  // So that others look: at what a former keeper wrote, and what left, too.
  const bool heard_of = servers_.published() && used_to_tell() == published_;
  if (shared_ && !heard_of) publish_used();
}

// ---- A member ----

// The death of the keeper leaves the lock to the first who asks. Nothing changes before everything could be read.
bool DiskStore::Impl::take_over(DiskTick& tick) {
  auto lock = files_.lock(layout_.lock);
  if (!lock) return false;
  // Whoever changed the directory as if it were alone in it may have removed ours, when it was empty.
  if (!files_.make_directories(layout_.own)) return false;
  auto living = tell_living();
  if (!living || !quarantine_.open()) return false;
  auto root = scan_root(files_, layout_);
  if (!root || !settle_former_removals(*root)) return false;
  const auto found = survey();
  if (!found) return false;
  lock_ = std::move(*lock);
  keeper_ = true;
  write_budget_.set_saves(true);
  ledger_.keep_budget();
  unserved_.recount();
  ledger_.add_existing(quarantine_.held_bytes());
  if (root->lock) ledger_.add_existing(os::physical_size(root->lock->size));
  ledger_.add_existing(index_bytes_);
  {
    const MutexLock state_lock(mutex_);
    for (const auto& [name, entry] : entries_) ledger_.add_existing(entry.physical());
  }
  merge(*found, tick);
  accept(std::move(*living));
  servers_.resign();
  return true;
}

bool DiskStore::Impl::join() {
  ledger_.draw_on_lease();
  drawn_before_ = ledger_.drawn().value();
  granted_ = removals_ = published_ = published_wanted_ = 0;
  return servers_.join().ok();
}

void DiskStore::Impl::take_part(DiskTick& tick, Look look) {
  auto listed = servers_.list();
  if (!listed) return;
  const auto own = listed->find(servers_.id());
  if (!servers_.joined() || own == listed->end() || !own->second.locks) {
    servers_.leave();
    (void)join();
    return;
  }
  take_lease(*listed);
  tick.more_room |= std::exchange(more_room_, false);
  if (used_to_tell() != published_ || wanted_ != published_wanted_) publish_used();
  std::map<std::string, std::uint64_t> heard;
  for (const auto& [id, server] : *listed) {
    if (id != servers_.id()) heard.emplace(id, server.used);
  }
  count_writing(heard);
  if (look == Look::kWhenDue && (heard == heard_ || !may_scan())) return;
  const std::int64_t begin_ns = clock_.monotonic_ns();
  const auto found = files_.list(layout_.own);
  if (!found) return;
  (void)merge_own(*found, tick);
  heard_ = std::move(heard);
  note_scan(begin_ns);
}

void DiskStore::Impl::take_lease(const ListedServers& listed) {
  const auto own = listed.find(servers_.id());
  if (own == listed.end() || own->second.granted <= granted_) return;
  const std::uint64_t more = own->second.granted - granted_;
  // Ignore an implausible grant: the keeper did not write this file name. The keeper gives by its own budget, which may
  // be a larger one.
  if (more > std::max(ledger_.budget(), kLargestLease).value()) return;
  granted_ = own->second.granted;
  ledger_.add_to_lease(ByteCount{more});
  if (ledger_.lease_left().value() < wanted_) return;
  more_room_ = true;
  wanted_ = 0;
}

// Nothing is unfinished now; what was removed must not come back.
void DiskStore::Impl::publish_used() {
  if (mutations().never_publish || (!mutations().publish_before_settle && !settle_removals())) return;
  const std::uint64_t used = used_to_tell();
  if (!servers_.publish(used, wanted_)) return;
  published_ = used;
  published_wanted_ = wanted_;
}

// From the lease. What is refused is asked for.
Status DiskStore::Impl::draw(ByteCount bytes) {
  wanted_ = bytes.value();
  if (const auto listed = servers_.list(); listed && servers_.joined()) {
    take_lease(*listed);
    if (ledger_.reserve(bytes)) {
      wanted_ = 0;
      if (mutations().publish_before_write) publish_used();
      return {};
    }
    publish_used();
  }
  return no_space("the server that keeps the budget of this directory (its --kv-disk-space-mb) has not made room yet");
}

Status DiskStore::Impl::distrust(std::string_view why) {
  const MutexLock lock(write_mutex_);
  return write_distrust(files_, layout_.own, why);
}

Result<std::optional<std::string>> DiskStore::Impl::distrusted() const { return find_distrust(files_, layout_.own); }

}  // namespace kvkeep::store
