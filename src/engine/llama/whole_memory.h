#pragma once

// Sequences whose state can only be saved as a whole: of recurrent models, whose state does not grow, and of opaque
// ones, whose state cannot be cut here.
//
// There are no rows, so that restore_rows takes pieces without bytes, and a length is only a number until restore_point
// has restored the state of that position. fork and truncate leave such a number, except at a sequence's end.
//
// Cells are counted so that plans match libllama: if each sequence has its own (recurrent models have no cells at all),
// the count is that of all sequences together, and no sequence has to leave for another. If all sequences of an opaque
// model share one pool, the cells of that pool are counted, and a fork as if it shared nothing: whether its cells are
// shared is unknown, so that a plan may make more room than needed, but not less.

#include <vector>

#include "engine/llama/sequence_memory.h"

namespace kvkeep::engine::llama {

class WholeMemory final : public SequenceMemory {
 public:
  WholeMemory(llama_context& context, std::uint32_t conversations, const StateParts& parts,
              const ClassFinding& finding);

  std::uint32_t sequence_count() const override { return static_cast<std::uint32_t>(sequences_.size()); }
  std::uint32_t cells_total() const override { return cells_total_; }
  std::uint32_t cells_used() const override;
  std::uint32_t cells_owned(SeqId seq) const override { return at(seq).length.value(); }
  Position length(SeqId seq) const override { return at(seq).length; }
  cache::StateShape shape() const override;
  Position complete_from(SeqId seq) const override { return length(seq); }
  bool is_complete(SeqId seq) const override { return at(seq).complete; }
  std::uint64_t rows_bytes(std::size_t) const override { return 0; }
  Result<std::size_t> save_rows(SeqId, TokenRange, MutableByteSpan) override { return std::size_t{0}; }
  Status restore_rows(SeqId seq, std::span<const cache::RowPiece> pieces) override;
  std::uint64_t point_bytes(SeqId seq) const override;
  Result<std::size_t> save_point(SeqId seq, MutableByteSpan out) override;
  Status restore_point(SeqId seq, std::span<const cache::RowPiece> pieces) override;
  Status fork(SeqId from, SeqId to, Position end) override;
  bool truncate(SeqId seq, Position end) override;
  void clear(SeqId seq) override;
  void note_appended(SeqId seq, std::size_t tokens) override;
  void drop_undecoded(SeqId seq) override { clear(seq); }

 private:
  struct Sequence {
    Position length;
    bool complete = true;  // libllama has the state of `length`; if false, it has none
  };
  const Sequence& at(SeqId seq) const;
  Sequence& at(SeqId seq);
  void put_number(SeqId seq, Position length);
  Status copy_state(SeqId from, SeqId to);

  llama_context& context_;
  llama_memory_t memory_;
  ClassFinding finding_;
  std::uint64_t least_point_bytes_;  // of a recurrent state: known before a sequence has one
  std::vector<Sequence> sequences_;
  std::uint32_t cells_total_;
  std::vector<std::byte> buffer_;  // reused: the state that is copied between two sequences
};

}  // namespace kvkeep::engine::llama
