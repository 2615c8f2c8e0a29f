#pragma once

// Rows of all layers in two parts: those of layers with full attention, and those of layers with a window.
//
// libllama reuses a window's cells as a sequence grows, so that its rows exist from some position on (a run without
// holes). It cuts a sequence anywhere and returns true even if the window needed there is gone; the positions of its
// cells tell whether it is complete. A window is restored as a PARTIAL_ONLY state, which replaces the window that is
// there. Forks get window cells of their own at once: see own_window_cells().

#include <optional>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "engine/llama/library.h"
#include "engine/llama/row_memory.h"

namespace kvkeep::engine::llama {

class WindowedMemory final : public RowMemory {
 public:
  // Precondition: parts.looks_like is kWindowed.
  WindowedMemory(llama_context& context, std::uint32_t conversations, const StateParts& parts, RestoreCalls calls = {});

  cache::StateShape shape() const override { return {.cacheable = true, .window_tokens = window_tokens_}; }
  // It moves up when the sequence is decoded, and may when others are: they take cells that lie before the window.
  Position complete_from(SeqId seq) const override;
  bool is_complete(SeqId seq) const override;
  std::uint64_t window_bytes(std::size_t tokens) const override { return window_layout_.bytes_of(tokens); }
  Result<std::size_t> save_window(SeqId seq, TokenRange range, MutableByteSpan out) override;
  Status restore_point(SeqId seq, std::span<const cache::RowPiece> pieces) override;
  Status fork(SeqId from, SeqId to, Position end) override;

 private:
  Result<std::size_t> read_scratch(std::size_t cells, MutableByteSpan out) override;
  Status check_window(SeqId seq, std::span<const cache::RowPiece> pieces) const;
  Status set_window(SeqId seq, std::span<const cache::RowPiece> pieces);

  RowLayout window_layout_;
  std::uint32_t window_tokens_;
  std::vector<std::byte> buffer_;  // reused for states that are copied
};

// ---- how windowed layers must be handled in libllama's calls, also in hybrid models ----

// Returns the first position to which a sequence of so many tokens can be cut so that its window is there; nullopt if
// the window at its end is not. For such memories libllama returns the positions of the windowed layers. `media` has
// the sequence's chunks.
std::optional<Position> window_complete_from(llama_memory_t memory, SeqId seq, Position length,
                                             std::uint32_t window_tokens, const MediaMap& media);

// Gives a fork window cells of its own, by reading its window and setting it again. libllama does not reuse shared
// cells: otherwise the window fills with them, and llama_decode finds no cells although the ledger has plenty. `buffer`
// is room to reuse. After an error the sequence is empty.
Status own_window_cells(llama_context& context, llama_seq_id seq, std::vector<std::byte>& buffer);

// Takes the windowed layers' cells from a sequence and leaves its rows, so that these can be read without a copy of the
// window, which mostly is the larger part. No call of libllama does that, but it empties a window before it reads the
// cells of the one to be set, and refuses a cell of no sequence. No other sequence loses a cell (a window of one row
// would be accepted, into a cell that may be another sequence's). The state's size shows whether it worked.
void drop_window(llama_context& context, llama_seq_id seq);

}  // namespace kvkeep::engine::llama
