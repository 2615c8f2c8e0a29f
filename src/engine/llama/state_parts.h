#pragma once

// What the state of one sequence consists of: learnt from its bytes, once per context.
//
// Whole state = envelope ++ rows ++ rest, where the rest is what the PARTIAL_ONLY state holds behind its envelope: the
// rows of windowed layers, recurrent state, both or nothing. Where that equation does not hold, or the rows are not
// those of one plain KV cache, only the whole state is known to be of use.

#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.h"
#include "engine/engine.h"
#include "engine/llama/library.h"
#include "engine/llama/row_layout.h"

namespace kvkeep::engine::llama {

struct StateParts {
  // What the bytes look like. That they can also be cut and put back must be tried: clone_trial.h.
  MemoryClass looks_like = MemoryClass::kOpaque;
  std::optional<RowLayout> rows;           // sliceable, windowed, hybrid
  std::optional<RowLayout> window;         // windowed
  std::uint32_t window_tokens = 0;         // that the next token sees in windowed layers, also within hybrids' points
  std::vector<std::byte> empty_partial{};  // PARTIAL_ONLY state of an empty sequence
  std::vector<std::byte> empty_whole{};    // whole state of an empty sequence
  // What the memory costs for each sequence, whether in use or not: its recurrent state, its window.
  std::uint64_t bytes_per_sequence = 0;
  std::uint64_t point_bytes = 0;  // hybrid, recurrent: of a point

  // Behind the rows of a state without a window and recurrent state.
  ByteSpan empty_rest() const;
};

// What the trials found out, and what cannot be seen from the state's bytes.
struct ClassFinding {
  MemoryClass memory_class = MemoryClass::kUncached;
  // Opaque: a whole sequence can be copied inside the memory; else a fork goes through its bytes.
  bool copies_whole = false;
  // Opaque: each sequence has as many cells as the context has tokens, instead of all having them together.
  bool cells_per_sequence = false;
};

// Earlier tokens that windowed layers look back at. 0: there are no such layers.
std::uint32_t window_tokens_of(const llama_model& model);

// Rows pass through a sequence of their own.
bool needs_scratch(MemoryClass memory_class);

// Decodes `tokens` into sequence 0, looks at its state, and empties the memory. Precondition: the memory is empty.
// kUnsupported: the tokens cannot be decoded.
Result<StateParts> learn_state_parts(llama_context& context, std::vector<llama_token> tokens);

// Memory for the state of idle conversations. One more of them saves a restore from RAM, which runs at several GB/s:
// more memory than this is better used for something else.
inline constexpr std::uint64_t kIdleStateBytes = std::uint64_t{256} << 20;

// As many of `wanted` as kIdleStateBytes hold.
std::uint32_t affordable_idle_sequences(std::uint32_t wanted, std::uint64_t bytes_per_sequence);

// For models that no clone could be made of: computes `tokens`, takes the whole state and puts it back. kUnsupported:
// other bytes come back. The memory is empty before and after.
Status try_whole_state(llama_context& context, std::vector<llama_token> tokens);

}  // namespace kvkeep::engine::llama
