#pragma once

// The files that flags of `serve` name, read and checked before the model is loaded: loading may take minutes, which a
// mistyped path should not cost.

#include <string>
#include <vector>

#include "base/result.h"
#include "serve_options.h"

namespace kvkeep::cli {

struct NamedFiles {
  std::string chat_template;          // parsed, of --chat-template-file or --chat-template; empty: none was named
  std::vector<std::string> api_keys;  // of --api-key-file, at least one; empty: none was named
  std::string cache_salt;             // of --cache-salt-file, without its last newline; empty: none was named
};

// Refuses a file that is certainly no model; the message names --model.
Status check_model(const std::string& path);

// Errors name the flag. Adapters are only looked at: whether they fit is known when the model is loaded.
Result<NamedFiles> read_named_files(const ServeOptions& options);

}  // namespace kvkeep::cli
