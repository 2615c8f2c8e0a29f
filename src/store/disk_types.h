#pragma once

// The types of the disk tier: its options, what is put into it, and what it reports.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/hash.h"
#include "base/mutex.h"
#include "base/result.h"
#include "format/segment_file.h"

namespace kvkeep::store {

// At most this many files of one directory are served, unless DiskOptions say otherwise; the rest counts as foreign
// bytes.
inline constexpr std::size_t kMaxServedFiles = 200'000;

struct DiskOptions {
  std::string directory;  // the cache's root; files lie in <directory>/<fingerprint hex>/
  FingerprintHash fingerprint;
  ByteCount budget;        // physical bytes of the whole root, quarantine included
  ByteCount reserve = {};  // free space of the file system that the cache leaves to others; 0: it may use all
  // Bytes that all servers of the directory may write in a day, counted and not enforced: see writes(). 0: no limit.
  ByteCount written_per_day = {};
  // Most files that are served. If there are more, those of the prefixes that were used longest ago are not served.
  std::size_t most_files = kMaxServedFiles;
  // Asked before the directory is entered, and again by tick() and put() while it says kBusy: until it agrees, nothing
  // there is read, served or written (weights.h). Empty: it may be entered.
  std::function<Status()> admit = {};
  // Asked before each use of the directory, on any thread: once it returns false, nothing is served or written there
  // until `admit` agrees again. Empty: it stays admitted.
  std::function<bool()> still_admitted = {};
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
  std::uint64_t sync_failures = 0;          // of files and directories; the file in question is abandoned
  std::uint64_t damaged = 0;                // files moved to the quarantine
  std::uint64_t foreign = 0;                // names in the root that the store did not give: outside the budget
  std::uint64_t former_forms = 0;           // files found at open that no request asks for any more: not served
  std::uint64_t temporaries = 0;            // unfinished files of a former process, removed at open
  std::uint64_t headers_read = 0;           // at open; the others came from the saved index
  std::uint64_t payload_bytes_written = 0;  // by failed puts, too
  std::uint64_t removed = 0;
  std::uint64_t remove_failures = 0;
  std::uint64_t reopened = 0;  // times that the directory was removed or replaced, and opened anew
};

// The counters of all parts of one store. Thread safe.
class DiskCounting {
 public:
  void add(std::uint64_t DiskCounters::* which, std::uint64_t count = 1) {
    const MutexLock lock(mutex_);
    counters_.*which += count;
  }
  DiskCounters counters() const {
    const MutexLock lock(mutex_);
    return counters_;
  }

 private:
  mutable Mutex mutex_;
  DiskCounters counters_ GUARDED_BY(mutex_);
};

// A served file with another time than before: another server used it, or keeps it until that time (see touch()).
struct UsedSegment {
  format::SegmentName name;
  std::int64_t modified_ns = 0;
};

// How eagerly tick() looks through the files.
enum class Look {
  kWhenDue,  // if another server reported a change, and only for a share of the time
  kNow,
};

// Whether unserved files may leave although they are pinned, or kept until a time to come.
enum class Kept { kSpare, kTake };

// How much of a day's bytes may be written now, and how much may gather (write_limits.h).
struct WriteAllowance {
  ByteCount left;
  ByteCount most;
  bool disbelieved = false;  // the file was damaged and counted as nothing left
};

// The findings of tick().
struct DiskTick {
  bool looked = false;                    // through the files; else the next three say nothing about them
  std::vector<StoredSegment> found;       // stored by others; ascending begin
  std::vector<format::SegmentName> gone;  // removed by others
  std::vector<UsedSegment> used;          // by others
  ByteCount shortage;                     // room that members lack: make it and call grant()
  bool more_room = false;                 // puts that were refused may work now
};

}  // namespace kvkeep::store
