#pragma once

// The servers that share one cache directory, and how much each may write: files in <root>/servers/, all of them empty.
//
//   <id>.lock                        held by a member for its life: it lives as long as this cannot be locked
//   <id>.<used>-<wanted>-<sum>.used  renamed by its owner: bytes it ever reserved (of what is finished and
//                                    durable), and bytes it was last refused
//   <id>.<granted>-<sum>.grant       renamed by the keeper: bytes that member may ever reserve
//   <fingerprint>.notes              held by the one server that writes a fingerprint's saved index and sampled turns
//
// Numbers are 16 hex digits, so that one listing reads everything, one rename changes a number as a whole, and there
// are no contents that could be torn. Both totals only grow: granted - used is what the owner may still write, and it
// is safe to act on an old value of either. A sum of 8 digits over the rest exposes names that no server made. Each
// server has at most three files: too little to count against the budget. An id is the time when its owner opened.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "os/clock.h"
#include "os/file_system.h"

namespace kvkeep::store {

// A server's id and the files that a listing shows of it.
struct ListedServer {
  bool locks = false;  // has a lock file: a member, living or dead
  std::uint64_t used = 0;
  std::uint64_t wanted = 0;
  std::uint64_t granted = 0;
  std::vector<std::string> files;  // names
};
using ListedServers = std::map<std::string, ListedServer>;  // by id

// Most ids that are looked at; further names are ignored.
inline constexpr std::size_t kMostServers = 256;

// A missing directory, or a file in its place, has no servers. `own`: an id that is looked at in any case. kIo: the
// device refused.
Result<ListedServers> list_servers(os::FileSystem& files, const std::string& directory, const std::string& own = {});
// Members that live. Errors: as list_servers().
Result<std::size_t> count_living(os::FileSystem& files, const std::string& directory);

// Not thread safe.
class Servers {
 public:
  Servers(std::string directory, os::FileSystem& files, os::Clock& clock);

  const std::string& id() const { return id_; }
  // Others and this one. Errors: as list_servers().
  Result<ListedServers> list() { return list_servers(files_, directory_, id_); }

  // Becomes a member, under a new id. kBusy: try again.
  Status join();
  // Becomes the keeper and is no member any more: a server that counts members does not count it twice.
  void resign();
  // Is no member any more, because other hands removed its files.
  void leave();
  // The directory was removed or replaced: the notes belong to others as well.
  void leave_directory();
  bool joined() const { return life_ != nullptr; }
  // Returns false if the lock file of this member was removed or replaced.
  bool in_place() const { return life_ == nullptr || life_->in_place(); }

  // For a process that is no member and changed files: makes all servers look at the files again. The keeper removes
  // the name that it leaves.
  Status tell_change();
  Status publish(std::uint64_t used, std::uint64_t wanted);
  bool published() const { return !published_.empty(); }
  // Raises what a member may ever reserve.
  Status grant(const std::string& id, std::uint64_t before, std::uint64_t granted);

  // The lock of a listed dead member: hold it until its files are swept, lest another takes its id. Null: it lives, or
  // cannot be asked.
  std::unique_ptr<os::FileLock> claim(const std::string& id) const;
  // Removes the files of a dead member, or of no member.
  void sweep(const ListedServer& server);

  // For a keeper by itself: removes the names that members left, and the directory.
  void tidy();

  // Returns true if this process writes the notes of a fingerprint, as long as it lives.
  bool take_notes(const std::string& fingerprint);

 private:
  std::string path_of(const std::string& name) const { return directory_ + "/" + name; }
  Status replace(const std::string& before, const std::string& after);

  const std::string directory_;
  os::FileSystem& files_;
  os::Clock& clock_;
  std::string id_;
  std::string published_;  // the name of our .used file; "": none yet
  std::unique_ptr<os::FileLock> life_;
  std::unique_ptr<os::FileLock> notes_;
};

// Returns the id in a temporary file's name; "" if none of these servers made it.
std::string owner_of_temporary(const std::string& name);

}  // namespace kvkeep::store
