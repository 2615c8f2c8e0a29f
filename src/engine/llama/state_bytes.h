#pragma once

// libllama's calls that copy the state of one sequence out and in, with kvkeep's types and errors. Engine thread only.

#include <cstddef>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "engine/llama/library.h"

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

}  // namespace kvkeep::engine::llama
