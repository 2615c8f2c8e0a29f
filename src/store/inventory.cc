#include "store/inventory.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "store/segment_io.h"

namespace kvkeep::store {

Inventory::Inventory(const DiskOptions& options, const Place& place, SpaceLedger& ledger, ServedFiles& served,
                     DiskCounting& counting)
    : options_(options),
      place_(place),
      ledger_(ledger),
      served_(served),
      counting_(counting),
      unserved_(place.files, ledger),
      quarantine_(place.layout.quarantine, options.budget, place.files, place.clock, ledger, unserved_) {}

// ---- Opening ----

Status Inventory::open_root(const IsBusy& is_busy) {
  covers_root_ = true;
  TRY_ASSIGN(const RootScan root, scan_root(place_.files, place_.layout));
  TRY(settle_former_removals(root));
  counting_.add(&DiskCounters::foreign, root.foreign_names);
  if (root.lock) ledger_.add_existing(os::physical_size(root.lock->size));
  TRY_ASSIGN(DirectoryScan scan, scan_own(place_.files, place_.layout, options_.fingerprint, options_.use_saved_index,
                                          options_.most_files));
  TRY(quarantine_.open());
  for (const std::string& directory : root.other_fingerprints) TRY(count_foreign(directory, is_busy));
  set_all_aside(scan, is_busy);
  serve(std::move(scan));
  return {};
}

Status Inventory::open_own() {
  TRY_ASSIGN(DirectoryScan scan, scan_own(place_.files, place_.layout, options_.fingerprint, options_.use_saved_index,
                                          options_.most_files));
  std::ranges::move(scan.damaged, std::back_inserter(scan.unreadable));
  serve(std::move(scan));
  return {};
}

ServedFiles::Table Inventory::forget_all() {
  covers_root_ = false;
  unserved_.clear();
  index_bytes_ = ByteCount{};
  return served_.forget_all();
}

Result<Survey> Inventory::look_to_keep() {
  TRY(quarantine_.open());
  TRY_ASSIGN(const RootScan root, scan_root(place_.files, place_.layout));
  TRY(settle_former_removals(root));
  return survey();
}

void Inventory::recount(const Survey& found) {
  covers_root_ = true;
  ledger_.keep_budget();
  unserved_.recount();
  ledger_.add_existing(quarantine_.held_bytes());
  if (found.root.lock) ledger_.add_existing(os::physical_size(found.root.lock->size));
  ledger_.add_existing(index_bytes_);
  ledger_.add_existing(served_.physical_bytes());
}

Status Inventory::settle_former_removals(const RootScan& root) const {
  TRY(place_.files.sync_directory(place_.layout.own));
  if (root.has_quarantine) TRY(place_.files.sync_directory(place_.layout.quarantine));
  for (const std::string& directory : root.other_fingerprints) TRY(place_.files.sync_directory(directory));
  return {};
}

// Counts another model's files, which are removable, and sweeps its temporaries, because the lock is the whole root's.
Status Inventory::count_foreign(const std::string& directory, const IsBusy& is_busy) {
  const auto listed = place_.files.list(directory);
  if (!listed) return listed.error().kind == ErrorKind::kIo ? Status(listed.error()) : Status{};
  for (const os::FileInfo& info : merge_foreign(directory, *listed, is_busy)) sweep(directory, info);
  return {};
}

void Inventory::sweep(const std::string& directory, const os::FileInfo& temporary) {
  const ByteCount bytes = os::physical_size(temporary.size);
  ledger_.add_existing(bytes);
  unserved_.discard(directory + "/" + temporary.name, bytes);
  counting_.add(&DiskCounters::temporaries);
}

void Inventory::set_all_aside(const DirectoryScan& scan, const IsBusy& is_busy) {
  std::vector<os::FileInfo> busy;
  for (const os::FileInfo& info : scan.temporaries) {
    if (is_busy(info)) {
      busy.push_back(info);
    } else {
      sweep(place_.layout.own, info);
    }
  }
  unserved_.update(place_.layout.own, busy, [](const os::FileInfo&) { return true; });
  if (scan.index_damaged) {
    const ByteCount bytes = os::physical_size(scan.index->size);
    ledger_.add_existing(bytes);
    unserved_.discard(place_.layout.index, bytes);
  }
  for (const os::FileInfo& info : scan.damaged) {
    const ByteCount bytes = os::physical_size(info.size);
    ledger_.add_existing(bytes);
    quarantine_.take(path_of(info.name), bytes);
  }
  counting_.add(&DiskCounters::damaged, scan.damaged.size() + (scan.index_damaged ? 1 : 0));
}

namespace {

// Segments that no request can find would only take the place of others. Returns how many there were.
std::size_t leave_out_former_forms(DirectoryScan& scan) {
  const std::size_t before = scan.segments.size();
  std::erase_if(scan.segments, [&](const FoundSegment& found) {
    const bool is_former = has_former_adapters(found.header.tenant);
    if (is_former) scan.unreadable.push_back(found.info);
    return is_former;
  });
  return before - scan.segments.size();
}

}  // namespace

void Inventory::serve(DirectoryScan scan) {
  counting_.add(&DiskCounters::former_forms, leave_out_former_forms(scan));
  const bool index_is_whole = scan.index && !scan.index_damaged;
  if (index_is_whole) merge_index(os::physical_size(scan.index->size));
  for (const os::FileInfo& info : scan.unreadable) {
    const ByteCount bytes = os::physical_size(info.size);
    ledger_.add_existing(bytes);
    unserved_.add_removable(path_of(info.name), bytes, info.modified_ns);
  }
  adopt(std::move(scan.segments));
  counting_.add(&DiskCounters::headers_read, scan.headers_read);
  counting_.add(&DiskCounters::foreign, scan.foreign_names);
  served_.set_index_current(index_is_whole && scan.headers_read == 0);
}

void Inventory::adopt(std::vector<FoundSegment> found) {
  for (const FoundSegment& segment : found) ledger_.add_existing(os::physical_size(segment.info.size));
  served_.adopt(std::move(found));
}

// ---- Looking again ----

Result<Survey> Inventory::survey() const {
  Survey found;
  TRY_ASSIGN(found.root, scan_root(place_.files, place_.layout));
  TRY_ASSIGN(found.own, place_.files.list(place_.layout.own));
  for (const std::string& directory : found.root.other_fingerprints) {
    auto listed = place_.files.list(directory);
    if (listed) {
      found.foreign.emplace_back(directory, std::move(*listed));
    } else if (listed.error().kind == ErrorKind::kIo) {
      return listed.error();
    }
  }
  return found;
}

void Inventory::merge(const Survey& found, const IsBusy& is_busy, DiskTick& tick) {
  std::vector<std::pair<std::string, os::FileInfo>> unfinished;  // swept when everything is counted
  for (const auto& [directory, listed] : found.foreign) {
    for (os::FileInfo& info : merge_foreign(directory, listed, is_busy))
      unfinished.emplace_back(directory, std::move(info));
  }
  for (os::FileInfo& info : merge_own(found.own, is_busy, tick))
    unfinished.emplace_back(place_.layout.own, std::move(info));
  for (const auto& [directory, info] : unfinished) ledger_.add_existing(os::physical_size(info.size));
  for (const auto& [directory, info] : unfinished) {
    unserved_.discard(directory + "/" + info.name, os::physical_size(info.size));
  }
  counting_.add(&DiskCounters::temporaries, unfinished.size());
}

void Inventory::look_at_own(const std::vector<os::FileInfo>& listed, const IsBusy& is_busy, DiskTick& tick) {
  (void)merge_own(listed, is_busy, tick);
}

// Returns the unfinished files of dead processes.
std::vector<os::FileInfo> Inventory::merge_foreign(const std::string& directory,
                                                   const std::vector<os::FileInfo>& listed, const IsBusy& is_busy) {
  std::vector<os::FileInfo> counted;
  std::vector<os::FileInfo> unfinished;
  for (const os::FileInfo& info : listed) {
    if (!info.is_regular || unserved_.is_leftover(directory + "/" + info.name)) continue;
    if (is_temporary_name(info.name) && !is_busy(info)) {
      unfinished.push_back(info);
    } else if (is_temporary_name(info.name) || is_segment_name(info.name) || info.name == kIndexName) {
      counted.push_back(info);
    }
  }
  unserved_.update(directory, counted, is_busy);
  return unfinished;
}

// Returns the unfinished files of dead processes, which a member leaves to the keeper.
std::vector<os::FileInfo> Inventory::merge_own(const std::vector<os::FileInfo>& listed, const IsBusy& is_busy,
                                               DiskTick& tick) {
  compare_with(listed, tick);
  tick.looked = true;
  std::vector<FoundSegment> found;
  std::vector<os::FileInfo> unserved;
  std::vector<os::FileInfo> unfinished;
  ByteCount index_bytes;
  for (const os::FileInfo& info : listed) {
    if (!info.is_regular || unserved_.is_leftover(path_of(info.name))) continue;
    if (is_segment_name(info.name)) {
      if (served_.generation_of(info.name)) continue;
      if (!unserved_.knows(path_of(info.name))) merge_segment(info, found);
      if (unserved_.knows(path_of(info.name))) unserved.push_back(info);
    } else if (is_temporary_name(info.name)) {
      (is_busy(info) ? unserved : unfinished).push_back(info);
    } else if (info.name == kIndexName) {
      index_bytes = os::physical_size(info.size);
    }
  }
  served_.adopt(std::move(found));
  merge_index(index_bytes);
  unserved_.update(place_.layout.own, unserved, is_busy);
  return unfinished;
}

void Inventory::compare_with(const std::vector<os::FileInfo>& listed, DiskTick& tick) {
  ServedFiles::Changes changes = served_.compare_with(listed);
  for (const ServedFile& file : changes.gone) {
    ledger_.release(place_.layout.own, file.physical());
    tick.gone.push_back(file.name);
  }
  std::ranges::move(changes.used, std::back_inserter(tick.used));
}

// Another server of this fingerprint may have saved the index, and one of another may have removed it: 0 bytes.
void Inventory::merge_index(ByteCount bytes) {
  if (bytes == index_bytes_) return;
  ledger_.add_existing(bytes);
  if (index_bytes_ > ByteCount{}) ledger_.release(place_.layout.own, index_bytes_);
  index_bytes_ = bytes;
}

void Inventory::merge_segment(const os::FileInfo& info, std::vector<FoundSegment>& found) {
  const ByteCount bytes = os::physical_size(info.size);
  auto header = read_header(place_.files, place_.layout.own, info, options_.fingerprint);
  ledger_.add_existing(bytes);
  const bool is_asked_for = header && !has_former_adapters(header->tenant);
  if (is_asked_for && served_.size() + found.size() < options_.most_files) {
    found.push_back({info, std::move(*header), {}});
  } else if (!header && header.error().kind == ErrorKind::kNotFound) {
    ledger_.release(place_.layout.own, bytes);  // a power cut may bring it back
  } else if (!header && header.error().kind == ErrorKind::kDamaged && covers_root_) {
    counting_.add(&DiskCounters::damaged);
    quarantine_.take(path_of(info.name), bytes);
  } else {
    unserved_.add_removable(path_of(info.name), bytes, info.modified_ns);
  }
}

// ---- Files that are being written ----

bool Inventory::knows(const std::string& file_name) const {
  return served_.generation_of(file_name).has_value() || unserved_.knows(path_of(file_name));
}

void Inventory::replaced(const std::string& file_name) {
  ledger_.note_unsynced(place_.layout.own);
  unserved_.replaced(path_of(file_name));
  if (const auto generation = served_.generation_of(file_name)) forget(file_name, *generation);
}

void Inventory::index_replaced(ByteCount bytes) {
  unserved_.replaced(place_.layout.index);
  ledger_.release(place_.layout.own, std::exchange(index_bytes_, bytes));
}

// ---- Files that leave service ----

void Inventory::forget(const std::string& file_name, std::uint64_t generation) {
  if (const auto file = served_.take(file_name, generation)) ledger_.release(place_.layout.own, file->physical());
}

void Inventory::disown(const std::string& file_name, std::uint64_t generation) {
  const auto file = served_.take(file_name, generation);
  if (file) unserved_.add_removable(path_of(file_name), file->physical(), file->modified_ns);
}

void Inventory::set_aside(const std::string& file_name, std::uint64_t generation) {
  if (served_.generation_of(file_name) != generation) return;
  counting_.add(&DiskCounters::damaged);
  if (!covers_root_) return disown(file_name, generation);
  if (const auto file = served_.take(file_name, generation)) quarantine_.take(path_of(file_name), file->physical());
}

bool Inventory::adopt_anew(const std::string& file_name, std::uint64_t generation) {
  const auto file = place_.files.open(path_of(file_name));
  if (!file) return false;
  const auto size = (*file)->size();
  if (!size) return false;
  os::FileInfo info{.name = file_name, .size = *size, .modified_ns = place_.clock.wall_ns()};
  auto header = read_header(place_.files, place_.layout.own, info, options_.fingerprint);
  if (!header) return false;
  const auto known = served_.find(file_name);
  if (!known || known->generation != generation) return true;
  if (known->header == format::encode_header(*header)) return false;
  forget(file_name, generation);
  std::vector<FoundSegment> found;
  found.push_back({std::move(info), std::move(*header), {}});
  adopt(std::move(found));
  return true;
}

// ---- Room ----

ByteCount Inventory::remove_oldest(ByteCount needed, Kept kept) {
  return unserved_.remove_oldest(needed, place_.clock.wall_ns(), kept);
}

ByteCount Inventory::remove_used_before(std::int64_t time_ns) {
  return unserved_.remove_used_before(time_ns, place_.clock.wall_ns());
}

}  // namespace kvkeep::store
