#pragma once

// The state of one sequence: libllama's calls that copy it out and in, and its parts, learnt from its bytes, once per
// context. Engine thread only.
//
// Whole state = envelope ++ rows ++ rest, where rest is the PARTIAL_ONLY state without its envelope: the rows of
// windowed layers, recurrent state, both or nothing. If that equation does not hold, or the rows are not those of one
// plain KV cache, only the whole state can be used.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "engine/engine.h"
#include "engine/llama/library.h"
#include "engine/llama/row_layout.h"

namespace kvkeep::engine::llama {

enum class StatePart {
  kWhole,
  kPartial,  // only state that rows cannot give: the windowed layers' rows, recurrent state
};

// The state's envelope: a magic number and the sequence, which is ignored when read back.
inline constexpr std::size_t kEnvelopeBytes = 8;

inline llama_pos to_pos(Position position) { return static_cast<llama_pos>(position.value()); }

// Returns how many bytes get_state needs now. Counts without copying.
std::size_t state_size(llama_context& context, llama_seq_id seq, StatePart part);
// Copies into `out`; returns the bytes used. kIo if libllama returned none, or `out` is too small.
Result<std::size_t> get_state(llama_context& context, llama_seq_id seq, StatePart part, MutableByteSpan out);
Result<std::vector<std::byte>> get_state(llama_context& context, llama_seq_id seq, StatePart part);
// Replaces that part of the sequence. libllama notices only gross damage. After an error the whole sequence is empty,
// because libllama damages it before it refuses. kNoSpace if no cells are free, kIo if it refused.
Status set_state(llama_context& context, llama_seq_id seq, StatePart part, ByteSpan bytes);

// Returns `error` with the reason that libllama logged since `mark`.
Error with_reason(Error error, std::uint64_t mark);

struct StateParts {
  // As the bytes suggest. Whether state can also be cut and put back must be tried: clone_trial.h.
  MemoryClass looks_like = MemoryClass::kOpaque;
  std::optional<RowLayout> rows;           // sliceable, windowed, hybrid
  std::optional<RowLayout> window;         // windowed
  std::uint32_t window_tokens = 0;         // that the next token sees in windowed layers, also in hybrids' points
  std::vector<std::byte> empty_partial{};  // PARTIAL_ONLY state of an empty sequence
  std::vector<std::byte> empty_whole{};    // whole state of an empty sequence
  // Memory that each sequence costs, in use or not: its recurrent state, its window.
  std::uint64_t bytes_per_sequence = 0;
  std::uint64_t point_bytes = 0;  // for hybrid, recurrent

  // The bytes after the rows in a state without a window and recurrent state.
  ByteSpan empty_rest() const;
};

// The results of the trials, and facts that the state's bytes do not show.
struct ClassFinding {
  MemoryClass memory_class = MemoryClass::kUncached;
  // For opaque: a whole sequence can be copied inside the memory; if not, a fork copies its bytes.
  bool copies_whole = false;
  // For opaque: each sequence has as many cells as the context has tokens; if not, all share that many.
  bool cells_per_sequence = false;
  // For sliceable, windowed and hybrid: sequences may have cells of their own (stream_memory.h), and state goes over
  // from such a memory to one with a pool, and back. Tried only where ModelOptions::own_cells or choose_cells asks
  // for it.
  bool own_cells = false;
};

// Returns how many earlier tokens windowed layers see; 0 if there are no such layers.
std::uint32_t window_tokens_of(const llama_model& model);

// Returns true if rows pass through a scratch sequence.
bool needs_scratch(MemoryClass memory_class);

// Decodes `tokens` into sequence 0, reads its state, and empties the memory. Precondition: the memory is empty.
// kIo if the tokens cannot be decoded.
Result<StateParts> learn_state_parts(llama_context& context, std::vector<llama_token> tokens);

// Memory for the state of idle conversations. One more of them saves a restore from RAM, which runs at several GB/s:
// memory beyond this has better uses.
inline constexpr std::uint64_t kIdleStateBytes = std::uint64_t{256} << 20;

// Returns how many of `wanted` sequences kIdleStateBytes are enough for.
std::uint32_t affordable_idle_sequences(std::uint32_t wanted, std::uint64_t bytes_per_sequence);

// For models without a clone: computes `tokens`, reads the whole state and puts it back. kUnsupported if other bytes
// come back. The memory is empty before and after.
Status try_whole_state(llama_context& context, std::vector<llama_token> tokens);

}  // namespace kvkeep::engine::llama
