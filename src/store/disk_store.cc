#include "store/disk_store.h"

#include <utility>

#include "format/notes.h"
#include "store/inventory.h"
#include "store/publisher.h"
#include "store/segment_io.h"
#include "store/served_files.h"
#include "store/sharing.h"
#include "store/small_files.h"
#include "store/space_ledger.h"
#include "store/write_limits.h"

namespace kvkeep::store {

// ---- Opening ----

DiskStore::DiskStore(DiskOptions options, os::FileSystem& files, os::Clock& clock)
    : options_(std::move(options)),
      place_(new Place{make_layout(options_.directory, options_.fingerprint), files, clock}),
      ledger_(std::make_unique<SpaceLedger>(options_.budget)),
      counting_(std::make_unique<DiskCounting>()),
      served_(std::make_unique<ServedFiles>()),
      syncs_(std::make_unique<Syncs>(files, *ledger_, *counting_)),
      free_space_(std::make_unique<FreeSpace>(place_->layout.root, options_.reserve, files, clock)),
      write_budget_(std::make_unique<WriteBudget>(place_->layout.writes, options_.written_per_day, files, clock)),
      inventory_(std::make_unique<Inventory>(options_, *place_, *ledger_, *served_, *counting_)),
      publisher_(
          std::make_unique<Publisher>(*place_, *ledger_, *syncs_, *served_, *inventory_, *write_budget_, *counting_)),
      sharing_(
          std::make_unique<Sharing>(*place_, options_.fingerprint, *ledger_, *syncs_, *inventory_, *write_budget_)) {}

Result<std::unique_ptr<DiskStore>> DiskStore::open(DiskOptions options, os::FileSystem& files, os::Clock& clock) {
  std::unique_ptr<DiskStore> store(new DiskStore(std::move(options), files, clock));
  const MutexLock lock(store->write_mutex_);
  store->write_budget_->open();  // once: removing the directory does not undo what this process wrote
  const Status entered = store->enter();
  if (!entered && entered.error().kind != ErrorKind::kBusy) return entered.error();
  return store;
}

DiskStore::~DiskStore() {
  const MutexLock lock(write_mutex_);
  write_budget_->close();
}

bool DiskStore::still_admitted() const { return !options_.still_admitted || options_.still_admitted(); }
bool DiskStore::in_place() const { return sharing_->in_place() && still_admitted(); }

Status DiskStore::enter() {
  TRY(place_->files.make_directories(place_->layout.own));
  if (options_.admit) TRY(options_.admit());
  TRY(sharing_->enter());
  opened_ = entered_ = true;
  return {};
}

// Does what a process would do that died and was started again, except that it remembers what it served. Nothing is
// written before every file is counted.
Status DiskStore::reopen() {
  if (!entered_) return enter();
  TRY(place_->files.make_directories(place_->layout.own));
  opened_ = false;
  sharing_->leave();
  ledger_->begin_recount();
  const ServedFiles::Table before = inventory_->forget_all();
  const Status entered = enter();
  if (entered) {
    ledger_->end_recount();
    counting_->add(&DiskCounters::reopened);
  }
  for (format::SegmentName& name : served_->missing_from(before)) gone_.push_back(std::move(name));
  return entered;
}

// ---- What it holds, and its part in the directory ----

std::vector<StoredSegment> DiskStore::take_recovered() { return served_->take_found(); }
bool DiskStore::has_most_files() const { return served_->size() >= options_.most_files; }
DiskCounters DiskStore::counters() const { return counting_->counters(); }
ByteCount DiskStore::used() const { return ledger_->used(); }
ByteCount DiskStore::budget() const { return ledger_->budget(); }
ByteCount DiskStore::lease_left() const { return ledger_->lease_left(); }
std::string DiskStore::turns_path() const { return place_->path_of(std::string(kTurnsName)); }

// These read atomics, and never wait for a disk.
bool DiskStore::shared() const NO_THREAD_SAFETY_ANALYSIS { return sharing_->shared(); }
bool DiskStore::keeper() const NO_THREAD_SAFETY_ANALYSIS { return sharing_->keeper(); }
bool DiskStore::keeps_notes() const NO_THREAD_SAFETY_ANALYSIS { return sharing_->keeps_notes(); }
bool DiskStore::stopped() const NO_THREAD_SAFETY_ANALYSIS { return free_space_->stopped(); }
ByteCount DiskStore::foreign_bytes() const NO_THREAD_SAFETY_ANALYSIS { return inventory_->foreign_bytes(); }

// ---- Writing ----

Status DiskStore::put(const format::SegmentHeader& header, const std::vector<PartBytes>& parts) {
  if (header.fingerprint != options_.fingerprint) return invalid("segment of another fingerprint");
  const MutexLock lock(write_mutex_);
  if (!opened_ || !in_place()) TRY(reopen());
  if (served_->has_durable(header.name)) return {};
  inventory_->retry_leftovers();
  TRY_ASSIGN(const format::SegmentHeader complete, complete_header(header, parts));
  const Draft draft{.file_name = format::file_name(header.name),
                    .file = {.name = header.name,
                             .header = format::encode_header(complete),
                             .size_bytes = format::file_bytes(complete),
                             .modified_ns = place_->clock.wall_ns(),
                             .durable = true},
                    .parts = parts};
  Status written = write(draft);
  if (!written && !opened_ && reopen()) written = write(draft);
  counting_->add(written ? &DiskCounters::puts : &DiskCounters::put_failures);
  return written;
}

Status DiskStore::write(const Draft& draft) {
  const ByteCount physical = draft.file.physical();
  if (!free_space_->admits(physical)) return no_space("the file system has too little free space");
  TRY(reserve(physical));
  const bool over = inventory_->knows(draft.file_name) || sharing_->shared();
  const Status written =
      over ? publisher_->publish_over(draft, sharing_->id()) : publisher_->publish(draft, sharing_->id());
  if (written) free_space_->wrote(physical);
  if (!written && written.error().kind == ErrorKind::kNoSpace) free_space_->found_full(physical);
  if (!written && written.error().kind == ErrorKind::kNotFound) opened_ = false;
  return written;
}

// Room comes from the budget, then from unlinks that only need to become durable, then from the quarantine.
Status DiskStore::reserve(ByteCount bytes) {
  if (ledger_->reserve(bytes)) return {};
  if (bytes > ledger_->budget()) return no_space("the segment is larger than the disk budget (see --kv-disk-space-mb)");
  if (!sharing_->keeper()) return sharing_->draw(bytes);
  TRY(syncs_->removals());
  if (ledger_->reserve(bytes)) return {};
  if (inventory_->give_up_quarantine(bytes) > ByteCount{0}) {
    TRY(syncs_->removals());
    if (ledger_->reserve(bytes)) return {};
  }
  return no_space("the disk budget is used up (see --kv-disk-space-mb)");
}

void DiskStore::save_index() {
  if (!keeps_notes()) return;
  const MutexLock lock(write_mutex_);
  if (!opened_ || !in_place()) return;
  const auto bytes = served_->changed_index();
  if (bytes && !write_index(*bytes)) served_->set_index_current(false);
}

Status DiskStore::write_index(ByteSpan bytes) {
  const ByteCount physical = os::physical_size(ByteCount{bytes.size()});
  // The index uses only room that segments leave, of the budget and of the day's bytes.
  const bool has_room = (!write_budget_->limited() || write_budget_->allowance().left >= physical) &&
                        bytes.size() <= format::kMaxIndexBytes && free_space_->admits(physical) &&
                        ledger_->reserve(physical);
  if (!has_room) return no_space("the saved index");
  const Status written = publisher_->replace_index(bytes, sharing_->id());
  if (!written && written.error().kind == ErrorKind::kNotFound) opened_ = false;
  return written;
}

Status DiskStore::remove(const format::SegmentName& name) {
  const std::string file_name = format::file_name(name);
  const MutexLock lock(write_mutex_);
  const auto generation = served_->generation_of(file_name);
  if (!generation) return {};
  const Status removed = place_->files.remove(place_->path_of(file_name));
  if (!removed && removed.error().kind != ErrorKind::kNotFound) {
    counting_->add(&DiskCounters::remove_failures);
    return removed;
  }
  inventory_->forget(file_name, *generation);
  counting_->add(&DiskCounters::removed);
  sharing_->note_removal();
  return {};
}

ByteCount DiskStore::remove_foreign(ByteCount needed, Kept kept) {
  if (!keeper()) return {};
  const MutexLock lock(write_mutex_);
  const ByteCount freed = inventory_->remove_oldest(needed, kept);
  if (freed > ByteCount{}) sharing_->note_removal();
  return freed;
}

ByteCount DiskStore::expire_foreign(std::int64_t time_ns) {
  if (!keeper()) return {};
  const MutexLock lock(write_mutex_);
  const ByteCount freed = inventory_->remove_used_before(time_ns);
  if (freed > ByteCount{}) sharing_->note_removal();
  return freed;
}

void DiskStore::touch(const format::SegmentName& name, std::int64_t time_ns) {
  const std::string file_name = format::file_name(name);
  const auto generation = served_->generation_of(file_name);
  if (!generation || !place_->files.set_modified(place_->path_of(file_name), time_ns)) return;
  served_->set_modified(file_name, *generation, time_ns);
}

void DiskStore::disown(const format::SegmentName& name) {
  const std::string file_name = format::file_name(name);
  const MutexLock lock(write_mutex_);
  if (const auto generation = served_->generation_of(file_name)) inventory_->disown(file_name, *generation);
}

std::optional<WriteAllowance> DiskStore::writes() {
  const MutexLock lock(write_mutex_);
  return write_budget_->limited() ? std::optional(write_budget_->allowance()) : std::nullopt;
}

// ---- Reading ----

Status DiskStore::get(const format::SegmentHeader& expected, format::PartKind kind, MutableByteSpan out) {
  const auto place = format::find_part(expected, kind);
  if (!place || place->part.size_bytes != out.size()) return invalid("the buffer is not of the part's size");
  const std::string file_name = format::file_name(expected.name);
  const auto generation = served_->generation_of(file_name);
  if (!generation) return not_found("no such segment");
  counting_->add(&DiskCounters::gets);
  const Status read = read_part(place_->files, place_->path_of(file_name), expected, kind, out);
  if (read) return still_admitted() ? read : not_found("the directory may be of other model files now");
  switch (read.error().kind) {
    case ErrorKind::kNotFound:
    case ErrorKind::kUnsupported:
    case ErrorKind::kDamaged:
    case ErrorKind::kInvalid: return give_up(read.error(), file_name, *generation);
    default:
      counting_->add(&DiskCounters::get_failures);
      served_->suspect(file_name, *generation);
      return read;
  }
}

// Takes a file out of service whose content is not the expected one. Returns the reader's error.
Status DiskStore::give_up(const Error& error, const std::string& file_name, std::uint64_t generation) {
  const MutexLock lock(write_mutex_);
  if (error.kind == ErrorKind::kNotFound) {
    inventory_->forget(file_name, generation);
    return error;
  }
  if (error.kind == ErrorKind::kUnsupported) {  // a later program can read it
    inventory_->disown(file_name, generation);
    return not_found(error.message);
  }
  if (sharing_->shared() && inventory_->adopt_anew(file_name, generation)) {
    return not_found("another server wrote it anew");
  }
  inventory_->set_aside(file_name, generation);
  return damaged(error.message);
}

// ---- Several servers ----

DiskTick DiskStore::tick(Look look) {
  DiskTick tick;
  const MutexLock lock(write_mutex_);
  const bool waited = !entered_;
  if ((!opened_ || !in_place()) && !reopen()) return tick;
  tick.more_room = waited;
  tick.gone = std::exchange(gone_, {});
  sharing_->tick(look, tick);
  tick.found = served_->take_found();
  return tick;
}

ByteCount DiskStore::grant() {
  const MutexLock lock(write_mutex_);
  return sharing_->grant();
}

Status DiskStore::distrust(std::string_view why) {
  const MutexLock lock(write_mutex_);
  return write_distrust(place_->files, place_->layout.own, why);
}

Result<std::optional<std::string>> DiskStore::distrusted() const {
  return find_distrust(place_->files, place_->layout.own);
}

}  // namespace kvkeep::store
