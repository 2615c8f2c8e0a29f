#pragma once

// libllama as a library of this process: loads its backends once and catches its log.
//
// libllama explains failures only in its log. The last lines are kept, so that an error message can have the reason;
// every line goes to spdlog at debug level, libllama's own debug lines at trace level. All functions are thread safe.

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

// Loads ggml's backends and catches the log. Call it before any other call of libllama; later calls do nothing.
void start_library();

// Has a library beside libllama write to the same log; `set` is its function for that.
void catch_log(void (*set)(ggml_log_callback, void*));

// Returns the error or warning that libllama logged after `mark = log_mark()` and that says most, its first line only,
// without the name of the function that wrote it; "" if there was none.
std::uint64_t log_mark();
std::string log_reason_since(std::uint64_t mark);

// Returns the text of --list-devices: a line per device that weights can be put on, with its memory.
std::string list_devices();

// Returns libllama's version and then ggml's: "0.7.0, ggml 0.27.0".
std::string library_versions();

// libllama ends the process, with a stack on standard error, if a file has something that it takes for impossible: a
// model without layers, a vocabulary with the same token twice. The user who named the file needs a one-line error, not
// a stack. While an AbortNet lives, a failed assertion of libllama ends the process like an error of the program: a
// line "kvkeep: cannot load PATH: ..." on standard error, and exit status 1. Nothing is unwound. AbortNets may nest; a
// failure on another thread meanwhile is reported in the same words.
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
