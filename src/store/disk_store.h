#pragma once

// The disk tier: immutable segment files of one fingerprint in one directory.
//
// Mechanism only: it does not know why a segment is stored or removed; the cache asks policy and calls. A file is
// written once: temp name, bytes, rename, sync of file, sync of directory. After the rename process death loses
// nothing; after put() returned ok a power cut loses nothing. (Over an existing name the file is synced before the
// rename, so that a failure never costs what was there.) Damaged files are set aside (quarantine/), never served.
//
// Several servers may use one root. One of them, the keeper, holds its lock and keeps the budget: it alone evicts,
// sweeps and sets aside. The others, members, write as much as it allows them (a lease), and when it is gone one of
// them becomes the keeper. What others store is found by tick(). docs/format.md, "Several servers".
//
// Files that only a former process wrote are served, but their durability is unknown (it may have died before its
// sync, or its sync may have failed): put() of such a name writes it again instead of answering ok.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/hash.h"
#include "base/result.h"
#include "format/segment_file.h"
#include "os/clock.h"
#include "os/file_system.h"
#include "store/write_budget.h"

namespace kvkeep::store {

// At most this many files of one directory are served, unless DiskOptions say otherwise; the rest counts as foreign
// bytes.
inline constexpr std::size_t kMaxServedFiles = 200'000;

struct DiskOptions {
  std::string directory;  // the cache's root; files lie in <directory>/<fingerprint hex>/
  FingerprintHash fingerprint;
  ByteCount budget;        // physical bytes of the whole root, quarantine included
  ByteCount reserve = {};  // free space of the file system that is left to others; 0: all of it may be used
  // Bytes that may be written in a day, by all servers of the directory, counted and not enforced: see writes(). 0: no
  // limit.
  ByteCount written_per_day = {};
  // Files that are served. Where more lie there, those of the prefixes that were used longest ago are not.
  std::size_t most_files = kMaxServedFiles;
  bool use_saved_index = true;  // a saved index makes opening faster; it never decides what a file holds
};

// A segment found on disk: at open, or later, stored by another server.
struct StoredSegment {
  format::SegmentHeader header;
  ByteCount physical_bytes;
  std::int64_t modified_ns = 0;
};

struct PartBytes {
  format::PartKind kind = format::PartKind::kRows;
  ByteSpan bytes;
};

struct DiskCounters {
  std::uint64_t puts = 0;
  std::uint64_t put_failures = 0;
  std::uint64_t gets = 0;
  std::uint64_t get_failures = 0;           // reads that the device refused
  std::uint64_t sync_failures = 0;          // of files and directories; the file written then is given up
  std::uint64_t damaged = 0;                // files set aside
  std::uint64_t foreign = 0;                // names in the root that are not ours: left alone, outside the budget
  std::uint64_t temporaries = 0;            // unfinished files of a former process, removed at open
  std::uint64_t headers_read = 0;           // at open; the others came from the saved index
  std::uint64_t payload_bytes_written = 0;  // by failed puts too
  std::uint64_t removed = 0;
  std::uint64_t remove_failures = 0;
  std::uint64_t reopened = 0;  // times that the directory was gone, or another, and was opened anew
};

// A served file with another time than before: another server used it, or keeps it until then (see touch()).
struct UsedSegment {
  format::SegmentName name;
  std::int64_t modified_ns = 0;
};

// How eagerly tick() looks through the files.
enum class Look {
  kWhenDue,  // if another server told of a change, and not all the time
  kNow,
};

// Whether files that nobody here serves may leave although they are pinned, or kept until a time to come.
enum class Kept { kSpare, kTake };

// What tick() found.
struct DiskTick {
  bool looked = false;                    // through the files; else nothing of them is told
  std::vector<StoredSegment> found;       // stored by others; ascending begin
  std::vector<format::SegmentName> gone;  // removed by others
  std::vector<UsedSegment> used;          // by others
  ByteCount shortage;                     // of room for what members may write: make it and call grant()
  bool more_room = false;                 // puts that were refused may work now
};

// Thread safe: calls may come from the I/O executor and from others; puts and removes are serialised inside, gets run
// beside them.
class DiskStore {
 public:
  // Makes the directory, takes its lock or becomes a member, sweeps temp files of the dead, reads every header.
  // Damaged files are counted and set aside, files the device cannot read now are left alone; content never makes open
  // fail. used() may be above the budget then, if the budget became smaller: puts are refused until enough is removed.
  static Result<std::unique_ptr<DiskStore>> open(DiskOptions options, os::FileSystem& files, os::Clock& clock);
  ~DiskStore();

