#pragma once

// In which order files that nobody here serves may leave: the oldest first, but nothing before what continues it. Pure.
//
// What a file continues is told by hashes where one file ends where the other begins. A file that branches off in the
// middle of another tells the position alone (its hash could be computed from all ids before it only), so that every
// file of its directory that spans this position waits for it. Nothing leaves before what hangs below it; but what only
// looks as if something could hang below it stays longer than its age says, and younger ends leave instead.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "format/segment_file.h"

namespace kvkeep::store {

// What a header tells of a file's place.
struct FilePlace {
  format::SegmentName name;
  Position base;  // of a whole state that is built on another: where that one ends; 0: on none
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
