#pragma once

// A cache directory as it is shown: figures per model, and its prefixes in the order of a listing. Pure.

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "inspect/cache_directory.h"
#include "inspect/prefix_ids.h"
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

// A run, and what its files are.
struct RunView {
  std::string id;                     // as short as can be
  std::string hash;                   // h(end), all of it
  std::optional<std::string> parent;  // its id
  std::string tenant;                 // eight digits of whose it is; empty: nobody in particular
  std::size_t depth = 0;
  TokenRange range;
  FileCount rows;
  FileCount windows;
  FileCount points;          // and whole states
  std::int64_t used_ns = 0;  // of the newest file here or below
  std::optional<std::int64_t> kept_until_ns;
  bool pinned = false;  // or what hangs below it is
  std::string words;    // the text it begins with; empty: not known
  std::uint64_t files() const { return rows.files + windows.files + points.files; }
  ByteCount bytes() const { return rows.bytes + windows.bytes + points.bytes; }
};

struct ModelView {
  std::string fingerprint;  // hexadecimal
  std::optional<ModelNote> note;
  std::optional<std::string> distrust;
  std::uint64_t pins = 0;
  std::uint64_t tenants = 0;  // who have a salt
  FileCount all;              // everything counted below
  FileCount rows;
  FileCount windows;
  FileCount points;
  FileCount damaged;  // by their headers alone
  FileCount unreadable;
  FileCount temporaries;
  FileCount index;
  std::uint64_t built = 0;                          // whole states that are differences from another
  std::uint64_t tokens = 0;                         // prefixes shared counted once
  std::uint64_t lost = 0;                           // files that hang below nothing, or under a wrong name
  std::uint64_t foreign = 0;                        // names that are not ours
  std::map<std::uint32_t, std::uint64_t> versions;  // of the format: how many files
  std::optional<std::int64_t> oldest_use_ns;
  std::optional<std::int64_t> newest_use_ns;
  std::uint64_t prefixes = 0;  // runs
  std::vector<RunView> runs;   // depth first; those that were asked for
  std::uint64_t hidden = 0;    // runs that were not
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
  std::optional<ByteCount> budget;  // that sizes are told as shares of
  Order order = Order::kUsed;       // of siblings: what was used last, is largest, or is longest first
  std::size_t most_runs = SIZE_MAX;
  std::size_t most_depth = SIZE_MAX;
  // The text of ids of a model; null or an empty answer: not known.
  std::function<std::string(const ModelDirectory& model, TokenSpan ids)> words = {};
};

// A directory with its trees, by which ids are found.
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
