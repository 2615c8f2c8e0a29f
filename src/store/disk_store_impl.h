#pragma once

// The parts of DiskStore and who guards them. disk_store_open.cc finds what is there, disk_store.cc works with it,
// disk_store_shared.cc shares it with other servers, disk_store_survey.cc looks at what these did.
//
// write_mutex_ is held while files are written, renamed or removed; mutex_ never while the file system is called, so
// that used(), counters() and lookups do not wait for a disk.

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/mutex.h"
#include "store/directory_scan.h"
#include "store/disk_store.h"
#include "store/free_space.h"
#include "store/layout.h"
#include "store/quarantine.h"
#include "store/servers.h"
#include "store/space_ledger.h"
#include "store/unserved_files.h"
#include "store/write_budget.h"

namespace kvkeep::store {

class DiskStore::Impl {
 public:
  Impl(DiskOptions options, os::FileSystem& files, os::Clock& clock);
  ~Impl();

  Status open();
  std::vector<StoredSegment> take_recovered();
  Status put(const format::SegmentHeader& header, const std::vector<PartBytes>& parts);
  Status get(const format::SegmentHeader& expected, format::PartKind kind, MutableByteSpan out);
  Status remove(const format::SegmentName& name);
  void touch(const format::SegmentName& name, std::int64_t time_ns);
  void save_index();
  ByteCount remove_foreign(ByteCount needed, Kept kept);
  ByteCount expire_foreign(std::int64_t time_ns);
  bool has_most_files() const EXCLUDES(mutex_);
  ByteCount used() const { return ledger_.used(); }
  std::string turns_path() const { return path_of(std::string(kTurnsName)); }
  ByteCount budget() const { return ledger_.budget(); }
  bool stopped() const NO_THREAD_SAFETY_ANALYSIS { return free_space_.stopped(); }  // an atomic
  std::optional<WriteBudget::Allowance> writes();
  ByteCount foreign_bytes() const NO_THREAD_SAFETY_ANALYSIS { return unserved_.foreign_bytes(); }  // an atomic
  DiskCounters counters() const;
  bool shared() const { return !keeper_ || shared_; }
  bool keeper() const { return keeper_; }
  bool keeps_notes() const { return notes_; }
  DiskTick tick(Look look);
  ByteCount grant();
  void disown(const format::SegmentName& name);
  Status distrust(std::string_view why);
  Result<std::optional<std::string>> distrusted() const;

 private:
  // A file that is served.
  struct Entry {
    format::SegmentName name;
    std::vector<std::byte> header;  // encoded, for the saved index
    std::uint64_t size_bytes = 0;
    std::int64_t modified_ns = 0;
    bool durable = false;          // this process saw both syncs succeed
    std::uint64_t generation = 0;  // tells a file from a later one of the same name
    bool suspect = false;          // the device refused to read it once: put() writes it again
    ByteCount physical() const { return os::physical_size(ByteCount{size_bytes}); }
  };
  using Entries = std::unordered_map<std::string, Entry>;  // by file name

  std::string path_of(const std::string& file_name) const { return layout_.own + "/" + file_name; }
  template <typename Change>
  void count(Change change) EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    change(counters_);
  }

  // Opening.
  Status open_directory() REQUIRES(write_mutex_);
  Status open_as_keeper() REQUIRES(write_mutex_);
  Status open_as_member() REQUIRES(write_mutex_);
  bool in_place() const REQUIRES(write_mutex_);
  Status reopen() REQUIRES(write_mutex_);
  bool find_again(DiskTick& tick) REQUIRES(write_mutex_);
  void tell_changes(const Entries& served) REQUIRES(write_mutex_) EXCLUDES(mutex_);
  Status settle_former_removals(const RootScan& root);
  Status count_foreign(const std::string& directory) REQUIRES(write_mutex_);
  std::vector<os::FileInfo> merge_foreign(const std::string& directory, const std::vector<os::FileInfo>& listed)
      REQUIRES(write_mutex_);
  std::vector<os::FileInfo> busy_of(const std::vector<os::FileInfo>& temporaries) const REQUIRES(write_mutex_);
  void sweep(const std::string& directory, const os::FileInfo& temporary) REQUIRES(write_mutex_);
  void adopt(DirectoryScan scan) REQUIRES(write_mutex_);
  void set_all_aside(const DirectoryScan& scan) REQUIRES(write_mutex_);
  void adopt_segment(FoundSegment found) EXCLUDES(mutex_);

