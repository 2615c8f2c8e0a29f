#pragma once

// The disk tier: immutable segment files of one fingerprint in one directory.
//
// Mechanism only: it does not know why a segment is stored or removed; the cache asks policy and calls. A file is
// written once: temp name, bytes, rename, sync of file, sync of directory. After the rename the death of the process
// loses nothing; after put() returned ok a power cut loses nothing. (Over an existing name the file is synced before
// the rename, so that a failure never costs the old file.) Damaged files are moved to quarantine/, never served.
//
// Several servers may use one root. One of them, the keeper, holds its lock and the budget: only the keeper evicts,
// sweeps and moves files to the quarantine. The others, members, write within the lease that it grants, and when it is
// gone one of them becomes the keeper. tick() finds files that others store. docs/format.md, "Several servers".
//
// Files that only a former process wrote are served, but their durability is unknown (it may have died before its
// sync, or its sync may have failed): put() of such a name writes it again instead of answering ok.

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "os/clock.h"
#include "os/file_system.h"
#include "store/disk_types.h"

namespace kvkeep::store {

// The parts of a store: each has a header and a test of its own.
struct Place;
struct Draft;
class DiskCounting;
class FreeSpace;
class Inventory;
class Publisher;
class ServedFiles;
class Sharing;
class SpaceLedger;
class Syncs;
class WriteBudget;

// Thread safe: calls may come from the I/O executor and from others; puts and removes are serialised inside, gets run
// next to them.
class DiskStore {
 public:
  // Makes the directory, takes its lock or becomes a member, sweeps temp files of the dead, reads every header. Damaged
  // files are counted and moved to the quarantine, files that the device cannot read now are left alone; content never
  // makes open fail. used() may exceed a smaller budget then: puts are refused until enough is removed.
  static Result<std::unique_ptr<DiskStore>> open(DiskOptions options, os::FileSystem& files, os::Clock& clock);
  ~DiskStore();

  // The segments that open found, by ascending begin; empties the list.
  std::vector<StoredSegment> take_recovered();

  // Writes one segment durably: one part per entry of `parts`, in that order. Takes all of `header.parts` but sizes and
  // sums (by kind), which are computed here. Fails with kNoSpace if the segment would exceed the budget (make room with
  // remove() and call again) or the disk is full; kInvalid if it has another fingerprint, tokens that do not fit the
  // range, no part, or a kind twice. A name that this process already stored is ok without writing. After any failure
  // nothing of the file remains counted unless its unlink failed too; then its bytes stay counted and later puts try
  // the unlink again. If the directory was removed or replaced, it is made, locked and counted anew before anything is
  // written, and tick() reports which files are gone and which are new.
  Status put(const format::SegmentHeader& header, const std::vector<PartBytes>& parts);

  // Reads one part into `out` and verifies header, tokens and sum. `expected.parts` is what put() was given or open
  // found; sums need not be filled. Fails with kInvalid if out.size() is not the part's size there; kDamaged if the
  // file held anything else and was moved to the quarantine; kNotFound if there is no such file; kIo if the device
  // refused: a later put() of the name writes it again. `out` is unspecified after an error.
  Status get(const format::SegmentHeader& expected, format::PartKind kind, MutableByteSpan out);

  // Unlinks. Succeeds if the name is not there. On kIo the bytes stay counted; call again later.
  Status remove(const format::SegmentName& name);

  // Recency: sets the file's modification time, nanoseconds since the epoch. A time to come says until when the file is
  // kept. Failures are ignored (they only change an order).
  void touch(const format::SegmentName& name, std::int64_t time_ns);

  // Returns true if another process serves from the directory, or may do so.
  bool shared() const;
  // Returns true until DiskOptions::admit lets the store enter its directory.
  bool waits() const { return !entered_; }
  // A member evicts nothing: its puts are refused while its lease is used up.
  bool keeper() const;
  // A member: the bytes that it may still write by its lease. 0 for a keeper.
  ByteCount lease_left() const;
  // Returns false if another server of this fingerprint writes its saved index and sampled turns.
  bool keeps_notes() const;
  // Looks at what other servers did and does this one's part; call it about once a second. Costs one listing of a small
  // directory while no other server writes, else one of each directory that this server must know, for at most a
  // twentieth of the time. Becomes the keeper if there is none.
  DiskTick tick(Look look = Look::kWhenDue);
  // The keeper: grants members the room that there is. Returns the bytes that are lacking.
  ByteCount grant();
  // The file stays, unserved, until room is needed: no server can use its content now.
  void disown(const format::SegmentName& name);

