#pragma once

// What windowed layers ask of libllama's calls, in windowed models as in hybrid ones. Engine thread only.

#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "engine/llama/library.h"

namespace kvkeep::engine::llama {

// Gives a fork window cells of its own, by reading its window and setting it again. libllama does not reuse shared
// cells: left alone, the window fills with them, and llama_decode finds no cells although the ledger has plenty.
// `buffer` is room to reuse. After an error the sequence is empty.
Status own_window_cells(llama_context& context, llama_seq_id seq, std::vector<std::byte>& buffer);

// Takes the windowed layers' cells from a sequence and leaves its rows, so that these can be read without a copy of the
// window, which mostly is the larger part. No call of libllama does that, but it empties a window before it reads the
// cells of the one to be set, and a cell of no sequence is refused. No cell is taken for it from anybody (a window of
// one row would be accepted, into a cell that may be another sequence's). Whether it worked shows in the state's size.
void drop_window(llama_context& context, llama_seq_id seq);

}  // namespace kvkeep::engine::llama
