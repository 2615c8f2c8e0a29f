#include "store/directory_scan.h"

#include <unordered_map>

#include "format/saved_index.h"
#include "store/mutations.h"
#include "store/segment_io.h"

namespace kvkeep::store {
namespace {

using IndexMap = std::unordered_map<std::string, format::IndexEntry>;

Result<IndexMap> load_index(os::FileSystem& files, const Layout& layout, ByteCount size) {
  if (size.value() > format::kMaxIndexBytes) return damaged("saved index: too large");
  TRY_ASSIGN(const std::unique_ptr<os::File> file, files.open(layout.index));
  std::vector<std::byte> bytes(size.value());
  TRY_ASSIGN(const std::size_t count, file->read_at(0, bytes));
  TRY_ASSIGN(auto entries, format::decode_index(ByteSpan(bytes).first(count)));
  IndexMap by_name;
  by_name.reserve(entries.size());
  for (format::IndexEntry& entry : entries) {
    std::string name = entry.name;
    by_name.emplace(std::move(name), std::move(entry));
  }
  return by_name;
}

// The entry's header, moved out, if the entry is about exactly this file.
std::optional<format::SegmentHeader> take_match(IndexMap& index, const os::FileInfo& info,
                                                const FingerprintHash& fingerprint) {
  const auto found = index.find(info.name);
  if (found == index.end()) return std::nullopt;
  const format::IndexEntry& entry = found->second;
  const bool same = entry.size_bytes == info.size.value() && entry.modified_ns == info.modified_ns;
  if (!same || entry.header.fingerprint != fingerprint) return std::nullopt;
  return std::move(found->second.header);
}

void add_segment(DirectoryScan& scan, os::FileSystem& files, const Layout& layout, const FingerprintHash& fingerprint,
                 os::FileInfo info, IndexMap& index) {
  if (scan.segments.size() >= kMaxServedFiles) {
    scan.unreadable.push_back(std::move(info));
    return;
  }
  if (auto header = take_match(index, info, fingerprint)) {
    scan.segments.push_back({std::move(info), std::move(*header)});
    return;
  }
  ++scan.headers_read;
  auto header = read_header(files, layout.own, info, fingerprint);
  if (header) {
    scan.segments.push_back({std::move(info), std::move(*header)});
  } else if (header.error().kind == ErrorKind::kDamaged) {
    scan.damaged.push_back(std::move(info));
  } else {
    scan.unreadable.push_back(std::move(info));
  }
}

// Sorts names; segments wait until the index is known.
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

// The mistake that the fault loop must catch: what the index lists is there, and nothing else is.
void believe_index(DirectoryScan& scan, IndexMap& index) {
  for (auto& [name, entry] : index) {
    os::FileInfo info{.name = name, .size = ByteCount{entry.size_bytes}, .modified_ns = entry.modified_ns};
    scan.segments.push_back({std::move(info), std::move(entry.header)});
  }
}

}  // namespace

Result<DirectoryScan> scan_own(os::FileSystem& files, const Layout& layout, const FingerprintHash& fingerprint,
                               bool use_saved_index) {
  DirectoryScan scan;
  TRY_ASSIGN(auto listed, files.list(layout.own));
  const std::vector<os::FileInfo> segments = sort_names(scan, std::move(listed));
  IndexMap index;
  if (scan.index && use_saved_index) {
    auto loaded = load_index(files, layout, scan.index->size);
    scan.index_damaged = !loaded && loaded.error().kind == ErrorKind::kDamaged;
    if (loaded) index = std::move(*loaded);
  }
  if (mutations().trust_saved_index && !index.empty()) {
    believe_index(scan, index);
    return scan;
  }
  scan.segments.reserve(segments.size());
  for (const os::FileInfo& info : segments) add_segment(scan, files, layout, fingerprint, info, index);
  return scan;
}

namespace {

// Whole, or as a process that died left it.
bool is_writes(const std::string& path, const Layout& layout) {
  return path == layout.writes || path == layout.writes + std::string(kTemporarySuffix);
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
    } else if (!(info.is_directory && path == layout.servers) && !(info.is_regular && is_writes(path, layout))) {
      ++scan.foreign_names;
    }
  }
  return scan;
}

}  // namespace kvkeep::store
