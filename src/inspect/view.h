#pragma once

// A cache directory as `kvkeep cache` shows it: figures per model, and its prefixes in the order of a listing. Pure.

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "inspect/cache_directory.h"
#include "inspect/prefix_tree.h"

namespace kvkeep::inspect {

// Files of one kind or purpose.
struct FileCount {
  std::uint64_t files = 0;
  ByteCount bytes;  // physical
  void add(ByteCount physical) {
    ++files;
    bytes += physical;
  }
};

// A run, and its files by kind.
struct RunView {
  std::string id;                     // as short as can be
  std::string hash;                   // all of h(end)
  std::optional<std::string> parent;  // its id
  std::string tenant;                 // eight digits; empty: no tenant
  std::size_t depth = 0;
  TokenRange range;
  FileCount rows;
  FileCount windows;
  FileCount points;          // and whole states
  std::int64_t used_ns = 0;  // of the newest file here or below
  std::optional<std::int64_t> kept_until_ns;
  bool pinned = false;     // or something below it is
  bool set_aside = false;  // servers do not use it: it has the name of an earlier version's LoRA scales
  std::string words;       // a few of its text; empty: unknown
  std::uint64_t files() const { return rows.files + windows.files + points.files; }
  ByteCount bytes() const { return rows.bytes + windows.bytes + points.bytes; }
};

struct ModelView {
  std::string fingerprint;  // hexadecimal
  std::optional<ModelNote> note;
  std::optional<std::string> distrust;
  std::uint64_t pins = 0;
  std::uint64_t tenants = 0;  // salts with something stored
  FileCount all;              // everything counted below
  FileCount rows;
  FileCount windows;
  FileCount points;
  FileCount damaged;  // by their headers
  FileCount unreadable;
  FileCount temporaries;
  FileCount index;
  std::uint64_t built = 0;                          // whole states that are differences from another
  std::uint64_t tokens = 0;                         // shared prefixes counted once
  std::uint64_t lost = 0;                           // orphans, and files with a wrong name
  std::uint64_t foreign = 0;                        // names that kvkeep did not give
  FileCount set_aside;                              // files of runs that are (RunView)
  std::map<std::uint32_t, std::uint64_t> versions;  // of the format: number of files
  std::optional<std::int64_t> oldest_use_ns;
  std::optional<std::int64_t> newest_use_ns;
  std::uint64_t prefixes = 0;  // runs
  std::vector<RunView> runs;   // depth first; those within ViewOptions
  std::uint64_t hidden = 0;    // the other runs
};

struct CacheView {
  std::string root;
  std::size_t servers = 0;  // that run on it
  std::int64_t now_ns = 0;
  std::optional<ByteCount> budget;
  ByteCount used;
  std::vector<ModelView> models;
  FileCount quarantine;
  std::uint64_t foreign = 0;
};

enum class Order { kUsed, kSize, kTokens, kPosition };

struct ViewOptions {
  std::int64_t now_ns = 0;
  std::optional<ByteCount> budget;  // sizes are given as shares of it
  Order order = Order::kUsed;       // of siblings: the last used, largest, or longest first
  std::size_t most_runs = SIZE_MAX;
  std::size_t most_depth = SIZE_MAX;
  // Returns a few words for a run's own ids; null or an empty answer: unknown.
  std::function<std::string(const ModelDirectory& model, TokenSpan ids)> words = {};
};

// A directory with its trees, and the ids of its runs.
struct Forest {
  CacheDirectory directory;
  std::vector<PrefixTree> trees;  // by model
  PrefixIds ids;
};
Forest plant(CacheDirectory directory);

CacheView view_of(const Forest& forest, const ViewOptions& options);

// A file of a run.
struct FileView {
  std::string name;
  std::string_view kind;  // "rows", "window rows", "point", "whole state"
  TokenRange range;
  ByteCount bytes;    // physical
  ByteCount payload;  // of its parts
  std::string sum;    // of the first part, hexadecimal
  std::uint32_t version = 0;
  bool sampled = false;          // its ids were sampled by a server, not a prompt's
  std::optional<Position> base;  // of the state that it is built on
  std::int64_t modified_ns = 0;
};

// All of one prefix: what `show` prints.
struct PrefixView {
  std::string fingerprint;
  RunView run;
  std::vector<std::string> path;  // ids from the beginning to the run
  std::vector<FileView> files;    // of the run, ascending by position
  std::vector<TokenId> ids;       // [0, end)
};
PrefixView view_of_prefix(const Forest& forest, IdTarget run, const ViewOptions& options);

}  // namespace kvkeep::inspect
