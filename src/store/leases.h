#pragma once

// How much each of several servers on one directory may write, and how much it reports as written (docs/format.md,
// "Several servers"). The numbers lie in names of files (servers.h); these two classes do the accounting of either
// side.

#include <cstdint>
#include <string>

#include "base/result.h"
#include "store/servers.h"
#include "store/space_ledger.h"

namespace kvkeep::store {

// The largest lease that a member is granted before the keeper looks again. No server grants more, so a larger claim is
// forged.
inline constexpr ByteCount kLargestLease = mebibytes(1024);

// The keeper's side: the members, and how much each may still write, which is counted as if it were written. Their
// totals were read before their files were last looked at, so the count is at least what is there.
//
// Not thread safe.
class Leases {
 public:
  Leases(Servers& servers, SpaceLedger& ledger, Syncs& syncs) : servers_(servers), ledger_(ledger), syncs_(syncs) {}

  bool none() const { return members_.empty(); }
  // Returns true if a grant may or may not have taken effect: look at it.
  bool uncertain() const { return uncertain_; }
  void forget_all();
  // Takes their refused bytes, which may be known before their files were looked at.
  void hear_wishes(const ListedServers& living);
  // Their files were looked at since `living` was listed: the bytes that they reported are among the files found.
  void accept(ListedServers living);
  // Grants as much as there is room for. Returns the bytes that are lacking.
  ByteCount top_up();

 private:
  ByteCount set_apart(ByteCount bytes);

  Servers& servers_;
  SpaceLedger& ledger_;
  Syncs& syncs_;
  ListedServers members_;
  bool uncertain_ = false;
};

// Each server's own side: the bytes that it reports to the others as used and, for a member, its lease.
//
// Not thread safe.
class OwnAccount {
 public:
  OwnAccount(Servers& servers, SpaceLedger& ledger, Syncs& syncs) : servers_(servers), ledger_(ledger), syncs_(syncs) {}

  // Becomes a member, without a lease at first. Returns false if that is impossible now: it writes nothing before a
  // later try succeeds.
  bool join();
  // Takes what the keeper has granted.
  void take_lease(const ListedServers& listed);
  // Reserves from the lease, and asks for bytes that do not fit. Fails with kNoSpace until they are granted.
  Status draw(ByteCount bytes);
  // Returns true once after the lease grew by as much as draw() last refused.
  bool take_more_room() { return std::exchange(more_room_, false); }

  // A file left. It is reported as a used byte, for nothing else makes the others look.
  void note_removal() { ++removals_; }
  void note_removals(std::size_t count) { removals_ += count; }
  // Returns true if the others know of all that this server used and removed.
  bool all_is_told() const { return servers_.published() && used_to_tell() == told_used_; }
  // Makes removals durable, then reports. Precondition: no write is unfinished.
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
  std::uint64_t wanted_ = 0;   // refused bytes
  std::uint64_t told_used_ = 0;
  std::uint64_t told_wanted_ = 0;
  bool more_room_ = false;
};

}  // namespace kvkeep::store
