#pragma once

// A cache directory as it lies there, read from outside: every model's segment files by their headers, and what else
// was found. Nothing is changed. Next to a running server this is a view of a moment: files may be gone when they are
// looked at again, and new ones may be there.

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "base/hash.h"
#include "base/result.h"
#include "inspect/model_note.h"
#include "os/file_system.h"
#include "store/directory_scan.h"
#include "store/layout.h"

namespace kvkeep::inspect {

// The files of one fingerprint: of a model with settings, versions and salt.
struct ModelDirectory {
  FingerprintHash fingerprint;
  std::string path;
  store::DirectoryScan files;
  std::optional<ModelNote> note;  // read_model() reads these three
  std::vector<PrefixHash> pins;
  std::optional<std::string> distrust;  // what an audit found: servers use nothing of it (store/notes.h)
};

struct CacheDirectory {
  std::string root;
  std::size_t servers = 0;             // that run on it; who imports counts as one
  std::vector<ModelDirectory> models;  // by fingerprint
  std::vector<os::FileInfo> quarantine;
  std::size_t foreign_names = 0;  // in the root; those of a model are in its scan
};

// Of its directory's name; nullopt: it is none.
std::optional<FingerprintHash> parse_fingerprint(std::string_view name);

// kInvalid: something lies in it, and nothing of a cache: it is not ours to work in. One that is not there, and one
// with nothing but what a file system has of its own, may become one.
Status check_own(os::FileSystem& files, const std::string& root);

// The directories of all fingerprints below `root`, without their files. kNotFound: there is no such directory.
// kInvalid: it is none of ours: something is in it, and nothing of a cache.
Result<CacheDirectory> find_models(os::FileSystem& files, const std::string& root);

// The headers of all files of one of them. They come from the saved index where it fits. kNotFound: it is not there.
Result<ModelDirectory> read_model(os::FileSystem& files, const std::string& root, const FingerprintHash& fingerprint);

// find_models(), and read_model() of each.
Result<CacheDirectory> read_directory(os::FileSystem& files, const std::string& root);

}  // namespace kvkeep::inspect
