#include "engine/llama/abort_net.h"

#include <cstdio>
#include <cstdlib>

namespace kvkeep::engine::llama {
namespace {

constexpr int kErrorExitCode = 1;

// libllama's callback takes no argument of ours. Never freed, as threads may still read it while the process ends.
std::string& loading_path() {
  static auto* path = new std::string;
  return *path;
}

void end_with_a_line(const char* message) {
  std::fprintf(stderr,
               "kvkeep: cannot load %s: the file is damaged, or made in a way that libllama does not know (%s)\n",
               loading_path().c_str(), message);
  std::fflush(stderr);
  std::_Exit(kErrorExitCode);
}

}  // namespace

AbortNet::AbortNet(const std::string& path) : before_(ggml_set_abort_callback(end_with_a_line)) {
  loading_path() = path;
}

AbortNet::~AbortNet() { ggml_set_abort_callback(before_); }

}  // namespace kvkeep::engine::llama
