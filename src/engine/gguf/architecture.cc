#include "engine/gguf/architecture.h"

#include <array>

namespace kvkeep::gguf {

std::span<const Architecture> architectures() {
  static constexpr std::array<Architecture, 1> kAll = {{{"llama", plan_llama}}};
  return kAll;
}

}  // namespace kvkeep::gguf
