#pragma once

// What each of several servers on one directory may write, and what it says that it wrote (docs/format.md, "Several
// servers"). The numbers lie in names of files (servers.h); these two classes do the accounting of either side.

#include <cstdint>
#include <string>

#include "base/result.h"
#include "store/servers.h"
#include "store/space_ledger.h"

namespace kvkeep::store {

// The largest that a member is granted before the keeper looks again. Whoever claims more did not read it from a
// server.
inline constexpr ByteCount kLargestLease = mebibytes(1024);

// The keeper's side: members, and what each of them may still write, which is counted as if it were there already. What
// is known of them was heard before their files were last looked at, so that more is counted than there is at most.
//
// Not thread safe.
class Leases {
 public:
  Leases(Servers& servers, SpaceLedger& ledger, Syncs& syncs) : servers_(servers), ledger_(ledger), syncs_(syncs) {}

  bool none() const { return members_.empty(); }
  // Whether a grant took effect is not known: it must be looked at.
  bool uncertain() const { return uncertain_; }
  void forget_all();
  // What they were refused since, which may be known before their files were looked at.
  void hear_wishes(const ListedServers& living);
  // Their files were looked at since `living` was heard: what they said that they used is among what was found.
  void accept(ListedServers living);
  // Grants as much as there is room for. Returns what is lacking.
  ByteCount top_up();

 private:
  ByteCount set_apart(ByteCount bytes);

  Servers& servers_;
  SpaceLedger& ledger_;
  Syncs& syncs_;
  ListedServers members_;
  bool uncertain_ = false;
};

// Each server's own side: what it tells the others that it used, and, of a member, its lease.
//
// Not thread safe.
class OwnAccount {
 public:
  OwnAccount(Servers& servers, SpaceLedger& ledger, Syncs& syncs) : servers_(servers), ledger_(ledger), syncs_(syncs) {}

  // Becomes a member, without a lease at first. Returns false if that is impossible now: nothing is written until it is
  // tried again.
  bool join();
  // Takes what the keeper granted since.
  void take_lease(const ListedServers& listed);
  // Reserves from the lease; what does not fit is asked for. kNoSpace: it was not granted yet.
  Status draw(ByteCount bytes);
  // Returns true once after the lease grew by as much as draw() last refused.
  bool take_more_room() { return std::exchange(more_room_, false); }

  // A file left. That is told as a byte used, for nothing else makes the others look.
  void note_removal() { ++removals_; }
  void note_removals(std::size_t count) { removals_ += count; }
  // The others know of all that this server used and removed.
  bool all_is_told() const { return servers_.published() && used_to_tell() == told_used_; }
  // Nothing is unfinished when it is called; what was removed is made durable first.
  void tell();
  void tell_news();

 private:
  std::uint64_t used_to_tell() const { return ledger_.drawn().value() - drawn_before_ + removals_; }

  Servers& servers_;
  SpaceLedger& ledger_;
  Syncs& syncs_;
  std::uint64_t drawn_before_ = 0;  // reserved before it joined
  std::uint64_t removals_ = 0;
  std::uint64_t granted_ = 0;  // in total
  std::uint64_t wanted_ = 0;   // what was refused
  std::uint64_t told_used_ = 0;
  std::uint64_t told_wanted_ = 0;
  bool more_room_ = false;
};

}  // namespace kvkeep::store
