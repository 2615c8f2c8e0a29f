#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace kvkeep::os {

// The facts that the system keeps of a file. Writing to a file or replacing it changes its stamp, as finely as the
// file system keeps times. The change time is the system's own: programs that copy files cannot set it.
struct FileStamp {
  std::uint64_t inode = 0;
  std::uint64_t size_bytes = 0;
  std::int64_t modified_ns = 0;  // these two since the epoch
  std::int64_t changed_ns = 0;
  bool operator==(const FileStamp&) const = default;
};
// Follows links. kNotFound if nothing is there.
Result<FileStamp> stamp_of(const std::string& path);

// Returns the stamps of this program and of the libraries it has loaded whose names contain one of these, by path.
std::vector<FileStamp> stamps_of_program(const std::vector<std::string_view>& names);

}  // namespace kvkeep::os
