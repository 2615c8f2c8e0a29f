#pragma once

// A file that grows by whole lines while other programs rotate it: a log for people and programs.

#include <string>
#include <string_view>

#include "base/result.h"
#include "os/descriptor.h"

namespace kvkeep::os {

// Not thread safe.
class AppendFile {
 public:
  // Makes the file with mode 0600; an existing file keeps its mode and is appended to. Also opens a terminal, a pipe or
  // /dev/null. kInvalid for a directory, or a pipe without a reader.
  static Result<AppendFile> open(const std::string& path);

  // Appends all bytes; on an error a regular file gets none. If the file was renamed or removed meanwhile, a new one of
  // the same name is made first; after an error the next call tries that, too.
  Status append(std::string_view text);
  // Makes a file of this name now if the file was renamed or removed, instead of at the next append().
  Status reopen();

 private:
  AppendFile(Descriptor descriptor, std::string path) : descriptor_(std::move(descriptor)), path_(std::move(path)) {}
  bool moved_away() const;

  Descriptor descriptor_;
  std::string path_;
};

}  // namespace kvkeep::os
