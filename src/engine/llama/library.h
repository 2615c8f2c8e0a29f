#pragma once

// libllama as a library of this process: its backends are loaded once, its log is caught.
//
// libllama explains failures only in its log. The last lines are kept, so that an error message can carry the reason;
// every line goes on to spdlog at debug level, its own debug lines at trace level. All functions are thread safe.

#include <ggml-backend.h>
#include <ggml.h>
#include <llama.h>

#include <cstdint>
#include <memory>
#include <string>

#include "base/types.h"

namespace kvkeep::engine::llama {

struct ModelDeleter {
  void operator()(llama_model* model) const { llama_model_free(model); }
};
struct ContextDeleter {
  void operator()(llama_context* context) const { llama_free(context); }
};
struct SamplerDeleter {
  void operator()(llama_sampler* sampler) const { llama_sampler_free(sampler); }
};
using ModelHandle = std::shared_ptr<llama_model>;
using ContextHandle = std::unique_ptr<llama_context, ContextDeleter>;
using SamplerHandle = std::unique_ptr<llama_sampler, SamplerDeleter>;

// Loads ggml's backends and catches the log. Call before anything else of libllama; later calls do nothing.
void start_library();

// Errors and warnings that libllama logged after `mark = log_mark()`, most telling first line only, without the name
// of the function that wrote it. Empty: none.
std::uint64_t log_mark();
std::string log_reason_since(std::uint64_t mark);

// What --list-devices prints: a line per device that weights can be put on, with its memory.
std::string list_devices();

// libllama's and then ggml's: "0.7.0, ggml 0.27.0".
std::string library_versions();

// libllama ends the process, with a stack on standard error, where a file holds what it takes for impossible: a model
// without layers, a vocabulary with one token twice. The user who named the file needs a one-line error, not a stack.
// While one of these lives, an assertion of libllama that fails ends the process like an error of the program: a line
// "kvkeep: cannot load PATH: ..." on standard error, and exit status 1. Nothing is unwound. They may nest; what fails
// on another thread meanwhile is told in the same words.
class AbortNet {
 public:
  explicit AbortNet(const std::string& path);
  ~AbortNet();
  AbortNet(const AbortNet&) = delete;
  AbortNet& operator=(const AbortNet&) = delete;

 private:
  const ggml_abort_callback_t before_;
};

}  // namespace kvkeep::engine::llama
