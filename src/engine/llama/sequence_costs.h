#pragma once

// How many sequences a context is made for, where each costs memory whether it is used or not (recurrent state, a
// window), and the trial of last resort.

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "engine/llama/library.h"

namespace kvkeep::engine::llama {

// Memory for the state of idle conversations. One more of them saves a restore from RAM, which runs at several GB/s:
// more memory than this is better used for something else.
inline constexpr std::uint64_t kIdleStateBytes = std::uint64_t{256} << 20;

// As many of `wanted` as kIdleStateBytes hold.
std::uint32_t affordable_idle_sequences(std::uint32_t wanted, std::uint64_t bytes_per_sequence);

// For models that no clone could be made of: computes `tokens`, takes the whole state and puts it back. kUnsupported:
// other bytes come back. The memory is empty before and after.
Status try_whole_state(llama_context& context, std::vector<llama_token> tokens);

}  // namespace kvkeep::engine::llama