  // What open found, by ascending begin; empties the list.
  std::vector<StoredSegment> take_recovered();

  // Writes one segment durably: one part per entry of `parts`, in that order. Of `header.parts` all but sizes and
  // sums is taken (by kind); those are computed here. kNoSpace: would exceed the budget (make room with
  // remove() and call again) or the disk is full. A name this process already stored is ok without writing. kInvalid:
  // another fingerprint, tokens that do not fit the range, no part, a kind twice. After any failure nothing of the
  // file remains counted unless its unlink failed too; then its bytes stay counted and the unlink is tried again by
  // later puts. Where somebody removed or replaced the directory, it is made, locked and counted anew before anything
  // is written, and tick() tells what is gone and what is new.
  Status put(const format::SegmentHeader& header, const std::vector<PartBytes>& parts);

  // Reads one part into `out` and verifies header, tokens and sum. `expected.parts` has what put() was given or
  // open found; sums need not be filled. kInvalid: out.size() is not the part's size there.
  // kDamaged: the file held anything else and was set aside. kNotFound: no such file. kIo: the device refused; a
  // later put() of the name writes it again. `out` is unspecified after an error.
  Status get(const format::SegmentHeader& expected, format::PartKind kind, MutableByteSpan out);

  // Unlinks. A name that is not there is ok. On kIo the bytes stay counted; call again later.
  Status remove(const format::SegmentName& name);

  // Recency: sets the file's modification time, nanoseconds since the epoch. One to come says until when the file is
  // kept. Failures are ignored (order only).
  void touch(const format::SegmentName& name, std::int64_t time_ns);

  // Another process serves from the directory, or is taken to.
  bool shared() const;
  // A member evicts nothing: its puts are refused while its lease is used up.
  bool keeper() const;
  // False: another server of this fingerprint writes its saved index and sampled turns.
  bool keeps_notes() const;
  // Looks at what other servers did and does this one's part; call it about once a second. Costs one listing of a small
  // directory while nobody else writes, else one of each directory that this server must know, for at most a twentieth
  // of the time. Becomes the keeper where there is none.
  DiskTick tick(Look look = Look::kWhenDue);
  // The keeper: allows members to write what there is room for. Returns what is lacking.
  ByteCount grant();
  // The file stays, unserved, until room is needed: nobody can use what it holds now.
  void disown(const format::SegmentName& name);

  // Leaves a note that what is stored is wrong, and why (distrust.h). It does not change what this store does.
  Status distrust(std::string_view why);
  // What such a note says; nullopt: there is none. kIo: the device does not say.
  Result<std::optional<std::string>> distrusted() const;

  // Writes the saved index (advisory) if anything changed since the last one. Cost: a copy of all headers, in memory
  // and to a file; call it rarely (gets wait for the copy in memory), and at shutdown.
  void save_index();

  // True from when the file system had no room for a file until one was written: neither the budget nor removing helps.
  // Until then put() says kNoSpace without touching the disk, which is asked about once a second.
  bool stopped() const;
  // What of the day's bytes may still be written. Nothing: where there is no limit. Waits for a put() at work.
  std::optional<WriteBudget::Allowance> writes();

  ByteCount used() const;  // physical bytes counted against the budget
  ByteCount budget() const;
  // Of the file that keeps sampled turns (record_log.h), which is not the store's: its budget leaves room for it.
  std::string turns_path() const;
  // Part of used(): files that this store does not serve but may remove, above all those of other fingerprints.
  ByteCount foreign_bytes() const;
  // Removes such files, oldest first, those that are kept last or not at all, until `needed` bytes are free again or
  // none is left. Returns the bytes freed.
  ByteCount remove_foreign(ByteCount needed, Kept kept = Kept::kTake);
  // Removes those that were used last before `time_ns` (since the epoch) and are not kept. Returns the bytes freed.
  ByteCount expire_foreign(std::int64_t time_ns);
  // True: as many files are served as may be. put() does not refuse more, but the next start would leave some out.
  bool has_most_files() const;
  DiskCounters counters() const;

 private:
  class Impl;
  explicit DiskStore(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace kvkeep::store
