#include "engine/engine.h"

namespace kvkeep::engine {

std::string_view to_string(MemoryClass memory_class) {
  switch (memory_class) {
    case MemoryClass::kSliceable: return "sliceable";
    case MemoryClass::kWindowed: return "windowed";
    case MemoryClass::kHybrid: return "hybrid";
    case MemoryClass::kRecurrent: return "recurrent";
    case MemoryClass::kOpaque: return "opaque";
    case MemoryClass::kUncached: return "uncached";
  }
  return "unknown";
}

}  // namespace kvkeep::engine
