#include "engine/llama/sequence_memory.h"

#include "engine/llama/hybrid_memory.h"
#include "engine/llama/row_memory.h"
#include "engine/llama/uncached_memory.h"
#include "engine/llama/whole_memory.h"
#include "engine/llama/windowed_memory.h"

namespace kvkeep::engine::llama {

std::unique_ptr<SequenceMemory> make_memory(llama_context& context, std::uint32_t conversations,
                                            const StateParts& parts, const ClassFinding& finding) {
  switch (finding.memory_class) {
    case MemoryClass::kSliceable: return std::make_unique<RowMemory>(context, conversations, *parts.rows);
    case MemoryClass::kWindowed: return std::make_unique<WindowedMemory>(context, conversations, parts);
    case MemoryClass::kHybrid: return std::make_unique<HybridMemory>(context, conversations, parts);
    case MemoryClass::kRecurrent:
    case MemoryClass::kOpaque: return std::make_unique<WholeMemory>(context, conversations, parts, finding);
    case MemoryClass::kUncached: break;
  }
  return std::make_unique<UncachedMemory>(context, conversations);
}

}  // namespace kvkeep::engine::llama
