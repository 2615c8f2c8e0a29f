#pragma once

// What windowed layers ask of libllama's calls, in windowed models as in hybrid ones. Engine thread only.

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "engine/llama/library.h"

namespace kvkeep::engine::llama {

// Gives a fork window cells of its own, by reading its window and setting it again. libllama does not reuse shared
// cells: left alone, the window fills with them, and llama_decode finds no cells although the ledger has plenty.
// `buffer` is room to reuse. After an error the sequence is empty.
Status own_window_cells(llama_context& context, llama_seq_id seq, std::vector<std::byte>& buffer);

// The first `rows_bytes` bytes of the whole state of `seq`: the rows, without the windowed layers' rows behind them,
// which libllama hands out with them. Returns rows_bytes.
Result<std::size_t> read_rows_before_window(llama_context& context, llama_seq_id seq, std::uint64_t rows_bytes,
                                            std::vector<std::byte>& buffer, MutableByteSpan out);

}  // namespace kvkeep::engine::llama
