#pragma once

// Carrying stored state between a cache directory and a namespace of an engine: `kvkeep share push` and `pull`.
//
// Objects are written, and files get their names, one after another, each whole and after those that lead to it. So
// whatever ends a run, an engine holds whole paths, a server opens the directory, and the next run goes on.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "carry/namespaces.h"
#include "inspect/cache_directory.h"
#include "os/file_system.h"
#include "share/warehouse.h"

namespace kvkeep::carry {

// Files or objects, by the bytes of segment files.
struct Count {
  std::uint64_t items = 0;
  ByteCount bytes;
  void add(std::uint64_t size) {
    ++items;
    bytes += ByteCount{size};
  }
  bool operator==(const Count&) const = default;
};

// A file or object that cannot be carried: damaged, of a later version, or not authentic.
struct Unusable {
  std::string name;
  std::string reason;
};
inline constexpr std::size_t kMostNamed = 20;

struct CarryOptions {
  ByteCount most = ByteCount{UINT64_MAX};  // bytes of files that are carried
  bool dry = false;                        // change nothing, and count what would be carried
  // Called with the bytes that are done, and all that are to be.
  std::function<void(ByteCount, ByteCount)> progress = {};
};

struct CarryReport {
  Count carried;                 // or, in a dry run, what would be
  Count present;                 // was there already
  Count left;                    // beyond a limit, or what leads to it was not carried
  Count lost;                    // its beginning is missing where it lies, or others hold the same
  std::uint64_t unusable = 0;    // of these:
  std::vector<Unusable> named;   // the first kMostNamed
  std::uint64_t turns = 0;       // sampled turns carried
  std::uint64_t turns_left = 0;  // that were not, because servers keep the file of turns
  std::string stopped = {};      // why it ended early; empty: it did not
  void note_unusable(const std::string& name, const std::string& reason) {
    ++unusable;
    if (named.size() < kMostNamed) named.push_back({name, reason});
  }
};

// ---- from a directory into an engine ----

// Publishes the segments, leaves and sampled turns of one model, those that were used last first, and skips those that
// are there. Files are verified as they are read; what a damaged one leads to is left out. `device` names the namespace
// and is noted there. Fails if the engine cannot be asked at the beginning; what ends it later is in the report.
Result<CarryReport> push(os::FileSystem& files, const inspect::ModelDirectory& model, const std::string& device,
                         share::Warehouse& warehouse, const CarryOptions& options);

// Returns the device that computed everything in this directory. Fails with kInvalid if that is not known, or there
// were several.
Result<std::string> device_of(const inspect::ModelDirectory& model);

// Returns the hash of the model's files that names the state of this directory for other machines, "" if the
// fingerprint tells all files apart. Fails with kInvalid if no server has read the files yet.
Result<std::string> weights_of(const inspect::ModelDirectory& model);

// ---- from an engine into a directory ----

struct PullTarget {
  std::string root;            // of the cache, which exists
  ByteCount room = {};         // physical bytes that the budget and the file system leave
  std::string own_mark = {};   // begins the names of this process's temporary files
  ByteCount turn_memory = {};  // of sampled turns
  std::int64_t now_s = 0;      // since the epoch
  std::string device = {};     // that computed the namespace's state; empty: any
  // Called with the physical bytes that are to be added, if any, before the first is; an error ends the pull.
  std::function<Status(ByteCount)> reserve = {};
  bool beside_servers = false;  // one of them keeps the file of sampled turns, which is left alone
};

// Adds everything in the namespace that the directory lacks and has room for, beginnings of prompts first. Objects that
// are damaged or not authentic are skipped, with those that they lead to. Precondition: the namespace has a
// fingerprint. Fails if the directory cannot be read or changed; what ends it later is in the report.
Result<CarryReport> pull(os::FileSystem& files, const Namespace& from, share::Warehouse& warehouse,
                         const PullTarget& target, const CarryOptions& options);

}  // namespace kvkeep::carry
