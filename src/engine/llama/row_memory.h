#pragma once

// Sequences, and rows in and out of the KV memory of one libllama context (cache::ModelMemory without the model).
//
// Rows leave through a scratch sequence: a range is copied to it (libllama shares the cells, nothing moves), read out,
// and the scratch is emptied. They return the same way: libllama empties a sequence before it sets one, so rows are
// never set into a conversation but into the scratch, and the conversation then shares their cells.
//
// Without a layout (the memory is not one plain KV cache) sequences only grow and are cleared. Engine thread only.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "cache/model_memory.h"
#include "engine/cell_ledger.h"
#include "engine/llama/library.h"
#include "engine/llama/row_layout.h"

namespace kvkeep::engine::llama {

class RowMemory {
 public:
  // Sequences 0 .. sequences - 1 hold conversations; sequence `sequences` is the scratch, if there is a layout. The
  // context outlives this object, and its memory is empty.
  RowMemory(llama_context& context, std::uint32_t sequences, std::optional<RowLayout> layout);

  bool sliceable() const { return layout_.has_value(); }
  const CellLedger& cells() const { return ledger_; }
  // After a decode that put `tokens` rows at the end of `seq`.
  void note_appended(SeqId seq, std::size_t tokens);

  // As in cache::ModelMemory.
  Position length(SeqId seq) const { return ledger_.length(seq); }
  std::uint64_t rows_bytes(std::size_t tokens) const { return layout_ ? layout_->bytes_of(tokens) : 0; }
  Result<std::size_t> save_rows(SeqId seq, TokenRange range, MutableByteSpan out);
  Status restore_rows(SeqId seq, std::span<const cache::RowPiece> pieces);
  Status fork(SeqId from, SeqId to, Position end);
  bool truncate(SeqId seq, Position end);
  void clear(SeqId seq);

 private:
  Status check_pieces(SeqId seq, std::span<const cache::RowPiece> pieces) const;
  Status restore_checked(SeqId seq, std::span<const cache::RowPiece> pieces);
  bool worth_setting_directly(const cache::RowPiece& piece) const;
  Status set_joined(SeqId seq, std::span<const cache::RowPiece> pieces);
  Status set_rows(SeqId seq, ByteSpan rows, TokenRange wanted);

  llama_context& context_;
  llama_memory_t memory_;
  CellLedger ledger_;
  std::optional<RowLayout> layout_;
  llama_seq_id scratch_;
  std::vector<std::byte> joined_;  // reused: a first copy into fresh pages is ten times slower
};

}  // namespace kvkeep::engine::llama
