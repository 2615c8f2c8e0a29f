#pragma once

// A cache directory, read from outside: every model's segment files by their headers, and all other names. Nothing is
// changed. Next to a running server this is a view of a moment: files may be gone when they are looked at again, and
// new ones may be there.

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "base/hash.h"
#include "base/result.h"
#include "inspect/model_notes.h"
#include "os/file_system.h"
#include "store/directory_scan.h"
#include "store/layout.h"
#include "store/weights.h"

namespace kvkeep::inspect {

// The files of one fingerprint: of a model with settings, versions and salt.
struct ModelDirectory {
  FingerprintHash fingerprint;
  std::string path;
  store::DirectoryScan files;
  // Without read_model() the members from here on are empty.
  std::optional<ModelNote> note;
  std::vector<PrefixHash> pins;
  store::Weights weights;
  std::optional<std::string> distrust;  // the text of an audit's note: servers use nothing of it (store/small_files.h)
};

struct CacheDirectory {
  std::string root;
  std::size_t servers = 0;             // that run on it; an import counts as one
  std::vector<ModelDirectory> models;  // by fingerprint
  std::vector<os::FileInfo> quarantine;
  std::size_t foreign_names = 0;  // in the root; those of a model are in its scan
};

// Returns the fingerprint in a directory's name; nullopt if there is none.
std::optional<FingerprintHash> parse_fingerprint(std::string_view name);

// Fails with kInvalid if the directory holds other files and nothing of a cache, so kvkeep must not work in it. A
// missing directory, and one with only a file system's own names, may become a cache directory.
Status check_own(os::FileSystem& files, const std::string& root);

// Returns the directories of all fingerprints below `root`, without their files. Fails with kNotFound if there is no
// such directory, with kInvalid if it holds other files and nothing of a cache.
Result<CacheDirectory> find_models(os::FileSystem& files, const std::string& root);

// Returns the headers of all files of one of them, from the saved index where it fits. Fails with kNotFound if there is
// no such directory.
Result<ModelDirectory> read_model(os::FileSystem& files, const std::string& root, const FingerprintHash& fingerprint);

// find_models(), and read_model() of each.
Result<CacheDirectory> read_directory(os::FileSystem& files, const std::string& root);

// Returns the first tokens of the prompts that other fingerprints below `root` have, to see whether a prompt is stored
// for another model or other flags: of the kMostBeginnings newest files of each that hold such tokens, at most
// kMostBeginningTokens. Only of prompts without a tenant, which any client may know of. A file that cannot be read
// counts as none.
inline constexpr std::size_t kMostBeginnings = 64;
inline constexpr std::size_t kMostBeginningTokens = 64;
std::vector<std::vector<TokenId>> beginnings_of_others(os::FileSystem& files, const std::string& root,
                                                       const FingerprintHash& own);

}  // namespace kvkeep::inspect
