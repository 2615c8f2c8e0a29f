#pragma once

// The order in which unserved files may leave: the oldest first, but nothing before what continues it. Pure.
//
// A file continues another if their hashes agree where one ends and the other begins. A file that branches off in the
// middle of another gives only the position (its hash could be computed only from all ids before it), so every file of
// its directory that spans this position waits for it. So nothing leaves before what hangs below it; but a file below
// which something only seems to hang stays longer than its age says, and younger ends leave instead.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "format/segment_file.h"

namespace kvkeep::store {

// A file's place, as its header gives it.
struct FilePlace {
  format::SegmentName name;
  Position base;  // of a whole state that is built on another: the end of that one; 0: on none
};
FilePlace place_of(const format::SegmentHeader& header);

struct UnservedFile {
  std::string path;
  std::string directory;
  std::int64_t modified_ns = 0;
  std::optional<FilePlace> place;  // nullopt: it cannot be read, nothing waits for it
};

// Indices of all `files`, each once; files of one time by path. O(n log n), and once more for each position inside a
// file where others branch off.
std::vector<std::size_t> removal_order(const std::vector<UnservedFile>& files);

}  // namespace kvkeep::store
