#include "store/sharing.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <utility>

namespace kvkeep::store {
namespace {

// Looking through directories takes at most one part in kLookShare of the time, and waits no longer than the pause.
constexpr std::int64_t kLookShare = 20;
constexpr std::int64_t kLongestLookPauseNs = 10'000'000'000;
constexpr std::int64_t kLongestWithoutLookNs = 60'000'000'000;
// A note (sampled turns, pins, the model's) is written in less time.
constexpr std::int64_t kLongestNoteNs = 60'000'000'000;

}  // namespace

void OthersWriting::hear(const HeardTotals& heard) {
  for (const auto& [id, used] : heard) {
    // A total only grows; a listing may miss the name that has it, while its owner renames it.
    std::uint64_t& counted = counted_.try_emplace(id, heard_before_ ? 0 : used).first->second;
    if (used <= counted) continue;
    const ByteCount grown{used - std::exchange(counted, used)};
    if (grown > most_) continue;
    budget_.wrote(grown);
  }
  heard_before_ = true;
  while (counted_.size() > kMostServers) counted_.erase(counted_.begin());  // the oldest
}

void LookPace::looked_since(std::int64_t begin_ns) {
  const std::int64_t end_ns = clock_.monotonic_ns();
  latest_ns_ = end_ns + kLongestWithoutLookNs;
  next_ns_ = end_ns + std::min(kLongestLookPauseNs, kLookShare * (end_ns - begin_ns));
}

Sharing::Sharing(const Place& place, const FingerprintHash& fingerprint, SpaceLedger& ledger, Syncs& syncs,
                 Inventory& inventory, WriteBudget& writes)
    : place_(place),
      fingerprint_(fingerprint.hex()),
      inventory_(inventory),
      writes_(writes),
      servers_(place.layout.servers, place.files, place.clock),
      leases_(servers_, ledger, syncs),
      account_(servers_, ledger, syncs),
      others_writing_(writes, std::max(ledger.budget(), kLargestLease)),
      pace_(place.clock) {}

// ---- Coming and going ----

Status Sharing::enter() {
  auto lock = place_.files.lock(place_.layout.lock);
  if (!lock) return lock.error().kind == ErrorKind::kBusy ? enter_as_member() : Status(lock.error());
  lock_ = std::move(*lock);
  return enter_as_keeper();
}

// Reads what members may still write before it counts the files, so that everything they have written by then is found.
Status Sharing::enter_as_keeper() {
  become_keeper();
  TRY_ASSIGN(Living living, hear_living());
  TRY(inventory_.open_root(busy_files()));
  if (!living.nobody()) accept(std::move(living));
  if (leases_.none()) servers_.tidy();  // names of servers that used it together
  look_at_notes();
  return {};
}

Status Sharing::enter_as_member() {
  (void)account_.join();  // else at a tick; until then this server writes nothing
  TRY(inventory_.open_own());
  look_at_notes();
  return {};
}

void Sharing::become_keeper() {
  keeper_ = true;
  writes_.set_saves(true);
}

void Sharing::leave() {
  keeper_ = has_members_ = false;
  writes_.set_saves(false);
  lock_.reset();
  servers_.leave_directory();
  leases_.forget_all();
  heard_.clear();
  pace_.look_at_once();
}

void Sharing::tick(Look look, DiskTick& tick) {
  if (!keeper_ && take_over(tick)) tick.more_room = true;
  if (keeper_) {
    keep(tick);
  } else {
    take_part(look, tick);
  }
  look_at_notes();
}

// While the keeper is by itself it needs no lock for the notes.
void Sharing::look_at_notes() { notes_ = !shared() || servers_.take_notes(fingerprint_); }

void Sharing::note_removal() {
  if (keeper_) account_.note_removal();
}

// ---- Living servers ----

HeardTotals Sharing::Living::totals() const {
  HeardTotals totals;
  for (const auto& [id, member] : members) totals.emplace(id, member.used);
  return totals;
}

Result<Sharing::Living> Sharing::hear_living() {
  TRY_ASSIGN(ListedServers listed, servers_.list());
  Living living;
  for (auto& [id, server] : listed) {
    if (id == servers_.id()) continue;
    std::unique_ptr<os::FileLock> claim = server.locks ? servers_.claim(id) : nullptr;
    const bool lives = server.locks && claim == nullptr;
    if (claim != nullptr) living.claims.push_back(std::move(claim));
    (lives ? living.members : living.dead).emplace(id, std::move(server));
  }
  living_.clear();
  for (const auto& [id, member] : living.members) living_.insert(id);
  return living;
}

// Returns true for the temporary file of a living server. Temporaries of notes name no owner: while others live any of
// them may be writing a young one; an old one was left by a process that died, a former keeper for example.
bool Sharing::is_busy(const os::FileInfo& temporary) const {
  if (!is_temporary_name(temporary.name)) return false;
  const std::string owner = owner_of_temporary(temporary.name);
  if (!owner.empty()) return living_.contains(owner);
  const std::size_t stem = temporary.name.size() - kTemporarySuffix.size();
  const std::int64_t age_ns = std::abs(place_.clock.wall_ns() - temporary.modified_ns);
  return !living_.empty() && age_ns < kLongestNoteNs && is_note_name(std::string_view(temporary.name).substr(0, stem));
}

// The files were looked at since `living` was listed: everything that the dead wrote is among the files found.
void Sharing::accept(Living living) {
  leases_.accept(std::move(living.members));
  has_members_ = !leases_.none();
  for (const auto& [id, server] : living.dead) servers_.sweep(server);
}

// ---- The keeper ----

void Sharing::keep(DiskTick& tick) {
  auto living = hear_living();
  if (!living) return;
  others_writing_.hear(living->totals());
  if (living->nobody() && leases_.none() && heard_.empty()) return;  // by itself
  leases_.hear_wishes(living->members);
  if (!look_for_members(*living, tick)) return;
  tick.shortage = leases_.top_up();
  // Makes others look: at files that a former keeper wrote, and at removals, too.
  if (has_members_ && !account_.all_is_told()) account_.tell();
}

// Looks through the files if members reported something. Returns false if that failed.
bool Sharing::look_for_members(Living& living, DiskTick& tick) {
  HeardTotals heard = living.totals();
  const bool due = !leases_.none() && pace_.is_overdue();
  const bool news = heard != heard_ || !living.dead.empty() || leases_.uncertain() || due;
  if (!news || !pace_.may_look()) return true;
  const std::int64_t begin_ns = place_.clock.monotonic_ns();
  const auto found = inventory_.survey();
  // Files that the dead removed must not come back after their room is given to others.
  if (!found || (!living.dead.empty() && !inventory_.settle_former_removals(found->root))) return false;
  inventory_.merge(*found, busy_files(), tick);
  account_.note_removals(tick.gone.size());
  accept(std::move(living));
  heard_ = std::move(heard);
  pace_.looked_since(begin_ns);
  return true;
}

// ---- A member ----

// After the death of the keeper the first server that asks gets the lock. Nothing changes before everything was read.
bool Sharing::take_over(DiskTick& tick) {
  auto lock = place_.files.lock(place_.layout.lock);
  if (!lock) return false;
  // A server with no other in the directory may have removed ours when it was empty.
  if (!place_.files.make_directories(place_.layout.own)) return false;
  auto living = hear_living();
  if (!living) return false;
  const auto found = inventory_.look_to_keep();
  if (!found) return false;
  lock_ = std::move(*lock);
  become_keeper();
  inventory_.recount(*found);
  inventory_.merge(*found, busy_files(), tick);
  accept(std::move(*living));
  servers_.resign();
  return true;
}

void Sharing::take_part(Look look, DiskTick& tick) {
  auto listed = servers_.list();
  if (!listed) return;
  const auto own = listed->find(servers_.id());
  if (!servers_.joined() || own == listed->end() || !own->second.locks) {
    servers_.leave();
    (void)account_.join();
    return;
  }
  account_.take_lease(*listed);
  tick.more_room |= account_.take_more_room();
  account_.tell_news();
  HeardTotals heard;
  for (const auto& [id, server] : *listed) {
    if (id != servers_.id()) heard.emplace(id, server.used);
  }
  others_writing_.hear(heard);
  if (look == Look::kWhenDue && (heard == heard_ || !pace_.may_look())) return;
  const std::int64_t begin_ns = place_.clock.monotonic_ns();
  const auto found = place_.files.list(place_.layout.own);
  if (!found) return;
  inventory_.look_at_own(*found, busy_files(), tick);
  heard_ = std::move(heard);
  pace_.looked_since(begin_ns);
}

}  // namespace kvkeep::store
