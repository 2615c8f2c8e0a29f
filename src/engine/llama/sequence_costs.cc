#include "engine/llama/sequence_costs.h"

#include <algorithm>

#include "engine/llama/state_bytes.h"

namespace kvkeep::engine::llama {

std::uint32_t affordable_idle_sequences(std::uint32_t wanted, std::uint64_t bytes_per_sequence) {
  const std::uint64_t affordable = kIdleStateBytes / std::max<std::uint64_t>(bytes_per_sequence, 1);
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(wanted, affordable));
}

Status try_whole_state(llama_context& context, std::vector<llama_token> tokens) {
  llama_memory_t memory = llama_get_memory(&context);
  if (llama_decode(&context, llama_batch_get_one(tokens.data(), static_cast<std::int32_t>(tokens.size()))) != 0) {
    return unsupported("the first decode failed");
  }
  const auto saved = get_state(context, 0, StatePart::kWhole);
  llama_memory_clear(memory, true);
  if (!saved) return saved.error();
  TRY(set_state(context, 0, StatePart::kWhole, *saved));
  const auto again = get_state(context, 0, StatePart::kWhole);
  llama_memory_clear(memory, true);
  if (!again || *again != *saved) return unsupported("a whole state comes back changed");
  return {};
}

}  // namespace kvkeep::engine::llama
