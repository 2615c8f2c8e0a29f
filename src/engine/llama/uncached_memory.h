#pragma once

// Sequences of a model whose state cannot be saved: they only grow and are cleared.

#include "engine/cell_ledger.h"
#include "engine/llama/sequence_memory.h"

namespace kvkeep::engine::llama {

class UncachedMemory final : public SequenceMemory {
 public:
  UncachedMemory(llama_context& context, std::uint32_t conversations);

  std::uint32_t sequence_count() const override { return ledger_.sequence_count(); }
  std::uint32_t cells_total() const override { return ledger_.total(); }
  std::uint32_t cells_used() const override { return ledger_.used(); }
  std::uint32_t cells_owned(SeqId seq) const override { return ledger_.owned(seq); }
  Position length(SeqId seq) const override { return ledger_.length(seq); }
  cache::StateShape shape() const override { return {}; }
  Position complete_from(SeqId seq) const override { return length(seq); }
  bool is_complete(SeqId) const override { return true; }
  std::uint64_t rows_bytes(std::size_t) const override { return 0; }
  Result<std::size_t> save_rows(SeqId, TokenRange, MutableByteSpan) override { return refusal(); }
  Status restore_rows(SeqId seq, std::span<const cache::RowPiece> pieces) override;
  Status fork(SeqId from, SeqId to, Position end) override;
  bool truncate(SeqId seq, Position end) override;
  void clear(SeqId seq) override;
  void note_appended(SeqId seq, std::size_t tokens) override;
  void drop_undecoded(SeqId seq) override { clear(seq); }

 private:
  static Error refusal() { return unsupported("this model's state cannot be saved"); }

  llama_memory_t memory_;
  CellLedger ledger_;
};

}  // namespace kvkeep::engine::llama
