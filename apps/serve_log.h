#pragma once

// The log of `serve`: where it goes, and what a start says at the default level: what was loaded, where conversations
// go, and what clients are to be told. More is there at debug level.

#include <string>

#include "cache/cache_options.h"
#include "cache/model_memory.h"
#include "cache_setup.h"
#include "engine/engine.h"
#include "serve_options.h"

namespace kvkeep::cli {

// kInvalid: the log file cannot be written.
Status set_up_log(const LogOptions& options);

// Of the model, and where the context is another one than was asked for, or than the model was trained with.
void log_model(const engine::Description& model, const engine::llama::ModelOptions& asked);

struct ReadyServer {
  const ServeOptions& options;
  const std::string& model_name;
  int port = 0;
  cache::CacheStats cache;
  const DiskTier& disk;
  const cache::StateShape& shape;
};
void log_ready(const ReadyServer& server);

}  // namespace kvkeep::cli
