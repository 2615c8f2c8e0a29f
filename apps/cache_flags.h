#pragma once

// The command lines of `kvkeep cache`.

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "flag_set.h"
#include "inspect/view.h"
#include "serve_options.h"

namespace kvkeep::cli {

enum class CacheAction { kStat, kList, kShow, kVerify, kCollect, kRemove, kExport, kImport, kPin, kUnpin };

// Options of all commands; each command has flags for those that it uses.
struct CacheCommandOptions {
  CacheAction action = CacheAction::kStat;
  std::vector<std::string> words;  // ids; of export and import the file first
  TierOptions tiers;               // --kv-disk-dir and --kv-disk-space-mb
  // The directory is the servers' own, the default's or the variable's: they make it, so it may not be there yet.
  bool directory_is_servers = true;
  bool json = false;
  std::string fingerprint;  // --model: how its fingerprint begins
  inspect::Order order = inspect::Order::kUsed;
  std::size_t most_runs = SIZE_MAX;
  std::size_t most_depth = SIZE_MAX;
  bool repair = false;
  std::string gguf;  // the file whose vocabulary turns ids into text; empty: the one that the server noted
  bool with_text = false;
  bool with_ids = false;
  bool yes = false;  // do not ask
  bool dry = false;  // change nothing
  bool quarantine = false;
  std::optional<ByteCount> to;  // --to-mb; empty: no limit
};

struct ParsedCache {
  CacheCommandOptions options;
  std::string help;  // if not empty: print it and exit; `options` is meaningless then
};

// `arguments` are those after "cache". Pure. Errors are one line.
Result<ParsedCache> parse_cache(const std::vector<std::string>& arguments, const os::Environment& environment);

// Of each command of `kvkeep cache`.
std::vector<CommandManual> cache_manuals();

}  // namespace kvkeep::cli
