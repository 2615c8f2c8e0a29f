#pragma once

// One memory for those who use an engine, whatever layout its cells have now: passes each call on to the memory that
// was made last. Engine thread only.

#include <cstdint>
#include <span>

#include "engine/llama/sequence_memory.h"

namespace kvkeep::engine::llama {

class RelaidMemory final : public cache::ModelMemory {
 public:
  // Precondition of all other calls: the memory that was shown last is alive.
  explicit RelaidMemory(SequenceMemory& memory) : shape_(memory.shape()), now_(&memory) {}
  void show(SequenceMemory& memory) { now_ = &memory; }

  std::uint32_t sequence_count() const override { return now_->sequence_count(); }
  std::uint32_t cells_total() const override { return now_->cells_total(); }
  std::uint32_t cells_used() const override { return now_->cells_used(); }
  bool own_cells() const override { return now_->own_cells(); }
  std::uint32_t cells_owned(SeqId seq) const override { return now_->cells_owned(seq); }
  Position length(SeqId seq) const override { return now_->length(seq); }
  cache::StateShape shape() const override { return shape_; }  // any thread
  Position complete_from(SeqId seq) const override { return now_->complete_from(seq); }
  std::uint64_t rows_bytes(std::size_t tokens) const override { return now_->rows_bytes(tokens); }
  Result<std::size_t> save_rows(SeqId seq, TokenRange range, MutableByteSpan out) override {
    return now_->save_rows(seq, range, out);
  }
  Status restore_rows(SeqId seq, std::span<const cache::RowPiece> pieces) override {
    return now_->restore_rows(seq, pieces);
  }
  std::uint64_t window_bytes(std::size_t tokens) const override { return now_->window_bytes(tokens); }
  Result<std::size_t> save_window(SeqId seq, TokenRange range, MutableByteSpan out) override {
    return now_->save_window(seq, range, out);
  }
  std::uint64_t point_bytes(SeqId seq) const override { return now_->point_bytes(seq); }
  Result<std::size_t> save_point(SeqId seq, MutableByteSpan out) override { return now_->save_point(seq, out); }
  Status restore_point(SeqId seq, std::span<const cache::RowPiece> pieces) override {
    return now_->restore_point(seq, pieces);
  }
  Status fork(SeqId from, SeqId to, Position end) override { return now_->fork(from, to, end); }
  bool truncate(SeqId seq, Position end) override { return now_->truncate(seq, end); }
  void clear(SeqId seq) override { now_->clear(seq); }
  bool can_shift() const override { return now_->can_shift(); }
  Status shift(SeqId seq, TokenRange dropped) override { return now_->shift(seq, dropped); }

 private:
  const cache::StateShape shape_;  // the same in each layout
  SequenceMemory* now_;
};

}  // namespace kvkeep::engine::llama
