#pragma once

// Sequences in a memory in which each has cells of its own (libllama's streams): sliceable, windowed and hybrid models.
//
// No sequence is computed over another's cells, and none shares any. libllama copies only whole sequences between
// streams, and not before its next decode, so nothing here uses that: rows leave and return through buffers of this
// object. To save a range, the whole state is read and the range is cut out; rows that are appended are joined with
// those that are there and set together. Both cost as much as the sequence. Rows lie in the order of their positions,
// however the sequence came about, so that what is computed next has the same bits.
//
// Window rows and points are those of windowed_memory.h and hybrid_memory.h.

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/result.h"
#include "engine/cell_ledger.h"
#include "engine/llama/library.h"
#include "engine/llama/row_layout.h"
#include "engine/llama/sequence_memory.h"
#include "engine/llama/state_parts.h"

namespace kvkeep::engine::llama {

class StreamMemory final : public SequenceMemory {
 public:
  // All sequences of the context hold conversations. The context must outlive this, have a stream per sequence, and be
  // empty. `parts` may have been learnt in a unified memory. Precondition: can_have_own_cells().
  StreamMemory(llama_context& context, const StateParts& parts, MemoryClass memory_class);

  std::uint32_t sequence_count() const override { return ledger_.sequence_count(); }
  std::uint32_t cells_total() const override { return ledger_.total(); }
  std::uint32_t cells_used() const override { return ledger_.used(); }
  bool own_cells() const override { return true; }
  std::uint32_t cells_owned(SeqId seq) const override { return ledger_.owned(seq); }
  std::uint32_t cells_available(SeqId seq) const override { return ledger_.available(seq); }
  Position length(SeqId seq) const override { return ledger_.length(seq); }
  cache::StateShape shape() const override;
  Position complete_from(SeqId seq) const override;
  bool is_complete(SeqId seq) const override;

  std::uint64_t rows_bytes(std::size_t tokens) const override { return rows_.bytes_of(tokens); }
  Result<std::size_t> save_rows(SeqId seq, TokenRange range, MutableByteSpan out) override;
  Status restore_rows(SeqId seq, std::span<const cache::RowPiece> pieces) override;
  std::uint64_t window_bytes(std::size_t tokens) const override { return window_ ? window_->bytes_of(tokens) : 0; }
  // kNotFound also for rows before the last window, where libllama keeps all of them (swa_full): it gives only those.
  Result<std::size_t> save_window(SeqId seq, TokenRange range, MutableByteSpan out) override;
  std::uint64_t point_bytes(SeqId seq) const override;
  Result<std::size_t> save_point(SeqId seq, MutableByteSpan out) override;
  Status restore_point(SeqId seq, std::span<const cache::RowPiece> pieces) override;

  Status fork(SeqId from, SeqId to, Position end) override;
  bool truncate(SeqId seq, Position end) override;
  void clear(SeqId seq) override;
  bool can_shift() const override { return !shape().needs_points() && llama_memory_can_shift(memory_); }
  Status shift(SeqId seq, TokenRange dropped) override;
  void note_appended(SeqId seq, std::size_t tokens) override;
  void drop_undecoded(SeqId seq) override;

 private:
  static std::size_t index(SeqId seq) { return static_cast<std::size_t>(seq.value()); }
  Result<MutableByteSpan> read(SeqId seq, StatePart part);
  Result<cache::RowPiece> read_rows(SeqId seq);
  Result<cache::RowPiece> read_window(SeqId seq);
  Status set_joined(SeqId seq, const RowLayout& layout, StatePart part, std::span<const cache::RowPiece> pieces,
                    const MediaMap& media);
  Status append(SeqId seq, std::span<const cache::RowPiece> pieces);
  Status set_window(SeqId seq, std::span<const cache::RowPiece> pieces);
  Status set_point(SeqId seq, ByteSpan point);
  Status fork_earlier_window(SeqId from, SeqId to, Position end);

  llama_context& context_;
  llama_memory_t memory_;
  std::uint32_t streams_;
  CellLedger ledger_;
  RowLayout rows_;
  std::optional<RowLayout> window_;       // windowed
  std::uint32_t window_tokens_ = 0;       // windowed
  bool points_;                           // hybrid
  std::uint64_t least_point_bytes_;       // hybrid: known before a sequence has a state
  std::vector<std::byte> empty_partial_;  // of this context
  std::vector<bool> has_point_;           // hybrid: recurrent state of the sequence's end is there
  std::vector<std::byte> read_, joined_;  // reused: a first copy into fresh pages is ten times slower
  std::optional<std::pair<SeqId, cache::RowPiece>> rows_read_;  // that lie in read_, as long as the sequence has them
};

// Returns true if StreamMemory takes models of this class. A hybrid's point with window rows has them in the layout's
// form in its midst, and recurrent and opaque models have no rows.
bool can_have_own_cells(MemoryClass memory_class, const StateParts& parts);

}  // namespace kvkeep::engine::llama
