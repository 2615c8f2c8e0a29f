#pragma once

// `kvkeep cache export` and `import`: whole paths of chosen prefixes from one directory to another.

#include <functional>
#include <string>
#include <vector>

#include "inspect/view.h"
#include "os/clock.h"

namespace kvkeep::inspect {

struct ExportReport {
  FileCount files;  // their sizes as they are
  std::uint64_t prefixes = 0;
};

// The files of these runs, of what hangs below them and of the paths that lead to them, parents first.
struct ChosenFile {
  std::size_t model = 0;
  std::size_t file = 0;  // place in the model's list
};
std::vector<ChosenFile> files_to_export(const Forest& forest, const std::vector<IdTarget>& runs);

// Every file is verified before it is copied. `path` must not exist; on an error it is removed again. kDamaged: one of
// the files is (kvkeep cache verify says which); kNotFound: a server removed one meanwhile; kInvalid: more files or
// models than an archive holds (archive_file.h), or `path` is there.
Result<ExportReport> export_files(os::FileSystem& files, const Forest& forest, const std::vector<ChosenFile>& chosen,
                                  const std::string& path);

struct ImportOptions {
  ByteCount room;        // physical bytes that the budget lets be added
  std::string root;      // of the cache, which exists
  std::string own_mark;  // tells temporary files of this process from others'
  // Called with the physical bytes that are to be added, if any, before the first is; an error ends it.
  std::function<Status(ByteCount)> reserve = {};
  ByteCount free = ByteCount{UINT64_MAX};  // of the file system
  // They find files as these get their names. What has one then stays, whatever happens afterwards.
  bool beside_servers = false;
};
struct ImportReport {
  FileCount added;    // physical
  FileCount present;  // were there already
  std::uint64_t fingerprints = 0;
};

// Verifies the whole archive before anything is written: every header, sum and size, and that the files make whole
// paths, parents first, whose tokens hash to their names. Then writes all files under temporary names, syncs them, and
// gives them their names, parents first. After an error nothing of it is left; next to servers, what has its name by
// then stays. Where a model's directory has no note (model_note.h), the archive's is written. kInvalid: the archive is
// not what export makes. kNoSpace: more than there is room for.
Result<ImportReport> import_files(os::FileSystem& files, const std::string& archive, const ImportOptions& options);

}  // namespace kvkeep::inspect
