#include "model_maker/architecture.h"

#include <array>

namespace kvkeep::gguf {

std::span<const Architecture> architectures() {
  static constexpr auto kAll = std::to_array<Architecture>({
      {"llama", "sliceable", Window::kNone, plan_decoder},
      {"gemma3", "windowed", Window::kAlways, plan_decoder},
      {"qwen35", "hybrid", Window::kNone, plan_decoder},
      {"falcon-h1", "hybrid", Window::kNone, plan_decoder},
      {"jamba", "hybrid", Window::kNone, plan_decoder},
      {"lfm2", "hybrid", Window::kOptional, plan_decoder},
      {"mamba", "recurrent", Window::kNone, plan_decoder},
      {"mamba2", "recurrent", Window::kNone, plan_decoder},
      {"deepseek4", "opaque", Window::kAlways, plan_deepseek4},
  });
  return kAll;
}

}  // namespace kvkeep::gguf
