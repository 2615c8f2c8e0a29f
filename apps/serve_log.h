#pragma once

// The log of `serve`: where it is written, and the lines that a start writes at the default level: the model, where
// conversations are stored, and the URLs for clients. The debug level has more.

#include <cstdint>
#include <string>
#include <string_view>

#include "base/log_fields.h"
#include "cache/cache_options.h"
#include "cache/cache_stats.h"
#include "cache/model_memory.h"
#include "cache_setup.h"
#include "engine/engine.h"
#include "serve_options.h"

namespace kvkeep::cli {

// Also for commands other than serve, whose log is on standard error as well. Control characters in messages are
// escaped, and the further lines of a message indented. Fails with kInvalid if the log file cannot be written.
Status set_up_log(const LogOptions& options);

// A line of --log-format json, as one object without a line end: "time" (UTC, milliseconds), "level", "message", and
// "fields", if it has any: those given, or else the values of words such as prompt=123 in the message, a number where
// it is one. A time with its unit (0.120s) is a number of seconds. Of words with one name the first counts; from the
// first quote, brace or parenthesis on a message may have words of clients, which are no fields. Invalid UTF-8 is
// replaced. Pure.
std::string json_log_line(std::int64_t time_ms, std::string_view level, std::string_view message,
                          const LogFields* fields = nullptr);

// Logs the model, and warns if its context is not the one asked for, or larger than the one it was trained with.
void log_model(const engine::Description& model, const engine::llama::ModelOptions& asked);

struct ReadyServer {
  const ServeOptions& options;
  const std::string& model_name;
  const std::vector<server::ListeningPlace>& places;
  cache::CacheStats cache;
  const DiskTier& disk;
  const cache::StateShape& shape;
};
void log_ready(const ReadyServer& server);

}  // namespace kvkeep::cli