  // Sharing.
  struct Living {
    ListedServers members;
    ListedServers dead;
    std::vector<std::unique_ptr<os::FileLock>> claims;  // on the dead
  };
  struct Survey {
    RootScan root;
    std::vector<os::FileInfo> own;
    std::vector<std::pair<std::string, std::vector<os::FileInfo>>> foreign;
  };
  Result<Living> tell_living() REQUIRES(write_mutex_);
  bool is_busy(const os::FileInfo& temporary) const REQUIRES(write_mutex_);
  bool counted_leftover(const std::string& path) const REQUIRES(write_mutex_);
  void accept(Living living) REQUIRES(write_mutex_);
  ByteCount top_up() REQUIRES(write_mutex_);
  ByteCount lease_for_others(ByteCount bytes) REQUIRES(write_mutex_);
  Result<Survey> survey() REQUIRES(write_mutex_);
  void merge(const Survey& survey, DiskTick& tick) REQUIRES(write_mutex_);
  std::vector<os::FileInfo> merge_own(const std::vector<os::FileInfo>& listed, DiskTick& tick) REQUIRES(write_mutex_);
  void merge_index(ByteCount bytes) REQUIRES(write_mutex_);
  void merge_segment(const os::FileInfo& info) REQUIRES(write_mutex_);
  void compare_with(const std::vector<os::FileInfo>& listed, DiskTick& tick) REQUIRES(write_mutex_);
  bool take_over(DiskTick& tick) REQUIRES(write_mutex_);
  void keep(DiskTick& tick) REQUIRES(write_mutex_);
  void take_part(DiskTick& tick, Look look) REQUIRES(write_mutex_);
  void count_writing(const std::map<std::string, std::uint64_t>& heard) REQUIRES(write_mutex_);
  bool join() REQUIRES(write_mutex_);
  void take_lease(const ListedServers& listed) REQUIRES(write_mutex_);
  std::uint64_t used_to_tell() const REQUIRES(write_mutex_) {
    return ledger_.drawn().value() - drawn_before_ + removals_;
  }
  void publish_used() REQUIRES(write_mutex_);
  Status draw(ByteCount bytes) REQUIRES(write_mutex_);
  void look_at_notes() REQUIRES(write_mutex_);
  bool may_scan() REQUIRES(write_mutex_) { return clock_.monotonic_ns() >= next_scan_ns_; }
  void note_scan(std::int64_t begin_ns) REQUIRES(write_mutex_);

  // Writing.
  bool stored(const format::SegmentName& name) const EXCLUDES(mutex_);
  Status reserve(ByteCount bytes) REQUIRES(write_mutex_);
  Status settle_removals() REQUIRES(write_mutex_);
  std::string temporary_path() REQUIRES(write_mutex_);
  Result<std::unique_ptr<os::File>> write_temporary(const std::string& path, ByteSpan header,
                                                    const std::vector<PartBytes>& parts, ByteCount reserved)
      REQUIRES(write_mutex_);
  // What is to be written, and under which name.
  struct Draft {
    std::string file_name;
    Entry entry;
    const std::vector<PartBytes>& parts;
  };
  Status write(const Draft& draft) REQUIRES(write_mutex_);
  Status publish(const Draft& draft) REQUIRES(write_mutex_);
  Status publish_over(const Draft& draft) REQUIRES(write_mutex_);
  Result<std::unique_ptr<os::File>> write_draft(const Draft& draft, const std::string& temporary)
      REQUIRES(write_mutex_);
  Status sync_own_directory() REQUIRES(write_mutex_);
  template <typename Synced>
  Status counted_sync(Synced synced) EXCLUDES(mutex_);
  void serve(const std::string& file_name, Entry entry) EXCLUDES(mutex_);
  void forget_replaced(const std::string& file_name) REQUIRES(write_mutex_) EXCLUDES(mutex_);

