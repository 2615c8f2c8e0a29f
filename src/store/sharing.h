#pragma once

// The protocol of several servers on one directory: which one is the keeper, which others live, and what each does
// about the others once a second (docs/format.md, "Several servers").
//
// The keeper's count is never less than the files, because it adds the bytes that members may still write (granted -
// used) to those it found, and because of an order: it reads the members' used bytes, then looks at their files, and
// only then counts the files instead of the lease. A member reports bytes as used when none of its writes is
// unfinished, and nothing that it removed could come back after a power cut.

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "store/inventory.h"
#include "store/leases.h"
#include "store/servers.h"
#include "store/write_limits.h"

namespace kvkeep::store {

// Bytes that each of the others ever used, by id, from one listing.
using HeardTotals = std::map<std::string, std::uint64_t>;

// Counts the writes of other servers against the day's budget, which is the disk's. Not thread safe.
class OthersWriting {
 public:
  // No server writes more than `most` between two looks: a total that grows by more was forged.
  OthersWriting(WriteBudget& budget, ByteCount most) : budget_(budget), most_(most) {}
  // The totals in the first listing were counted before this server came.
  void hear(const HeardTotals& heard);

 private:
  WriteBudget& budget_;
  const ByteCount most_;
  HeardTotals counted_;
  bool heard_before_ = false;
};

// Limits how often the files are looked through. Not thread safe.
class LookPace {
 public:
  explicit LookPace(os::Clock& clock) : clock_(clock) {}
  // Looking takes at most a twentieth of the time, but waits at most ten seconds.
  bool may_look() const { return clock_.monotonic_ns() >= next_ns_; }
  // Reads by others do not change what servers report: the times of files are looked at once a minute.
  bool is_overdue() const { return clock_.monotonic_ns() >= latest_ns_; }
  void looked_since(std::int64_t begin_ns);
  void look_at_once() { next_ns_ = 0; }

 private:
  os::Clock& clock_;
  std::int64_t next_ns_ = 0;
  std::int64_t latest_ns_ = 0;
};

// Not thread safe: its calls are made under the store's write lock, except keeper(), shared() and keeps_notes().
class Sharing {
 public:
  Sharing(const Place& place, const FingerprintHash& fingerprint, SpaceLedger& ledger, Syncs& syncs,
          Inventory& inventory, WriteBudget& writes);

  // Takes the directory's lock, or becomes a member if another server holds it, and counts the files.
  Status enter();
  // Before the directory is entered anew, because other hands removed or replaced it.
  void leave();
  // Returns false if other hands removed the directory, or put another in its place.
  bool in_place() const { return lock_ != nullptr ? lock_->in_place() : servers_.in_place(); }
  // Looks at what the others did and reacts; becomes the keeper if there is none.
  void tick(Look look, DiskTick& tick);

  // Returns true if another process serves from the directory, or may do so.
  bool shared() const { return !keeper_ || has_members_; }
  bool keeper() const { return keeper_; }
  bool keeps_notes() const { return notes_; }
  // The id under which this server writes; another one after it joined anew.
  const std::string& id() const { return servers_.id(); }

  // The keeper: grants members the room that there is. Returns the bytes that are lacking.
  ByteCount grant() { return keeper_ ? leases_.top_up() : ByteCount{}; }
  // A member: reserves room that the keeper granted. Fails with kNoSpace until it is granted.
  Status draw(ByteCount bytes) { return account_.draw(bytes); }
  // The keeper removed a file.
  void note_removal();

 private:
  struct Living {
    ListedServers members;
    ListedServers dead;
    std::vector<std::unique_ptr<os::FileLock>> claims;  // on the dead
    bool nobody() const { return members.empty() && dead.empty(); }
    HeardTotals totals() const;
  };
  Status enter_as_keeper();
  Status enter_as_member();
  Result<Living> hear_living();
  void accept(Living living);
  bool is_busy(const os::FileInfo& temporary) const;
  Inventory::IsBusy busy_files() const {
    return [this](const os::FileInfo& temporary) { return is_busy(temporary); };
  }
  void keep(DiskTick& tick);
  bool look_for_members(Living& living, DiskTick& tick);
  bool take_over(DiskTick& tick);
  void become_keeper();
  void take_part(Look look, DiskTick& tick);
  void look_at_notes();

  const Place& place_;
  const std::string fingerprint_;  // hex
  Inventory& inventory_;
  WriteBudget& writes_;
  std::unique_ptr<os::FileLock> lock_;  // the keeper's
  std::atomic<bool> keeper_ = false;
  std::atomic<bool> has_members_ = false;
  std::atomic<bool> notes_ = false;
  Servers servers_;
  Leases leases_;
  OwnAccount account_;
  OthersWriting others_writing_;
  LookPace pace_;
  std::set<std::string> living_;  // members
  HeardTotals heard_;             // when the files were last looked at
};

}  // namespace kvkeep::store
