#pragma once

// `kvkeep cache export` and `import`: whole paths of chosen prefixes from one directory to another.

#include <functional>
#include <string>
#include <vector>

#include "inspect/view.h"
#include "os/clock.h"
#include "store/servers.h"

namespace kvkeep::inspect {

struct ExportReport {
  FileCount files = {};  // by the sizes of their contents
  std::uint64_t prefixes = 0;
  std::uint64_t others = 0;  // as in ExportChoice; export_files() leaves both 0
  std::uint64_t foreign_tokens = 0;
};

struct ChosenFile {
  std::size_t model = 0;
  std::size_t file = 0;  // place in the model's list
};
struct ExportChoice {
  std::vector<ChosenFile> files;  // parents first
  std::uint64_t others = 0;       // conversations that leave a named run before its end: they stay out
  // Tokens of other conversations, which go along: the ends of files that lead to a named run and leave it.
  std::uint64_t foreign_tokens = 0;
};
// The files of these runs, of everything that continues them and of the paths that lead to them.
ExportChoice files_to_export(const Forest& forest, const std::vector<IdTarget>& runs);

// Verifies every file before copying it. `path` must not exist; after an error it is removed again. Fails with kDamaged
// if one of the files is damaged (kvkeep cache verify says which), kNotFound if a server removed one meanwhile,
// kInvalid if there are more files or models than an archive holds (archive_file.h), or `path` exists.
Result<ExportReport> export_files(os::FileSystem& files, const Forest& forest, const std::vector<ChosenFile>& chosen,
                                  const std::string& path);

struct ImportOptions {
  ByteCount room;        // physical bytes that the budget leaves
  std::string root;      // of the cache, which exists
  std::string own_mark;  // begins the names of this process's temporary files
  // Called with the physical bytes that are to be added, if any, before the first is; an error ends the import.
  std::function<Status(ByteCount)> reserve = {};
  ByteCount free = ByteCount{UINT64_MAX};  // of the file system
  // Servers find files as these get their names. Such files stay, whatever happens afterwards.
  bool beside_servers = false;
};
struct ImportReport {
  FileCount added;    // physical
  FileCount present;  // were there already
  std::uint64_t fingerprints = 0;
};

// Verifies the whole archive before anything is written: every header, sum and size, and that the files make whole
// paths, parents first, whose tokens hash to their names. Then writes all files under temporary names, syncs them, and
// gives them their names, parents first. After an error it removes them; next to servers, files that have their names
// by then stay. If a model's directory has no note (model_notes.h), the archive's is written. Fails with kInvalid
// if export did not make the archive, with kNoSpace if there is too little room.
Result<ImportReport> import_files(os::FileSystem& files, const std::string& archive, const ImportOptions& options);

// A process that is no server and writes into a directory that servers use. It takes part as a server does
// (store/servers.h) for as long as it lives: meanwhile servers leave its temporary files alone and keep the room that
// it reserved; when it is gone, they look at its files, count and serve them.
// Not thread safe.
class Guest {
 public:
  // `root`: of the cache, which exists.
  Guest(const std::string& root, os::FileSystem& files, os::Clock& clock);

  // kBusy: try again.
  Status join() { return servers_.join(); }
  // After join(): its temporary files are named after it.
  std::string own_mark() const { return servers_.id() + "-guest"; }

  // Asks the keeper for so many physical bytes, once. `wait` pauses for a moment and returns false after long enough.
  // Fails with kNoSpace if the keeper granted less.
  Status reserve(ByteCount bytes, const std::function<bool()>& wait);

 private:
  store::Servers servers_;
};

}  // namespace kvkeep::inspect
