#pragma once

// A directory for the length of a run, removed with all its contents.

#include <string>

#include "base/result.h"

namespace kvkeep::os {

// Move-only. The destructor removes the directory; a killed process leaves it behind, a process that a SignalWatch
// (signals.h) unwinds does not.
class TemporaryDirectory {
 public:
  // Makes it with mode 0700, in $TMPDIR or /tmp; its name begins with `prefix`. kIo if the system refused, kAborted
  // after remove_all_temporary_directories().
  static Result<TemporaryDirectory> make(const std::string& prefix);
  TemporaryDirectory(TemporaryDirectory&& other) noexcept;
  TemporaryDirectory& operator=(TemporaryDirectory&& other) noexcept;
  ~TemporaryDirectory();
  // Returns an absolute path, without a slash at its end.
  const std::string& path() const { return path_; }

 private:
  explicit TemporaryDirectory(std::string path);
  void remove();
  std::string path_;  // empty: moved from
};

// For a program that is about to leave without unwinding: removes all that exist. Tries for a second if files are made
// meanwhile.
void remove_all_temporary_directories();

}  // namespace kvkeep::os
