#pragma once

// The servers that share one cache directory, and what each may write: files in <root>/servers/, all of them empty.
//
//   <id>.lock                        held by a member for its life: it lives as long as this cannot be locked
//   <id>.<used>-<wanted>-<sum>.used  renamed by its owner: bytes it ever reserved (of what is finished and
//                                    durable), and bytes it was last refused
//   <id>.<granted>-<sum>.grant       renamed by the keeper: bytes that member may ever reserve
//   <fingerprint>.notes              held by the one server that writes a fingerprint's saved index and sampled turns
//
// Numbers are 16 hex digits, so that one listing tells everything, one rename changes a number as a whole, and there
// are no contents that could be torn. Both totals only grow: granted - used is what the owner may still write, and it
// is safe to act on an old value of either. A sum of 8 digits over the rest tells names that were not made here. At
// most three files for each server: too little to count against the budget. An id is the time when its owner opened.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "os/clock.h"
#include "os/file_system.h"

namespace kvkeep::store {

// What a listing tells of one id.
struct ListedServer {
  bool locks = false;  // has a lock file: a member, living or dead
  std::uint64_t used = 0;
  std::uint64_t wanted = 0;
  std::uint64_t granted = 0;
  std::vector<std::string> files;  // names
};
using ListedServers = std::map<std::string, ListedServer>;  // by id

// Ids that are looked at; the rest of what somebody puts there is left alone.
inline constexpr std::size_t kMostServers = 256;

// A directory that is not there, or that is none, has no servers. `own`: an id that is looked at in any case. kIo: the
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
  // Is none any more, but the keeper: who counts members does not count it twice.
  void resign();
  // Forgets that it was one: its files were removed by other hands.
  void leave();
  // The directory was removed or replaced: the notes are in other hands as well.
  void leave_directory();
  bool joined() const { return life_ != nullptr; }
  // False: the lock file of this member was removed or replaced.
  bool in_place() const { return life_ == nullptr || life_->in_place(); }

  // For who is none and changed files beside them: all look at the files again. The keeper removes what tells it.
  Status tell_change();
  Status publish(std::uint64_t used, std::uint64_t wanted);
  bool published() const { return !published_.empty(); }
  // Raises what a member may ever reserve.
  Status grant(const std::string& id, std::uint64_t before, std::uint64_t granted);

  // The lock of a listed member that is dead: hold it until it was swept, lest another takes its id. Null: it lives, or
  // cannot be asked.
  std::unique_ptr<os::FileLock> claim(const std::string& id) const;
  // Removes the files of a dead one, or of none.
  void sweep(const ListedServer& server);

  // For the keeper, where nobody else is: removes what members left, and the directory.
  void tidy();

  // True: this process writes the notes of a fingerprint, as long as it lives.
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

// The id in a temporary file's name; "": made by none of these servers.
std::string owner_of_temporary(const std::string& name);

}  // namespace kvkeep::store
