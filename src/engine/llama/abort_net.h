#pragma once

// libllama ends the process, with a stack on standard error, where a file holds what it takes for impossible: a model
// without layers, a vocabulary with one token twice. The user who named the file
// needs a one-line error, not a stack.

#include <ggml.h>

#include <string>

namespace kvkeep::engine::llama {

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
