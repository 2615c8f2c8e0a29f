#pragma once

// A file that grows by whole lines while others rotate it: a log that people and programs read.

#include <string>
#include <string_view>

#include "base/result.h"
#include "os/descriptor.h"

namespace kvkeep::os {

// Not thread safe.
class AppendFile {
 public:
  // Makes the file with mode 0600; one that exists keeps its mode, and is appended to. Also a terminal, a pipe or
  // /dev/null. kInvalid: a directory, or a pipe that nobody reads.
  static Result<AppendFile> open(const std::string& path);

  // Appends all bytes or, of a regular file, none. If the file was renamed or removed meanwhile, a new one of the same
  // name is made first; after an error, the next call tries that too.
  Status append(std::string_view text);

 private:
  AppendFile(Descriptor descriptor, std::string path) : descriptor_(std::move(descriptor)), path_(std::move(path)) {}
  bool moved_away() const;

  Descriptor descriptor_;
  std::string path_;
};

}  // namespace kvkeep::os
