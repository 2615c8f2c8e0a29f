#pragma once

// The files that flags of `serve` name, read and checked before the model is loaded: that may take minutes, and a
// mistyped path should not cost them.

#include <string>
#include <vector>

#include "base/result.h"
#include "serve_options.h"

namespace kvkeep::cli {

struct NamedFiles {
  std::string chat_template;          // of --chat-template-file or --chat-template, which parses; empty: none was named
  std::vector<std::string> api_keys;  // of --api-key-file, at least one; empty: none was named
  std::string cache_salt;             // of --cache-salt-file, without the end of its last line; empty: none was named
};

// Errors name the flag. Adapters are only looked at: whether they fit the model is known once it is loaded.
Result<NamedFiles> read_named_files(const ServeOptions& options);

}  // namespace kvkeep::cli
