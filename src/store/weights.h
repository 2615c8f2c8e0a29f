#pragma once

// Whose weights computed the state of a fingerprint's directory. A fingerprint names a model by samples of its tensors,
// so two files that differ between the samples have the same directory; a hash of all their bytes tells them apart, but
// takes too long to compute before a server serves. So a directory has a note about the files that its state is of:
// their hash, once it is known, and until then their mark (sizes, times and inodes), which the same untouched files
// have again. State is used if the note says that it is of the server's own files. Otherwise it waits for their hash,
// and is removed if that differs. docs/decisions/0021-whole-files-in-the-background.md
//
// All who use a directory share its lock, Layout::users, and found their files in the note while they did. Only who
// holds the lock alone gives the directory to other files.
//
// Hashes of whole files are kept in the root by mark, so that each file is read once.

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/hash.h"
#include "base/mutex.h"
#include "base/result.h"
#include "os/file_stamp.h"
#include "os/file_system.h"
#include "store/layout.h"

namespace kvkeep::store {

using FilesMark = Hash256<struct FilesMarkTag>;

// The mark of a model that consists of these files, in order.
FilesMark mark_of(std::span<const os::FileStamp> stamps);

struct Weights {
  std::optional<ModelHash> hash;  // of all bytes
  std::optional<FilesMark> mark;  // of the files that were used last, or are used
  bool operator==(const Weights&) const = default;
};

// ---- notes in a fingerprint's directory ----

// Both members empty if there is no note, or none that is whole. kIo: the device refused.
Result<Weights> read_weights(os::FileSystem& files, const std::string& directory);
Status write_weights(os::FileSystem& files, const std::string& directory, const Weights& weights);

enum class Whose {
  kOwn,      // nobody's, or of these files: may be used and added to
  kUnknown,  // it depends on the hash of the server's files
  kOthers,   // of other files, or nobody can find out any more of which
};
// Decides whose the state of a directory is. Pure.
Whose whose_state(bool has_state, const Weights& noted, const Weights& own);

// Returns true if state that files with this hash computed may be added to a directory (nullopt: its fingerprint tells
// all files apart). Pure.
bool may_join(bool has_state, const Weights& noted, const std::optional<ModelHash>& added);
// Checks that, notes the hash in a directory that is there and has no note, and returns the share of the lock under
// which to add. kInvalid: it may not be added. kBusy: another process decides whose the directory is.
Result<std::unique_ptr<os::FileLock>> join_weights(os::FileSystem& files, const Layout& layout,
                                                   const std::optional<ModelHash>& added);
// Returns kAborted if the directory went over to other files since its note said `before`. What was read before this
// call is of the former ones if it succeeds.
Status check_weights_stayed(os::FileSystem& files, const std::string& directory, const Weights& before);
// Returns nullopt for a text that is no hash.
std::optional<ModelHash> parse_model_hash(std::string_view text);

// ---- kept hashes ----

// A file of facts that a start would find out again: a line each, at most kMostKept, the oldest leave first. Of two
// servers that keep one at the same moment one may lose its own. A damaged line is no line.
inline constexpr std::size_t kMostKept = 64;
inline constexpr std::size_t kMostKeptBytes = 512;  // of a text without line ends
std::optional<std::string> find_kept(os::FileSystem& files, const std::string& path, const std::string& name);
Status keep(os::FileSystem& files, const std::string& path, const std::string& name, const std::string& text);

std::optional<ModelHash> find_kept_hash(os::FileSystem& files, const std::string& root, const FilesMark& mark);
Status keep_hash(os::FileSystem& files, const std::string& root, const FilesMark& mark, const ModelHash& hash);

// ---- taking a directory ----

// The state of a directory when a server asked to use it.
struct ClaimReport {
  Whose whose = Whose::kOwn;
  std::size_t removed = 0;   // files of state of other weights
  bool is_noted = true;      // a note said whose they were
  bool others_live = false;  // servers of other files use the directory
  bool waited = false;       // whose it is was not known before
};

// A server's claim on its directory. Thread safe.
class DirectoryClaim {
 public:
  DirectoryClaim(Layout layout, os::FileSystem& files, FilesMark mark);

  const std::string& directory() const { return layout_.own; }
  // The hash of the server's files is known now.
  void know(const ModelHash& hash);
  std::optional<ModelHash> hash() const;
  // Makes sure that the directory, which must be there, holds no state but of the server's own files, notes them, and
  // shares the lock from then on. kBusy: not yet. Removes state of other files if nobody uses it. `report` is called
  // whenever the result differs from the last one.
  Status take(const std::function<void(const ClaimReport&)>& report);
  // Returns true while the directory is this server's to use: from take() until other hands remove the lock's file.
  bool is_held() const;
  // Returns true if the last take() could not tell, or told, that the directory is of other files.
  bool is_unsure() const;

 private:
  Result<ClaimReport> look(const Weights& own) REQUIRES(taking_);
  Result<ClaimReport> look_alone(const Weights& own) const;
  Status share(const Weights& own, ClaimReport& report) REQUIRES(taking_);
  void complete(const Weights& noted, const Weights& own) const;
  Weights resolved(Weights noted) const;
  Weights own() const;

  const Layout layout_;
  os::FileSystem& files_;
  const FilesMark mark_;
  mutable Mutex taking_;
  std::unique_ptr<os::FileLock> share_ GUARDED_BY(taking_);  // null: the directory is not used
  std::optional<Whose> told_ GUARDED_BY(taking_);
  mutable Mutex mutex_;
  std::optional<ModelHash> hash_ GUARDED_BY(mutex_);
};

}  // namespace kvkeep::store
