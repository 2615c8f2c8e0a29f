#pragma once

// Files to remove, the reason for each, and their removal: whole files, children before parents.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "inspect/view.h"

namespace kvkeep::inspect {

enum class Why {
  kAsked,       // by name, or below a named one
  kTemporary,   // unfinished, of a dead process
  kOrphan,      // its parent or base is missing
  kDamaged,     // no whole file of its name, by its header
  kRedundant,   // others hold the same
  kQuarantine,  // moved there earlier
  kBudget,      // of the least value
  kAdvisory,    // a note about files that are removed
  kEmpty,       // a model's directory with nothing in it: no file
};
std::string_view to_string(Why why);

struct Removal {
  std::string directory;
  std::string file;
  ByteCount bytes;  // physical
  Why why = Why::kAsked;
};

// Files that stay, of models that lose others, and that no run shows.
struct LeftFiles {
  FileCount useless;  // orphans, damaged ones or, with no server to finish them, unfinished ones
  FileCount unread;   // the device refused, or a later program wrote them
  FileCount quarantine;
  std::uint64_t files() const { return useless.files + unread.files + quarantine.files; }
};

struct RemovalReport {
  std::map<Why, FileCount> removed;
  std::uint64_t failed = 0;
  LeftFiles left;            // remove_all() leaves it empty
  std::uint64_t others = 0;  // conversations that go although nobody named them; remove_all() leaves it 0
  FileCount all() const;
};

// The runs and everything below them, each file once, with files that no run shows: redundant and misnamed files in
// them, and all files that by their names continue these or the runs.
std::vector<Removal> removals_of(const Forest& forest, const std::vector<IdTarget>& runs);
// Returns how many conversations leave one of the runs before its end (NamedRuns::others), and so go with it.
std::uint64_t other_conversations(const Forest& forest, const std::vector<IdTarget>& runs);
// All files of a model that kvkeep made, by their names, the advisory files last.
Result<std::vector<Removal>> removals_of_model(os::FileSystem& files, const ModelDirectory& model);

// `alone`: no server runs on the directory whose unfinished files they could be. A file in quarantine may be of any
// model.
LeftFiles left_files(const Forest& forest, const std::vector<Removal>& removals, bool alone);

// Adds the notes and directories of models of which `removals` leave nothing else. Only while no server runs and none
// can start. Returns locks that keep servers which begin all the same out of these directories.
std::vector<std::unique_ptr<os::FileLock>> add_empty_models(os::FileSystem& files, const CacheDirectory& directory,
                                                            std::vector<Removal>& removals);

// Removes in the order given; `files` null: only counts. After a failure nothing more leaves that directory, so that no
// file loses its parent. A file that is gone already was removed by others and is not counted.
RemovalReport remove_all(os::FileSystem* files, const std::vector<Removal>& removals);

// ---- what `kvkeep cache gc` removes: useless files, and down to a size the least valuable ones ----

// A younger file that seems to be left over may be one that a server is busy with.
inline constexpr std::int64_t kGraceNs = 60LL * 1'000'000'000;

struct CollectOptions {
  std::int64_t now_ns = 0;
  bool alone = false;                  // no server runs on the directory, and none can start
  bool quarantine = false;             // remove quarantined files, too
  std::optional<ByteCount> most = {};  // for the whole directory; above it files leave by value, as servers choose
};

// Children before parents. Next to a server, temporaries stay (they may be its own), and so do redundant files.
std::vector<Removal> collect(const Forest& forest, const CollectOptions& options);

}  // namespace kvkeep::inspect
