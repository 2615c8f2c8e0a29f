#pragma once

// Reads a cache directory and sorts its files by what the store must do with them. Reading only: the store acts.

#include <optional>
#include <string>
#include <vector>

#include "format/segment_file.h"
#include "os/file_system.h"
#include "store/disk_types.h"
#include "store/layout.h"

namespace kvkeep::store {

struct FoundSegment {
  os::FileInfo info;
  format::SegmentHeader header;
  std::vector<std::byte> encoded;  // the header as the saved index has it; empty: it was read from the file
};

struct DirectoryScan {
  std::vector<FoundSegment> segments;
  std::vector<os::FileInfo> damaged;     // named as segments, but not whole ones of this fingerprint
  std::vector<os::FileInfo> unreadable;  // the device refused, a later version, or beyond the limit of served files
  std::vector<os::FileInfo> temporaries;
  std::optional<os::FileInfo> index;
  bool index_damaged = false;
  std::size_t headers_read = 0;
  std::size_t foreign_names = 0;
};

// Scans the directory of our own fingerprint. A file whose size and time match its entry in the saved index is not
// opened. If there are more than `most_files` segments, the ends of the prefixes that were used longest ago are left
// out, as if they were unreadable; at most twice as many headers are read.
Result<DirectoryScan> scan_own(os::FileSystem& files, const Layout& layout, const FingerprintHash& fingerprint,
                               bool use_saved_index, std::size_t most_files = kMaxServedFiles);

struct RootScan {
  std::optional<os::FileInfo> lock;
  std::vector<std::string> other_fingerprints;  // paths of directories
  bool has_quarantine = false;
  std::size_t foreign_names = 0;
};

// Fails with kInvalid if our directory's name is taken by a link or a file.
Result<RootScan> scan_root(os::FileSystem& files, const Layout& layout);

}  // namespace kvkeep::store
