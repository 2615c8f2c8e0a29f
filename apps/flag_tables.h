#pragma once

// The tables of `kvkeep serve`'s flags. Rows are bound to `options`, which must outlive them.

#include <vector>

#include "flag_set.h"
#include "serve_options.h"

namespace kvkeep::cli {

inline constexpr std::uint32_t kTokensMax = 1U << 30;

// model_flags.cc
std::vector<Flag> model_flags(ServeOptions& options);
std::vector<Flag> context_flags(ServeOptions& options);
std::vector<Flag> offload_flags(ServeOptions& options);
std::vector<Flag> adapter_flags(engine::llama::ModelOptions& model);
std::vector<Flag> rope_flags(engine::llama::ModelOptions& model);

// chat_flags.cc
std::vector<Flag> chat_flags(ServeOptions& options);
std::vector<Flag> sampling_flags(ServeOptions& options);

// refused_flags.cc: flags of llama-server and ds4-server that users may pass from habit. Ignoring one silently would
// give other results than were asked for.
std::vector<RefusedFlag> refused_serve_flags();

}  // namespace kvkeep::cli
