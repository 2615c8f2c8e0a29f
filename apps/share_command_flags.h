#pragma once

// The command lines of `kvkeep share`.

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cache_flags.h"
#include "serve_options.h"

namespace kvkeep::cli {

enum class ShareAction { kList, kPush, kPull };

struct ShareCommandOptions {
  ShareAction action = ShareAction::kList;
  SharedTierOptions shared;       // its mode does not matter
  CacheCommandOptions cache;      // the directory, its budget, and how the fingerprints of chosen models begin
  std::string device;             // empty: as the directory's note says, or this machine's
  std::optional<ByteCount> most;  // --max-mb; empty: no limit
  bool dry = false;
  bool json = false;
};

struct ParsedShare {
  ShareCommandOptions options;
  std::string help;  // if not empty: print it and exit; `options` is meaningless then
};

// `arguments` are those after "share". Pure. Errors are one line.
Result<ParsedShare> parse_share(const std::vector<std::string>& arguments, const os::Environment& environment);

// Of each command of `kvkeep share`.
std::vector<CommandManual> share_manuals();

}  // namespace kvkeep::cli