  // Reading.
  std::optional<std::uint64_t> generation_of(const std::string& file_name) const EXCLUDES(mutex_);
  void suspect(const std::string& file_name, std::uint64_t generation) EXCLUDES(mutex_);
  std::optional<Entry> take_entry(const std::string& file_name, std::uint64_t generation) EXCLUDES(mutex_);
  void set_aside(const std::string& file_name, std::uint64_t generation, bool in_place = false)
      EXCLUDES(write_mutex_, mutex_);
  bool adopt_anew(const std::string& file_name, std::uint64_t generation) EXCLUDES(write_mutex_, mutex_);
  void forget_vanished(const std::string& file_name, std::uint64_t generation) EXCLUDES(write_mutex_, mutex_);

  std::vector<std::byte> encode_index() const EXCLUDES(mutex_);
  bool write_index() REQUIRES(write_mutex_) EXCLUDES(mutex_);

  const DiskOptions options_;
  const Layout layout_;
  os::FileSystem& files_;
  os::Clock& clock_;
  SpaceLedger ledger_;
  mutable Mutex write_mutex_;
  std::unique_ptr<os::FileLock> lock_ GUARDED_BY(write_mutex_);
  bool opened_ GUARDED_BY(write_mutex_) = false;                    // all that is there is counted
  std::vector<format::SegmentName> gone_ GUARDED_BY(write_mutex_);  // for the next tick
  FreeSpace free_space_ GUARDED_BY(write_mutex_);
  WriteBudget write_budget_ GUARDED_BY(write_mutex_);
  UnservedFiles unserved_ GUARDED_BY(write_mutex_);
  Quarantine quarantine_ GUARDED_BY(write_mutex_);
  std::uint64_t temporaries_made_ GUARDED_BY(write_mutex_) = 0;
  ByteCount index_bytes_ GUARDED_BY(write_mutex_);  // of the saved index on disk; 0: none

  // Sharing. What the keeper knows of members is what it heard before it last looked at their files: it counts more
  // than there is at most.
  std::atomic<bool> keeper_ = false;
  std::atomic<bool> shared_ = false;
  std::atomic<bool> notes_ = false;
  Servers servers_ GUARDED_BY(write_mutex_);
  std::set<std::string> living_ GUARDED_BY(write_mutex_);  // members
  ListedServers members_ GUARDED_BY(write_mutex_);         // keeper: as of the last scan
  bool grant_failed_ GUARDED_BY(write_mutex_) = false;     // keeper: whether it took effect must be looked at
  std::map<std::string, std::uint64_t> heard_ GUARDED_BY(write_mutex_);            // what each server said it used
  std::map<std::string, std::uint64_t> counted_writing_ GUARDED_BY(write_mutex_);  // of it, in `write_budget_`
  bool heard_writing_ GUARDED_BY(write_mutex_) = false;
  std::uint64_t drawn_before_ GUARDED_BY(write_mutex_) = 0;  // member: reserved before it joined
  std::uint64_t granted_ GUARDED_BY(write_mutex_) = 0;       // member: in total
  // Keeper: files that left, by its hands or by others'. Each is told as a byte used, for nothing else makes members
  // look.
  std::uint64_t removals_ GUARDED_BY(write_mutex_) = 0;
  std::uint64_t published_ GUARDED_BY(write_mutex_) = 0;
  std::uint64_t wanted_ GUARDED_BY(write_mutex_) = 0;  // member: what was refused
  std::uint64_t published_wanted_ GUARDED_BY(write_mutex_) = 0;
  bool more_room_ GUARDED_BY(write_mutex_) = false;  // member: its lease grew; the next tick tells
  std::int64_t next_scan_ns_ GUARDED_BY(write_mutex_) = 0;
  std::int64_t next_look_ns_ GUARDED_BY(write_mutex_) = 0;  // keeper: at the latest

  mutable Mutex mutex_;
  Entries entries_ GUARDED_BY(mutex_);
  std::vector<StoredSegment> recovered_ GUARDED_BY(mutex_);
  std::uint64_t next_generation_ GUARDED_BY(mutex_) = 1;
  bool index_is_current_ GUARDED_BY(mutex_) = false;
  DiskCounters counters_ GUARDED_BY(mutex_);
};

}  // namespace kvkeep::store