  // Leaves a note that stored state is wrong, and why (small_files.h). It does not change what this store does.
  Status distrust(std::string_view why);
  // Returns the text of such a note; nullopt if there is none. Fails with kIo if the device does not answer.
  Result<std::optional<std::string>> distrusted() const;

  // Writes the saved index (advisory) if anything changed since the last one. Cost: a copy of all headers, in memory
  // and to a file; call it rarely (gets wait for the copy in memory), and at shutdown.
  void save_index();

  // Returns true from when the file system had no room for a file until one was written: neither the budget nor
  // removing helps. Until then put() says kNoSpace without touching the disk, which is asked about once a second.
  bool stopped() const;
  // The part of the day's bytes that may still be written; nullopt without a limit. Waits for a put() at work.
  std::optional<WriteAllowance> writes();

  ByteCount used() const;  // physical bytes counted against the budget
  ByteCount budget() const;
  // The file of sampled turns (small_files.h), which is not the store's: its budget leaves room for it.
  std::string turns_path() const;
  // Part of used(): files that this store does not serve but may remove, above all those of other fingerprints.
  ByteCount foreign_bytes() const;
  // Removes such files, oldest first, kept ones last or not at all, until `needed` bytes are free again or none is
  // left. Returns the bytes freed.
  ByteCount remove_foreign(ByteCount needed, Kept kept = Kept::kTake);
  // Removes those that were used last before `time_ns` (since the epoch) and are not kept. Returns the bytes freed.
  ByteCount expire_foreign(std::int64_t time_ns);
  // Returns true if as many files are served as may be. put() does not refuse more, but the next start would leave some
  // out.
  bool has_most_files() const;
  DiskCounters counters() const;

 private:
  DiskStore(DiskOptions options, os::FileSystem& files, os::Clock& clock);

  bool still_admitted() const;
  bool in_place() const REQUIRES(write_mutex_);
  Status enter() REQUIRES(write_mutex_);
  Status reopen() REQUIRES(write_mutex_);
  Status write(const Draft& draft) REQUIRES(write_mutex_);
  Status reserve(ByteCount bytes) REQUIRES(write_mutex_);
  Status write_index(ByteSpan bytes) REQUIRES(write_mutex_);
  Status give_up(const Error& error, const std::string& file_name, std::uint64_t generation) EXCLUDES(write_mutex_);

  const DiskOptions options_;
  const std::unique_ptr<const Place> place_;
  const std::unique_ptr<SpaceLedger> ledger_;
  const std::unique_ptr<DiskCounting> counting_;
  const std::unique_ptr<ServedFiles> served_;
  // Held while files are written, renamed or removed. Thread safe parts need only their own lock.
  mutable Mutex write_mutex_;
  const std::unique_ptr<Syncs> syncs_ GUARDED_BY(write_mutex_);
  const std::unique_ptr<FreeSpace> free_space_ GUARDED_BY(write_mutex_);
  const std::unique_ptr<WriteBudget> write_budget_ GUARDED_BY(write_mutex_);
  const std::unique_ptr<Inventory> inventory_ GUARDED_BY(write_mutex_);
  const std::unique_ptr<Publisher> publisher_ GUARDED_BY(write_mutex_);
  const std::unique_ptr<Sharing> sharing_ GUARDED_BY(write_mutex_);
  bool opened_ GUARDED_BY(write_mutex_) = false;                    // every file is counted
  std::atomic<bool> entered_ = false;                               // once; written with the lock
  std::vector<format::SegmentName> gone_ GUARDED_BY(write_mutex_);  // for the next tick
};

}  // namespace kvkeep::store
