#include "store/disk_store.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <utility>

#include "format/saved_index.h"
#include "store/disk_store_impl.h"
#include "store/mutations.h"
#include "store/segment_io.h"

namespace kvkeep::store {
// ---- Writing ----

template <typename Synced>
Status DiskStore::Impl::counted_sync(Synced synced) {
  Status status = synced();
  if (!status) count([](DiskCounters& counters) { ++counters.sync_failures; });
  return status;
}

Status DiskStore::Impl::put(const format::SegmentHeader& header, const std::vector<PartBytes>& parts) {
  if (header.fingerprint != options_.fingerprint) return invalid("segment of another fingerprint");
  const MutexLock lock(write_mutex_);
  if (!opened_ || !in_place()) TRY(reopen());
  if (stored(header.name)) return {};
  unserved_.retry_leftovers();
  TRY_ASSIGN(const format::SegmentHeader complete, complete_header(header, parts));
  const Draft draft{.file_name = file_name_of(header.name),
                    .entry = {.name = header.name,
                              .header = format::encode_header(complete),
                              .size_bytes = format::file_bytes(complete),
                              .modified_ns = clock_.wall_ns(),
                              .durable = true},
                    .parts = parts};
  Status written = write(draft);
  if (!written && !opened_ && reopen()) written = write(draft);
  if (written) serve(draft.file_name, draft.entry);
  count([&](DiskCounters& counters) { ++(written ? counters.puts : counters.put_failures); });
  return written;
}

Status DiskStore::Impl::write(const Draft& draft) {
  if (!free_space_.admits(draft.entry.physical())) return no_space("the file system has too little free space");
  if (!mutations().count_after_write) TRY(reserve(draft.entry.physical()));
  const bool occupied = generation_of(draft.file_name).has_value() || unserved_.knows(path_of(draft.file_name));
  Status written = occupied || shared() ? publish_over(draft) : publish(draft);
  if (written) free_space_.wrote(draft.entry.physical());
  if (!written && written.error().kind == ErrorKind::kNoSpace) free_space_.found_full(draft.entry.physical());
  return written;
}

std::optional<WriteBudget::Allowance> DiskStore::Impl::writes() {
  const MutexLock lock(write_mutex_);
  return write_budget_.limited() ? std::optional(write_budget_.allowance()) : std::nullopt;
}

void DiskStore::Impl::serve(const std::string& file_name, Entry entry) {
  const MutexLock lock(mutex_);
  entry.generation = next_generation_++;
  entries_[file_name] = std::move(entry);
  index_is_current_ = false;
}

bool DiskStore::Impl::stored(const format::SegmentName& name) const {
  const MutexLock lock(mutex_);
  const auto found = entries_.find(file_name_of(name));
  if (found == entries_.end() || found->second.name != name) return false;
  return !found->second.suspect && (found->second.durable || mutations().trust_recovered_durability);
}

// Room comes from the budget, then from unlinks that only need to become durable, then from the quarantine.
Status DiskStore::Impl::reserve(ByteCount bytes) {
  if (ledger_.reserve(bytes)) {
    if (mutations().publish_before_write && !keeper_) publish_used();
    return {};
  }
  if (bytes > ledger_.budget()) return no_space("the segment is larger than the disk budget (see --kv-disk-space-mb)");
  if (!keeper_) return draw(bytes);
  TRY(settle_removals());
  if (ledger_.reserve(bytes)) return {};
  if (quarantine_.give_up(bytes) > ByteCount{0}) {
    TRY(settle_removals());
    if (ledger_.reserve(bytes)) return {};
  }
  return no_space("the disk budget is used up (see --kv-disk-space-mb)");
}

Status DiskStore::Impl::settle_removals() {
  for (const std::string& directory : ledger_.unsynced()) {
    TRY(counted_sync([&] { return files_.sync_directory(directory); }));
    ledger_.directory_synced(directory);
  }
  return {};
}

// Begins with who makes it: nobody sweeps what a living server is about to rename. A former process's leftovers never
// have a name of ours: the time differs.
std::string DiskStore::Impl::temporary_path() {
  char name[64];
  std::snprintf(name, sizeof name, "%s-%016" PRIx64 "-%" PRIu64, servers_.id().c_str(),
                static_cast<std::uint64_t>(clock_.wall_ns()), ++temporaries_made_);
  return path_of(name) + std::string(kTemporarySuffix);
}

Result<std::unique_ptr<os::File>> DiskStore::Impl::write_temporary(const std::string& path, ByteSpan header,
                                                                   const std::vector<PartBytes>& parts,
                                                                   ByteCount reserved) {
  auto file = files_.create(path);
  if (!file) {
    if (file.error().kind == ErrorKind::kNotFound) opened_ = false;  // the directory is gone
    ledger_.cancel(reserved);
    return file.error();
  }
  // Counted before: who is killed while it writes has written more than nobody knows of.
  ByteCount whole{header.size()};
  for (const PartBytes& part : parts) whole += ByteCount{part.bytes.size()};
  write_budget_.wrote(os::physical_size(whole));
  const Status written = write_segment(**file, header, parts);
  count([&](DiskCounters& counters) {
    for (const PartBytes& part : parts) counters.payload_bytes_written += part.bytes.size();
  });
  if (written) return file;
  ByteCount reached = reserved;  // what is there may be less than what was to come
  if (const auto size = (*file)->size()) reached = std::min(reserved, os::physical_size(*size));
  ledger_.cancel(reserved - reached);
  unserved_.discard(path, reached);
  return written.error();
}

Result<std::unique_ptr<os::File>> DiskStore::Impl::write_draft(const Draft& draft, const std::string& temporary) {
  const ByteCount physical = draft.entry.physical();
  const bool late = mutations().count_after_write;
  auto file = write_temporary(temporary, draft.entry.header, draft.parts, late ? ByteCount{0} : physical);
  if (!file) return file;
  if (late) ledger_.add_existing(physical);
  // So that the saved index knows the time; if it fails, the header is read again.
  (void)files_.set_modified(temporary, draft.entry.modified_ns).ok();
  return file;
}

// Under a new name: rename first, so that from then on the death of the process loses nothing; then the syncs. On
// failure nothing of the file is left, or it is a counted leftover.
Status DiskStore::Impl::publish(const Draft& draft) {
  const std::string temporary = temporary_path();
  const std::string path = path_of(draft.file_name);
  TRY_ASSIGN(const std::unique_ptr<os::File> file, write_draft(draft, temporary));
  const bool synced_first = mutations().sync_directory_first && sync_own_directory();
  if (const Status renamed = files_.rename(temporary, path); !renamed) {
    unserved_.discard(temporary, draft.entry.physical());
    return renamed;
  }
  ledger_.note_unsynced(layout_.own);
  Status durable = counted_sync([&] { return file->sync(); });
  if (durable && !synced_first) durable = sync_own_directory();
  // Final for this file: a later sync could report success for bytes that are lost.
  if (!durable) unserved_.discard(path, draft.entry.physical());
  return durable;
}

// Over a file that may be durable, or that another server may put there at any time: the new one must be so before it
// takes the name. On failure one of them is there.
Status DiskStore::Impl::publish_over(const Draft& draft) {
  const std::string temporary = temporary_path();
  if (mutations().remove_before_write && files_.remove(path_of(draft.file_name))) forget_replaced(draft.file_name);
  TRY_ASSIGN(const std::unique_ptr<os::File> file, write_draft(draft, temporary));
  Status ready = mutations().rename_over_before_sync ? Status{} : counted_sync([&] { return file->sync(); });
  if (ready) ready = files_.rename(temporary, path_of(draft.file_name));
  if (!ready) {
    unserved_.discard(temporary, draft.entry.physical());
    return ready;
  }
  forget_replaced(draft.file_name);
  const Status durable = sync_own_directory();
  if (durable) return {};
  Entry entry = draft.entry;
  entry.durable = false;
  serve(draft.file_name, std::move(entry));
  return durable;
}

Status DiskStore::Impl::sync_own_directory() {
  TRY(counted_sync([&] { return files_.sync_directory(layout_.own); }));
  ledger_.directory_synced(layout_.own);
  return {};
}

// A rename put a new file over whatever had this name.
void DiskStore::Impl::forget_replaced(const std::string& file_name) {
  ledger_.note_unsynced(layout_.own);
  unserved_.replaced(path_of(file_name));
  if (const auto generation = generation_of(file_name)) {
    if (const auto entry = take_entry(file_name, *generation)) ledger_.release(layout_.own, entry->physical());
  }
}

Status DiskStore::Impl::remove(const format::SegmentName& name) {
  const std::string file_name = file_name_of(name);
  const MutexLock lock(write_mutex_);
  const auto generation = generation_of(file_name);
  if (!generation) return {};
  const Status removed = files_.remove(path_of(file_name));
  if (!removed && removed.error().kind != ErrorKind::kNotFound) {
    count([](DiskCounters& counters) { ++counters.remove_failures; });
    return removed;
  }
  if (const auto entry = take_entry(file_name, *generation)) ledger_.release(layout_.own, entry->physical());
  count([](DiskCounters& counters) { ++counters.removed; });
  if (keeper_) ++removals_;
  return {};
}

ByteCount DiskStore::Impl::remove_foreign(ByteCount needed, Kept kept) {
  if (!keeper_) return {};
  const MutexLock lock(write_mutex_);
  const ByteCount freed = unserved_.remove_oldest(needed, clock_.wall_ns(), kept);
  if (freed > ByteCount{}) ++removals_;
  return freed;
}

ByteCount DiskStore::Impl::expire_foreign(std::int64_t time_ns) {
  if (!keeper_) return {};
  const MutexLock lock(write_mutex_);
  const ByteCount freed = unserved_.remove_used_before(time_ns, clock_.wall_ns());
  if (freed > ByteCount{}) ++removals_;
  return freed;
}

void DiskStore::Impl::touch(const format::SegmentName& name, std::int64_t time_ns) {
  const std::string file_name = file_name_of(name);
  const auto generation = generation_of(file_name);
  if (!generation || !files_.set_modified(path_of(file_name), time_ns)) return;
  const MutexLock lock(mutex_);
  const auto found = entries_.find(file_name);
  if (found == entries_.end() || found->second.generation != *generation) return;
  found->second.modified_ns = time_ns;
  index_is_current_ = false;
}

// ---- Reading ----

Status DiskStore::Impl::get(const format::SegmentHeader& expected, format::PartKind kind, MutableByteSpan out) {
  const auto place = format::find_part(expected, kind);
  if (!place || place->part.size_bytes != out.size()) return invalid("the buffer is not of the part's size");
  const std::string name = file_name_of(expected.name);
  const auto generation = generation_of(name);
  if (!generation) return not_found("no such segment");
  count([](DiskCounters& counters) { ++counters.gets; });
  const Status read = read_part(files_, path_of(name), expected, kind, out);
  if (read) return {};
  switch (read.error().kind) {
    case ErrorKind::kNotFound: forget_vanished(name, *generation); return read;
    case ErrorKind::kUnsupported: set_aside(name, *generation, true); return not_found(read.error().message);
    case ErrorKind::kDamaged:
    case ErrorKind::kInvalid:  // no regular file any more
      if (shared() && adopt_anew(name, *generation)) return not_found("another server wrote it anew");
      if (!mutations().keep_damaged) set_aside(name, *generation);
      return damaged(read.error().message);
    default:
      count([](DiskCounters& counters) { ++counters.get_failures; });
      suspect(name, *generation);
      return read;
  }
}

std::optional<std::uint64_t> DiskStore::Impl::generation_of(const std::string& file_name) const {
  const MutexLock lock(mutex_);
  const auto found = entries_.find(file_name);
  if (found == entries_.end()) return std::nullopt;
  return found->second.generation;
}

void DiskStore::Impl::suspect(const std::string& file_name, std::uint64_t generation) {
  const MutexLock lock(mutex_);
  const auto found = entries_.find(file_name);
  if (found != entries_.end() && found->second.generation == generation) found->second.suspect = true;
}

// Nothing if another file has the name by now.
std::optional<DiskStore::Impl::Entry> DiskStore::Impl::take_entry(const std::string& file_name,
                                                                  std::uint64_t generation) {
  const MutexLock lock(mutex_);
  const auto found = entries_.find(file_name);
  if (found == entries_.end() || found->second.generation != generation) return std::nullopt;
  Entry entry = std::move(found->second);
  entries_.erase(found);
  index_is_current_ = false;
  return entry;
}

// What is not the keeper's to move, or a later program can read, stays where it is.
void DiskStore::Impl::set_aside(const std::string& file_name, std::uint64_t generation, bool in_place) {
  const MutexLock lock(write_mutex_);
  const auto entry = take_entry(file_name, generation);
  if (!entry) return;
  if (in_place || !keeper_) {
    unserved_.add_removable(path_of(file_name), entry->physical(), entry->modified_ns);
  } else {
    quarantine_.take(path_of(file_name), entry->physical());
  }
  if (in_place) return;
  count([](DiskCounters& counters) { ++counters.damaged; });
}

// Another server wrote the name anew with other parts (a whole state that is built on an earlier one, or no more): that
// is no damage. It is told of as of any file that came. False: what lies there is what was known, or nothing whole.
bool DiskStore::Impl::adopt_anew(const std::string& file_name, std::uint64_t generation) {
  const MutexLock lock(write_mutex_);
  const auto file = files_.open(path_of(file_name));
  if (!file) return false;
  const auto size = (*file)->size();
  if (!size) return false;
  os::FileInfo info{.name = file_name, .size = *size, .modified_ns = clock_.wall_ns()};
  auto header = read_header(files_, layout_.own, info, options_.fingerprint);
  if (!header) return false;
  const std::vector<std::byte> there = format::encode_header(*header);
  {
    const MutexLock state_lock(mutex_);
    const auto known = entries_.find(file_name);
    if (known == entries_.end() || known->second.generation != generation) return true;
    if (known->second.header == there) return false;
  }
  if (const auto entry = take_entry(file_name, generation)) ledger_.release(layout_.own, entry->physical());
  adopt_segment({std::move(info), std::move(*header), {}});
  return true;
}

void DiskStore::Impl::forget_vanished(const std::string& file_name, std::uint64_t generation) {
  const MutexLock lock(write_mutex_);
  if (const auto entry = take_entry(file_name, generation)) ledger_.release(layout_.own, entry->physical());
}

// ---- Saved index, counters ----

std::vector<StoredSegment> DiskStore::Impl::take_recovered() {
  const MutexLock lock(mutex_);
  return std::exchange(recovered_, {});
}

DiskCounters DiskStore::Impl::counters() const {
  const MutexLock lock(mutex_);
  return counters_;
}

// ---- The public face ----

Result<std::unique_ptr<DiskStore>> DiskStore::open(DiskOptions options, os::FileSystem& files, os::Clock& clock) {
  auto impl = std::make_unique<Impl>(std::move(options), files, clock);
  TRY(impl->open());
  return std::unique_ptr<DiskStore>(new DiskStore(std::move(impl)));
}

DiskStore::DiskStore(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
DiskStore::~DiskStore() = default;
std::vector<StoredSegment> DiskStore::take_recovered() { return impl_->take_recovered(); }
Status DiskStore::put(const format::SegmentHeader& header, const std::vector<PartBytes>& parts) {
  return impl_->put(header, parts);
}
Status DiskStore::get(const format::SegmentHeader& expected, format::PartKind kind, MutableByteSpan out) {
  return impl_->get(expected, kind, out);
}
Status DiskStore::remove(const format::SegmentName& name) { return impl_->remove(name); }
void DiskStore::touch(const format::SegmentName& name, std::int64_t time_ns) { impl_->touch(name, time_ns); }
Status DiskStore::distrust(std::string_view why) { return impl_->distrust(why); }
Result<std::optional<std::string>> DiskStore::distrusted() const { return impl_->distrusted(); }
void DiskStore::save_index() { impl_->save_index(); }
bool DiskStore::stopped() const { return impl_->stopped(); }
std::optional<WriteBudget::Allowance> DiskStore::writes() { return impl_->writes(); }
ByteCount DiskStore::used() const { return impl_->used(); }
ByteCount DiskStore::budget() const { return impl_->budget(); }
bool DiskStore::shared() const { return impl_->shared(); }
bool DiskStore::keeper() const { return impl_->keeper(); }
bool DiskStore::keeps_notes() const { return impl_->keeps_notes(); }
DiskTick DiskStore::tick(Look look) { return impl_->tick(look); }
ByteCount DiskStore::grant() { return impl_->grant(); }
void DiskStore::disown(const format::SegmentName& name) { impl_->disown(name); }
std::string DiskStore::turns_path() const { return impl_->turns_path(); }
ByteCount DiskStore::foreign_bytes() const { return impl_->foreign_bytes(); }
ByteCount DiskStore::remove_foreign(ByteCount needed, Kept kept) { return impl_->remove_foreign(needed, kept); }
ByteCount DiskStore::expire_foreign(std::int64_t time_ns) { return impl_->expire_foreign(time_ns); }
bool DiskStore::has_most_files() const { return impl_->has_most_files(); }
DiskCounters DiskStore::counters() const { return impl_->counters(); }

}  // namespace kvkeep::store
