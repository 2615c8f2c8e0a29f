#include "store/directory_scan.h"

#include <memory>
#include <unordered_map>

#include "format/notes.h"
#include "store/removal_order.h"
#include "store/segment_io.h"

namespace kvkeep::store {
namespace {

// Entries by name, and the bytes in which they lie.
struct LoadedIndex {
  std::unique_ptr<std::byte[]> bytes;
  std::unordered_map<std::string, format::IndexEntry> entries;
};

Result<LoadedIndex> load_index(os::FileSystem& files, const Layout& layout, ByteCount size) {
  if (size.value() > format::kMaxIndexBytes) return damaged("saved index: too large");
  TRY_ASSIGN(const std::unique_ptr<os::File> file, files.open(layout.index));
  LoadedIndex index{.bytes = std::make_unique_for_overwrite<std::byte[]>(size.value()), .entries = {}};
  const MutableByteSpan bytes(index.bytes.get(), size.value());
  TRY_ASSIGN(const std::size_t count, file->read_at(0, bytes));
  TRY_ASSIGN(auto entries, format::decode_index(bytes.first(count)));
  index.entries.reserve(entries.size());
  for (format::IndexEntry& entry : entries) {
    std::string name = std::move(entry.name);
    index.entries.emplace(std::move(name), std::move(entry));
  }
  return index;
}

// The entry, if it describes exactly this file.
format::IndexEntry* find_match(LoadedIndex& index, const os::FileInfo& info, const FingerprintHash& fingerprint) {
  const auto found = index.entries.find(info.name);
  if (found == index.entries.end()) return nullptr;
  format::IndexEntry& entry = found->second;
  const bool same = entry.size_bytes == info.size.value() && entry.modified_ns == info.modified_ns;
  return same && entry.header.fingerprint == fingerprint ? &entry : nullptr;
}

void add_segment(DirectoryScan& scan, os::FileSystem& files, const Layout& layout, const FingerprintHash& fingerprint,
                 os::FileInfo info, LoadedIndex& index) {
  if (format::IndexEntry* entry = find_match(index, info, fingerprint)) {
    scan.segments.push_back(
        {std::move(info), std::move(entry->header), {entry->encoded.begin(), entry->encoded.end()}});
    return;
  }
  ++scan.headers_read;
  auto header = read_header(files, layout.own, info, fingerprint);
  if (header) {
    scan.segments.push_back({std::move(info), std::move(*header), {}});
  } else if (header.error().kind == ErrorKind::kDamaged) {
    scan.damaged.push_back(std::move(info));
  } else {
    scan.unreadable.push_back(std::move(info));
  }
}

// Sorts names; segments wait until the index was read.
std::vector<os::FileInfo> sort_names(DirectoryScan& scan, std::vector<os::FileInfo> listed) {
  std::vector<os::FileInfo> segments;
  for (os::FileInfo& info : listed) {
    if (!info.is_regular) {
      ++scan.foreign_names;
    } else if (is_segment_name(info.name)) {
      segments.push_back(std::move(info));
    } else if (is_temporary_name(info.name)) {
      scan.temporaries.push_back(std::move(info));
    } else if (info.name == kIndexName) {
      scan.index = std::move(info);
    } else if (!is_note_name(info.name)) {
      ++scan.foreign_names;
    }
  }
  return segments;
}

// Headers that are read for each file that may be served.
constexpr std::size_t kLookedShare = 2;

// If there are more files than may be served, leaves out those that would leave first, the ends of the prefixes used
// longest ago, so that nothing is served without what it continues.
void leave_out(DirectoryScan& scan, std::size_t most_files) {
  if (scan.segments.size() <= most_files) return;
  std::vector<UnservedFile> places;
  places.reserve(scan.segments.size());
  for (const FoundSegment& found : scan.segments)
    places.push_back({found.info.name, {}, found.info.modified_ns, place_of(found.header)});
  const std::vector<std::size_t> order = removal_order(places);
  std::vector<FoundSegment> served;
  served.reserve(most_files);
  for (std::size_t i = 0; i < order.size(); ++i) {
    FoundSegment& found = scan.segments[order[i]];
    if (i < order.size() - most_files) {
      scan.unreadable.push_back(std::move(found.info));
    } else {
      served.push_back(std::move(found));
    }
  }
  scan.segments = std::move(served);
}

}  // namespace

Result<DirectoryScan> scan_own(os::FileSystem& files, const Layout& layout, const FingerprintHash& fingerprint,
                               bool use_saved_index, std::size_t most_files) {
  DirectoryScan scan;
  TRY_ASSIGN(auto listed, files.list(layout.own));
  std::vector<os::FileInfo> segments = sort_names(scan, std::move(listed));
  LoadedIndex index;
  if (scan.index && use_saved_index) {
    auto loaded = load_index(files, layout, scan.index->size);
    scan.index_damaged = !loaded && loaded.error().kind == ErrorKind::kDamaged;
    if (loaded) index = std::move(*loaded);
  }
  scan.segments.reserve(segments.size());
  for (os::FileInfo& info : segments) {
    if (scan.segments.size() < kLookedShare * most_files) {
      add_segment(scan, files, layout, fingerprint, std::move(info), index);
    } else {
      scan.unreadable.push_back(std::move(info));
    }
  }
  leave_out(scan, most_files);
  return scan;
}

namespace {

// A name that file systems have at their root: a cache may have a file system for itself.
constexpr std::string_view kRecoveredName = "lost+found";

// A lock of users, or advice in the root, whole or as a process that died left it.
bool is_root_note(std::string_view name) {
  if (name.ends_with(kUsersSuffix)) return is_fingerprint_name(name.substr(0, name.size() - kUsersSuffix.size()));
  if (name.ends_with(kTemporarySuffix)) name.remove_suffix(kTemporarySuffix.size());
  return name == kWritesName || name == kModelHashesName || name == kClassTrialsName;
}

}  // namespace

Result<RootScan> scan_root(os::FileSystem& files, const Layout& layout) {
  TRY_ASSIGN(const auto listed, files.list(layout.root));
  RootScan scan;
  for (const os::FileInfo& info : listed) {
    const std::string path = layout.root + "/" + info.name;
    if (path == layout.own) {
      if (!info.is_directory) return invalid("cache directory " + path + ": something else has that name");
    } else if (info.is_regular && path == layout.lock) {
      scan.lock = info;
    } else if (info.is_directory && is_fingerprint_name(info.name)) {
      scan.other_fingerprints.push_back(path);
    } else if (info.is_directory && path == layout.quarantine) {
      scan.has_quarantine = true;
    } else if (!(info.is_directory && (path == layout.servers || info.name == kRecoveredName)) &&
               !(info.is_regular && is_root_note(info.name))) {
      ++scan.foreign_names;
    }
  }
  return scan;
}

}  // namespace kvkeep::store
