#include "store/publisher.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <utility>

#include "store/segment_io.h"

namespace kvkeep::store {

Publisher::Publisher(const Place& place, SpaceLedger& ledger, Syncs& syncs, ServedFiles& served, Inventory& inventory,
                     WriteBudget& writes, DiskCounting& counting)
    : place_(place),
      ledger_(ledger),
      syncs_(syncs),
      served_(served),
      inventory_(inventory),
      writes_(writes),
      counting_(counting) {}

// A former process's leftovers never have the same name: the time differs.
std::string Publisher::temporary_path(const std::string& owner) {
  char suffix[64];
  std::snprintf(suffix, sizeof suffix, "-%016" PRIx64 "-%" PRIu64, static_cast<std::uint64_t>(place_.clock.wall_ns()),
                ++temporaries_made_);
  return place_.path_of(owner + suffix) + std::string(kTemporarySuffix);
}

Result<std::unique_ptr<os::File>> Publisher::write_temporary(const std::string& path, ByteSpan header,
                                                             const std::vector<PartBytes>& parts, ByteCount reserved) {
  auto file = place_.files.create(path);
  if (!file) {
    ledger_.cancel(reserved);
    return file.error();
  }
  std::uint64_t payload_bytes = 0;
  for (const PartBytes& part : parts) payload_bytes += part.bytes.size();
  // Counted before it is written: a process that is killed meanwhile must not have written more than the file says.
  writes_.wrote(os::physical_size(ByteCount{header.size() + payload_bytes}));
  const Status written = write_segment(**file, header, parts);
  counting_.add(&DiskCounters::payload_bytes_written, payload_bytes);
  if (written) return file;
  ByteCount reached = reserved;  // a failed write may have reached less
  if (const auto size = (*file)->size()) reached = std::min(reserved, os::physical_size(*size));
  ledger_.cancel(reserved - reached);
  inventory_.discard(path, reached);
  return written.error();
}

Result<std::unique_ptr<os::File>> Publisher::write_draft(const Draft& draft, const std::string& temporary) {
  const ByteCount physical = draft.file.physical();
  auto file = write_temporary(temporary, draft.file.header, draft.parts, physical);
  if (!file) return file;
  // The saved index needs the time; if that fails, the header is read again.
  (void)place_.files.set_modified(temporary, draft.file.modified_ns).ok();
  return file;
}

Status Publisher::publish(const Draft& draft, const std::string& owner) {
  const std::string temporary = temporary_path(owner);
  const std::string path = place_.path_of(draft.file_name);
  TRY_ASSIGN(const std::unique_ptr<os::File> file, write_draft(draft, temporary));
  if (const Status renamed = place_.files.rename(temporary, path); !renamed) {
    inventory_.discard(temporary, draft.file.physical());
    return renamed;
  }
  ledger_.note_unsynced(place_.layout.own);
  Status durable = syncs_.file(*file);
  if (durable) durable = syncs_.directory(place_.layout.own);
  if (durable) {
    served_.serve(draft.file_name, draft.file);
  } else {
    // A failed sync is final for this file: a later one could report success for bytes that are lost.
    inventory_.discard(path, draft.file.physical());
  }
  return durable;
}

Status Publisher::publish_over(const Draft& draft, const std::string& owner) {
  const std::string temporary = temporary_path(owner);
  const std::string path = place_.path_of(draft.file_name);
  TRY_ASSIGN(const std::unique_ptr<os::File> file, write_draft(draft, temporary));
  Status ready = syncs_.file(*file);
  if (ready) ready = place_.files.rename(temporary, path);
  if (!ready) {
    inventory_.discard(temporary, draft.file.physical());
    return ready;
  }
  inventory_.replaced(draft.file_name);
  const Status durable = syncs_.directory(place_.layout.own);
  ServedFile served = draft.file;
  served.durable = durable.ok();
  served_.serve(draft.file_name, std::move(served));
  return durable;
}

Status Publisher::replace_index(ByteSpan bytes, const std::string& owner) {
  const ByteCount physical = os::physical_size(ByteCount{bytes.size()});
  const std::string temporary = temporary_path(owner);
  TRY_ASSIGN(const std::unique_ptr<os::File> file, write_temporary(temporary, bytes, {}, physical));
  const Status renamed = place_.files.rename(temporary, place_.layout.index);
  if (renamed) {
    inventory_.index_replaced(physical);
  } else {
    inventory_.discard(temporary, physical);
  }
  return renamed;
}

}  // namespace kvkeep::store
