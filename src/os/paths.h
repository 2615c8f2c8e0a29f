#pragma once

// Paths that users name (where links lead, where the user's cache home is, who may change a path), and directories for
// the length of a run.

#include <cstdint>
#include <string>

#include "base/result.h"

namespace kvkeep::os {

// Returns the user's cache home: $XDG_CACHE_HOME if absolute, else $HOME/.cache. kUnsupported if neither is set: the
// user must name a directory.
Result<std::string> user_cache_home();

// Returns the absolute path with all links resolved: users may name links (download caches are made of them), while
// FileSystem::open follows none. kNotFound if nothing is there.
Result<std::string> resolve_links(const std::string& path);

// Returns who may do what with a file or directory: the low twelve bits of its mode, such as 0700. Follows links.
Result<std::uint32_t> permissions(const std::string& path);

// Returns the number of the user who owns it. Follows links.
Result<std::uint32_t> owner(const std::string& path);

// Returns true if this process's user owns it. Root, too, must own it: root may read and write all files, but would
// believe what another user put there, and could replace that user's files. Follows links.
Result<bool> is_own(const std::string& path);

// As is_own(), or owned by root, who may do everything anyway: a place to write to.
Result<bool> is_trusted(const std::string& path);
bool is_trusted_owner(std::uint32_t owner, std::uint32_t self);

// Returns the contents of a file with a secret, at most `most_bytes` (else kInvalid). Asks of the opened file, which
// nobody can replace any more, whether it belongs to this process's user or root, and others may neither read nor write
// it: kInvalid, with what to do, if not. Follows links.
Result<std::string> read_private_file(const std::string& path, std::size_t most_bytes);

inline constexpr std::uint32_t kOthersMayRead = 0044;   // the group or everybody
inline constexpr std::uint32_t kOthersMayWrite = 0022;  // likewise
inline constexpr std::uint32_t kSticky = 01000;         // as for /tmp: a place that is shared on purpose

// A directory for the length of a run, removed with all its contents. Move-only. The destructor removes the directory;
// a killed process leaves it behind, a process that a SignalWatch (signals.h) unwinds does not.
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
