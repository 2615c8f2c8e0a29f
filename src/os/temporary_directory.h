#pragma once

// A directory for the length of a run, removed with all it holds.

#include <string>

#include "base/result.h"

namespace kvkeep::os {

// Move-only. The destructor removes; a process that is killed leaves it behind, one that a SignalWatch (signals.h)
// unwinds does not.
class TemporaryDirectory {
 public:
  // Mode 0700, in $TMPDIR or /tmp; its name begins with `prefix`. kIo: the system refused.
  // kAborted: after remove_all_temporary_directories().
  static Result<TemporaryDirectory> make(const std::string& prefix);
  TemporaryDirectory(TemporaryDirectory&& other) noexcept;
  TemporaryDirectory& operator=(TemporaryDirectory&& other) noexcept;
  ~TemporaryDirectory();
  // Absolute, without a slash at its end.
  const std::string& path() const { return path_; }

 private:
  explicit TemporaryDirectory(std::string path);
  void remove();
  std::string path_;  // empty: moved from
};

// For a program that is about to leave without unwinding: removes all that exist. Tries for a second where files are
// made meanwhile.
void remove_all_temporary_directories();

}  // namespace kvkeep::os
