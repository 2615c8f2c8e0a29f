#pragma once

// Sequences, and rows in and out of the KV memory of one libllama context (cache::ModelMemory without the model).
//
// Rows leave through a scratch sequence: a range is copied to it (libllama shares the cells, nothing moves), read out,
// and the scratch is emptied. They return the same way: libllama empties a sequence before it sets one, so rows are set
// into the scratch, and the conversation then shares their cells; only the first rows of an empty one go there
// straight. Small pieces are joined before they are set; a thread of this object joins the next ones meanwhile.
//
// Without a layout (the memory is not one plain KV cache) sequences only grow and are cleared. Engine thread only.

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "cache/model_memory.h"
#include "engine/cell_ledger.h"
#include "engine/llama/library.h"
#include "engine/llama/row_layout.h"
#include "os/executor.h"

namespace kvkeep::engine::llama {

// How restores are cut into calls of libllama; the figures were measured from 16 to 128 and 4 to 16 MiB with
// `kvkeep bench --parts`.
struct RestoreCalls {
  // Every set, copy and removal walks all cells of the memory, about 1.5 ns each in sum; a join costs another thread
  // one more copy of the bytes. So a piece is set from where it lies if it has more than this many bytes per cell.
  std::uint64_t direct_bytes_per_cell = 128;
  // One join is at most this long: it stays in the outer caches between the two copies, and the first is soon done.
  std::uint64_t most_joined_bytes = std::uint64_t{4} << 20;
};

class RowMemory {
 public:
  // Sequences 0 .. sequences - 1 hold conversations; sequence `sequences` is the scratch, if there is a layout. The
  // context outlives this object, and its memory is empty.
  RowMemory(llama_context& context, std::uint32_t sequences, std::optional<RowLayout> layout, RestoreCalls calls = {});

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
  using Pieces = std::span<const cache::RowPiece>;
  // Neighbouring pieces that libllama takes in one call, and that call's argument.
  struct Step {
    Pieces pieces;
    ByteSpan rows;
  };

  Status check_pieces(SeqId seq, Pieces pieces) const;
  bool worth_setting_directly(const cache::RowPiece& piece) const;
  std::vector<Step> plan_steps(Pieces pieces) const;
  void join_step(Step& step, std::size_t number);
  Status restore_steps(SeqId seq, std::span<Step> steps);
  Status set_steps(SeqId seq, std::span<Step> steps);
  Status set_rows(SeqId seq, const Step& step);

  llama_context& context_;
  llama_memory_t memory_;
  CellLedger ledger_;
  std::optional<RowLayout> layout_;
  RestoreCalls calls_;
  llama_seq_id scratch_;
  std::array<std::vector<std::byte>, 2> joined_;  // reused: a first copy into fresh pages is ten times slower
  std::unique_ptr<os::Executor> joiner_;
};

}  // namespace kvkeep::engine::llama
