#pragma once

// Files that are to go, why, and their going: whole files, children before parents.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "inspect/view.h"

namespace kvkeep::inspect {

enum class Why {
  kAsked,       // by name, or below what was named
  kTemporary,   // unfinished, of a process that is gone
  kOrphan,      // hangs below nothing
  kDamaged,     // no whole file of its name, by its header
  kRedundant,   // others hold all it has
  kQuarantine,  // set aside earlier
  kBudget,      // worth least of what is there
  kAdvisory,    // tells of files that go
  kEmpty,       // a model's directory with nothing in it: no file
};
std::string_view to_string(Why why);

struct Removal {
  std::string directory;
  std::string file;
  ByteCount bytes;  // physical
  Why why = Why::kAsked;
};

// What stays of models that something is removed of, and no run shows.
struct LeftFiles {
  FileCount useless;  // that hang below nothing, are damaged or, with no server to finish them, unfinished
  FileCount unread;   // the device refused, or a later program wrote them
  FileCount quarantine;
  std::uint64_t files() const { return useless.files + unread.files + quarantine.files; }
};

struct RemovalReport {
  std::map<Why, FileCount> removed;
  std::uint64_t failed = 0;
  LeftFiles left;  // remove_all() leaves it empty
  FileCount all() const;
};

// A run and what hangs below it, whichever of `runs` gives it, once; with them what no run shows: redundant and
// misnamed files in them, and whatever continues these or the runs by its name.
std::vector<Removal> removals_of(const Forest& forest, const std::vector<IdTarget>& runs);
// All of a model that is ours by name, the advisory files last.
Result<std::vector<Removal>> removals_of_model(os::FileSystem& files, const ModelDirectory& model);

// `alone`: no server runs on the directory, whose unfinished files they could be. Of the quarantine nobody knows of
// which model a file was.
LeftFiles left_files(const Forest& forest, const std::vector<Removal>& removals, bool alone);

// Of models of which `removals` leave nothing but what tells of files: that, and the directories. Only while no server
// runs and none can start.
void add_empty_models(os::FileSystem& files, const CacheDirectory& directory, std::vector<Removal>& removals);

// Removes in the order given; `files` null: only counts. After a failure nothing more leaves that directory, so that
// nothing loses its parent. A file that is gone already counts as removed by others: not at all.
RemovalReport remove_all(os::FileSystem* files, const std::vector<Removal>& removals);

}  // namespace kvkeep::inspect
