#pragma once

// The command line of `kvkeep serve`. Flags that llama-server has too have its names, flags of the cache have ds4's;
// docs/flags.md lists them with the defaults of all three.

#include <string>
#include <vector>

#include "base/result.h"
#include "flag_set.h"
#include "serve_options.h"

namespace kvkeep::cli {

// The directory of the disk cache, for servers and for `kvkeep cache` alike.
inline constexpr const char* kDiskDirectoryVariable = "LLAMA_ARG_KV_DISK_DIR";

struct ParsedServe {
  ServeOptions options;
  bool wants_help = false;  // print serve_help() and exit; `options` is meaningless then
};

// `arguments` are those after "serve". Pure: files named in them are not opened. Errors are one line.
Result<ParsedServe> parse_serve(const std::vector<std::string>& arguments, const os::Environment& environment);

std::string serve_help();      // the flags that most users may need
std::string serve_help_all();  // all flags
CommandManual serve_manual();

// The flags, bound to `options`, which must outlive them.
FlagSet serve_flags(ServeOptions& options);

// ---- the tables of flags; rows are bound to `options`, which must outlive them ----

inline constexpr std::uint32_t kTokensMax = 1U << 30;

// model_flags.cc
std::vector<Flag> model_flags(ServeOptions& options);
std::vector<Flag> context_flags(ServeOptions& options);
std::vector<Flag> offload_flags(ServeOptions& options);
std::vector<Flag> adapter_flags(engine::llama::ModelOptions& model);
std::vector<Flag> rope_flags(engine::llama::ModelOptions& model);

// thread_flags.cc
std::vector<Flag> thread_flags(engine::llama::ModelOptions& model);

// chat_flags.cc
std::vector<Flag> chat_flags(ServeOptions& options);

// sampling_flags.cc
std::vector<Flag> sampling_flags(ServeOptions& options);

// embedding_flags.cc
std::vector<Flag> embedding_flags(EmbeddingOptions& embeddings);
// --rerank means two other flags. kInvalid if they contradict it, or if embedding is off and its other flags are given.
Status check_embeddings(EmbeddingOptions& embeddings);

// share_flags.cc; engine_flags() are those of all commands that use an engine
std::vector<Flag> engine_flags(SharedTierOptions& shared);
std::vector<Flag> share_flags(SharedTierOptions& shared);
// kInvalid if flags of the shared tier need others that are not given.
Status check_share(const SharedTierOptions& shared);

// media_flags.cc
std::vector<Flag> media_flags(MediaOptions& media);
// kInvalid if flags contradict each other, or need a projector and there is none.
Status check_media(const MediaOptions& media);

// accepted_flags.cc: flags of llama-server that ask for what is so anyway.
std::vector<Flag> accepted_flags();

// refused_flags.cc: flags of llama-server and ds4-server that users may pass from habit. Ignoring one silently would
// give other results than were asked for.
std::vector<RefusedFlag> refused_serve_flags();

}  // namespace kvkeep::cli
