#pragma once

// Rows of all layers in two parts: those of layers that see everything, and those of layers that see a window.
//
// libllama reuses a window's cells as a sequence grows, so its rows are there from some position on (a run without
// holes). It cuts a sequence anywhere and says yes also where the window needed there is gone; where it really stands
// is read from its positions. A window is put back as a PARTIAL_ONLY state that replaces what is there. Forks get
// window cells of their own at once: see window_cells.h.

#include <vector>

#include "engine/llama/row_memory.h"

namespace kvkeep::engine::llama {

class WindowedMemory final : public RowMemory {
 public:
  // Precondition: parts.looks_like is kWindowed.
  WindowedMemory(llama_context& context, std::uint32_t conversations, const StateParts& parts, RestoreCalls calls = {});

  cache::StateShape shape() const override { return {.cacheable = true, .window_tokens = window_tokens_}; }
  // It moves up when the sequence is decoded, and may when others are: they take cells that lie before the window.
  Position stands_from(SeqId seq) const override;
  bool stands(SeqId seq) const override;
  std::uint64_t window_bytes(std::size_t tokens) const override { return window_layout_.bytes_of(tokens); }
  Result<std::size_t> save_window(SeqId seq, TokenRange range, MutableByteSpan out) override;
  Status restore_point(SeqId seq, std::span<const cache::RowPiece> pieces) override;
  Status fork(SeqId from, SeqId to, Position end) override;

 private:
  Result<std::size_t> read_scratch(TokenRange range, MutableByteSpan out) override;
  Status check_window(SeqId seq, std::span<const cache::RowPiece> pieces) const;
  Status set_window(SeqId seq, std::span<const cache::RowPiece> pieces);

  RowLayout window_layout_;
  std::uint32_t window_tokens_;
  std::vector<std::byte> buffer_;  // reused: states that are copied on
};

}  // namespace kvkeep::engine::llama
