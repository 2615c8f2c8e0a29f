// Opening a cache directory: lock it, count every byte in it, sweep what a former process left unfinished, set aside
// what is damaged, serve the rest. Where another server holds the lock only the last is done.

#include <algorithm>
#include <iterator>
#include <utility>

#include "store/disk_store_impl.h"
#include "store/mutations.h"
#include "store/segment_io.h"

namespace kvkeep::store {

DiskStore::Impl::Impl(DiskOptions options, os::FileSystem& files, os::Clock& clock)
    : options_(std::move(options)),
      layout_(make_layout(options_.directory, options_.fingerprint)),
      files_(files),
      clock_(clock),
      ledger_(options_.budget),
      free_space_(layout_.root, options_.reserve, files_, clock_),
      write_budget_(layout_.writes, options_.written_per_day, files_, clock_),
      unserved_(files_, ledger_),
      quarantine_(layout_.quarantine, options_.budget, files_, clock_, ledger_, unserved_),
      servers_(layout_.servers, files_, clock_) {}

DiskStore::Impl::~Impl() {
  const MutexLock lock(write_mutex_);
  write_budget_.close();
}

Status DiskStore::Impl::open() {
  const MutexLock lock(write_mutex_);
  write_budget_.open();  // once: what this process wrote is not undone by hands that remove the directory
  return open_directory();
}

Status DiskStore::Impl::open_directory() {
  TRY(files_.make_directories(layout_.own));
  auto keeper_lock = files_.lock(layout_.lock);
  if (keeper_lock) {
    lock_ = std::move(*keeper_lock);
  } else if (keeper_lock.error().kind != ErrorKind::kBusy) {
    return keeper_lock.error();
  } else if (!mutations().two_keepers) {
    TRY(open_as_member());
    opened_ = true;
    return {};
  }
  TRY(open_as_keeper());
  opened_ = true;
  return {};
}

// False: other hands removed the directory, or put another in its place.
bool DiskStore::Impl::in_place() const { return lock_ != nullptr ? lock_->in_place() : servers_.in_place(); }

// As a process that died and was started again would, except that what it served is remembered. Nothing is written
// before all that is there now is counted.
Status DiskStore::Impl::reopen() {
  TRY(files_.make_directories(layout_.own));
  opened_ = keeper_ = shared_ = false;
  write_budget_.set_saves(false);
  lock_.reset();
  servers_.leave_directory();
  members_.clear();
  heard_.clear();
  grant_failed_ = false;
  next_scan_ns_ = 0;
  Entries served;
  {
    const MutexLock lock(mutex_);
    served.swap(entries_);
  }
  ledger_.begin_recount();
  unserved_.clear();
  index_bytes_ = ByteCount{};
  const Status opened = mutations().reopen_uncounted ? Status{} : open_directory();
  if (opened) ledger_.end_recount();
  tell_changes(served);
  if (opened) count([](DiskCounters& counters) { ++counters.reopened; });
  return opened;
}

// The directory, and what went since the last tick. False: it cannot be had now.
bool DiskStore::Impl::find_again(DiskTick& tick) {
  if ((!opened_ || !in_place()) && !reopen()) return false;
  tick.gone = std::exchange(gone_, {});
  return true;
}

void DiskStore::Impl::tell_changes(const Entries& served) {
  const MutexLock lock(mutex_);
  for (const auto& [name, entry] : served) {
    if (!entries_.contains(name)) gone_.push_back(entry.name);
  }
  std::erase_if(recovered_,
                [&](const StoredSegment& found) { return served.contains(file_name_of(found.header.name)); });
}

// What members may still write is read before what is there: whatever they have written by then is found.
Status DiskStore::Impl::open_as_keeper() {
  keeper_ = true;
  write_budget_.set_saves(true);
  TRY_ASSIGN(Living living, tell_living());
  TRY_ASSIGN(const RootScan root, scan_root(files_, layout_));
  TRY(settle_former_removals(root));
  count([&](DiskCounters& counters) { counters.foreign += root.foreign_names; });
  if (root.lock) ledger_.add_existing(os::physical_size(root.lock->size));
  TRY_ASSIGN(DirectoryScan scan,
             scan_own(files_, layout_, options_.fingerprint, options_.use_saved_index, options_.most_files));
  TRY(quarantine_.open());
  for (const std::string& directory : root.other_fingerprints) TRY(count_foreign(directory));
  set_all_aside(scan);
  adopt(std::move(scan));
  accept(std::move(living));
  if (members_.empty()) servers_.tidy();  // what those left who used it together
  look_at_notes();
  return {};
}

Status DiskStore::Impl::open_as_member() {
  ledger_.draw_on_lease();
  (void)join();  // else at a tick; until then nothing is written
  TRY_ASSIGN(DirectoryScan scan,
             scan_own(files_, layout_, options_.fingerprint, options_.use_saved_index, options_.most_files));
  adopt(std::move(scan));
  look_at_notes();
  return {};
}

// What a killed process unlinked and did not sync could come back after a power cut, beside what takes its room.
Status DiskStore::Impl::settle_former_removals(const RootScan& root) {
  TRY(files_.sync_directory(layout_.own));
  if (root.has_quarantine) TRY(files_.sync_directory(layout_.quarantine));
  for (const std::string& directory : root.other_fingerprints) TRY(files_.sync_directory(directory));
  return {};
}

// Another model's files: counted, removable, and its temporaries swept, because the lock is the whole root's. Not those
// of living servers.
Status DiskStore::Impl::count_foreign(const std::string& directory) {
  const auto listed = files_.list(directory);
  if (!listed) return listed.error().kind == ErrorKind::kIo ? Status(listed.error()) : Status{};
  for (const os::FileInfo& info : merge_foreign(directory, *listed)) sweep(directory, info);
  return {};
}

void DiskStore::Impl::sweep(const std::string& directory, const os::FileInfo& temporary) {
  const ByteCount bytes = os::physical_size(temporary.size);
  ledger_.add_existing(bytes);
  unserved_.discard(directory + "/" + temporary.name, bytes);
  count([](DiskCounters& counters) { ++counters.temporaries; });
}

// Of what nobody serves: unfinished and damaged files.
void DiskStore::Impl::set_all_aside(const DirectoryScan& scan) {
  for (const os::FileInfo& info : scan.temporaries) {
    if (!is_busy(info)) sweep(layout_.own, info);
  }
  unserved_.update(layout_.own, busy_of(scan.temporaries), [](const os::FileInfo&) { return true; });
  if (scan.index_damaged) {
    const ByteCount bytes = os::physical_size(scan.index->size);
    ledger_.add_existing(bytes);
    unserved_.discard(layout_.index, bytes);
  }
  for (const os::FileInfo& info : scan.damaged) {
    const ByteCount bytes = os::physical_size(info.size);
    ledger_.add_existing(bytes);
    quarantine_.take(path_of(info.name), bytes);
  }
  count([&](DiskCounters& counters) { counters.damaged += scan.damaged.size() + (scan.index_damaged ? 1 : 0); });
}

void DiskStore::Impl::adopt(DirectoryScan scan) {
  if (scan.index && !scan.index_damaged) {
    index_bytes_ = os::physical_size(scan.index->size);
    ledger_.add_existing(index_bytes_);
  }
  if (!keeper_) std::ranges::move(scan.damaged, std::back_inserter(scan.unreadable));
  for (const os::FileInfo& info : scan.unreadable) {
    const ByteCount bytes = os::physical_size(info.size);
    ledger_.add_existing(bytes);
    unserved_.add_removable(path_of(info.name), bytes, info.modified_ns);
  }
  {
    const MutexLock lock(mutex_);
    entries_.reserve(entries_.size() + scan.segments.size());
    recovered_.reserve(recovered_.size() + scan.segments.size());
  }
  for (FoundSegment& found : scan.segments) adopt_segment(std::move(found));
  const MutexLock lock(mutex_);
  std::ranges::sort(recovered_, {}, [](const StoredSegment& segment) { return segment.header.name.begin; });
  counters_.headers_read += scan.headers_read;
  counters_.foreign += scan.foreign_names;
  index_is_current_ = scan.index && !scan.index_damaged && scan.headers_read == 0;
}

void DiskStore::Impl::adopt_segment(FoundSegment found) {
  const MutexLock lock(mutex_);
  Entry entry{.name = found.header.name,
              .header = found.encoded.empty() ? format::encode_header(found.header) : std::move(found.encoded),
              .size_bytes = found.info.size.value(),
              .modified_ns = found.info.modified_ns,
              .generation = next_generation_++};
  ledger_.add_existing(entry.physical());
  recovered_.push_back({std::move(found.header), entry.physical(), found.info.modified_ns});
  entries_.emplace(std::move(found.info.name), std::move(entry));
}

}  // namespace kvkeep::store
