#pragma once

// Attention rows with recurrent state (and, in some models, windowed layers): rows, plus a point.
//
// A point is the PARTIAL_ONLY state. Recurrent state exists only at a sequence's end: libllama refuses to cut it,
// copies it whole with any range of rows, and would decode a sequence with the state of another position. So wherever
// rows are copied without it, it is dropped at once by setting an empty partial state, which leaves only the rows.
//
// Forks share recurrent state until one of them is decoded. Cells of windowed layers must not stay shared: libllama
// does not reuse shared cells, and decodes fail once the window has moved past them. libllama's own rollback (n_rs_seq)
// is not used: it returns true with a wrong state if it reaches back past the last ubatch.

#include <vector>

#include "engine/llama/row_memory.h"

namespace kvkeep::engine::llama {

class HybridMemory final : public RowMemory {
 public:
  // Precondition: parts.looks_like is kHybrid.
  HybridMemory(llama_context& context, std::uint32_t conversations, const StateParts& parts, RestoreCalls calls = {});

  cache::StateShape shape() const override { return {.cacheable = true, .points = true}; }
  Position complete_from(SeqId seq) const override { return length(seq); }
  bool is_complete(SeqId seq) const override { return complete_[index(seq)]; }
  std::uint64_t point_bytes(SeqId seq) const override;
  Result<std::size_t> save_point(SeqId seq, MutableByteSpan out) override;
  Status restore_rows(SeqId seq, std::span<const cache::RowPiece> pieces) override;
  Status restore_point(SeqId seq, std::span<const cache::RowPiece> pieces) override;
  Status fork(SeqId from, SeqId to, Position end) override;
  bool truncate(SeqId seq, Position end) override;
  void clear(SeqId seq) override;
  void drop_undecoded(SeqId seq) override { clear(seq); }

 private:
  static std::size_t index(SeqId seq) { return static_cast<std::size_t>(seq.value()); }
  Result<std::size_t> read_scratch(std::size_t cells, MutableByteSpan out) override;
  Status drop_point(llama_seq_id seq);
  Status finish_fork(SeqId to, bool complete);

  std::vector<std::byte> empty_partial_;
  std::uint64_t least_point_bytes_;  // known before a sequence has a state; points with a window grow
  bool has_window_;
  std::vector<bool> complete_;
  std::vector<std::byte> buffer_;  // reused for states that are copied
};

}  // namespace kvkeep::engine::llama
