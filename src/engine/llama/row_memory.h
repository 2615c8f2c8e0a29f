#pragma once

// Sequences and their rows in the KV memory of one libllama context: all that sliceable models need, and the base for
// models that need more than rows.
//
// Rows leave through a scratch sequence: a range is copied to it (libllama shares the cells, nothing moves) and read,
// and the scratch is emptied. They return the same way: libllama empties a sequence before it sets one, so that rows
// are set into the scratch, and the conversation then shares their cells; only the first rows of an empty one are set
// directly. Small pieces are joined before they are set; a thread of this object joins the next ones meanwhile.

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "engine/cell_ledger.h"
#include "engine/llama/library.h"
#include "engine/llama/row_layout.h"
#include "engine/llama/sequence_memory.h"
#include "os/executor.h"

namespace kvkeep::engine::llama {

// How restores are divided into calls of libllama; the figures were chosen by measuring 16 to 128 and 4 to 16 MiB with
// `kvkeep bench --parts`.
struct RestoreCalls {
  // Every set, copy and removal walks all cells of the memory, about 1.5 ns each in sum; a join costs another thread
  // one more copy of the bytes. So a piece is set without a join if it has more than this many bytes per cell.
  std::uint64_t direct_bytes_per_cell = 128;
  // One join is at most this long: it stays in the outer caches between the two copies, and the first is done soon.
  std::uint64_t most_joined_bytes = std::uint64_t{4} << 20;
};

class RowMemory : public SequenceMemory {
 public:
  // Sequences 0 .. conversations - 1 hold conversations; sequence `conversations` is the scratch. The context must
  // outlive this object, and its memory must be empty.
  RowMemory(llama_context& context, std::uint32_t conversations, RowLayout layout, RestoreCalls calls = {});

  std::uint32_t sequence_count() const override { return ledger_.sequence_count(); }
  std::uint32_t cells_total() const override { return ledger_.total(); }
  std::uint32_t cells_used() const override { return ledger_.used(); }
  std::uint32_t cells_owned(SeqId seq) const override { return ledger_.owned(seq); }
  Position length(SeqId seq) const override { return ledger_.length(seq); }
  cache::StateShape shape() const override { return {.cacheable = true}; }
  Position complete_from(SeqId) const override { return {}; }
  bool is_complete(SeqId) const override { return true; }
  std::uint64_t rows_bytes(std::size_t tokens) const override { return layout_.bytes_of(tokens) + empty_rest_.size(); }
  Result<std::size_t> save_rows(SeqId seq, TokenRange range, MutableByteSpan out) override;
  Status restore_rows(SeqId seq, std::span<const cache::RowPiece> pieces) override;
  Status fork(SeqId from, SeqId to, Position end) override;
  bool truncate(SeqId seq, Position end) override;
  void clear(SeqId seq) override;
  // Only if rows are all of a model's state: complete_from() of a window does not know of rows that moved, and a
  // recurrent state has read the dropped tokens.
  bool can_shift() const override { return !shape().needs_points() && llama_memory_can_shift(memory_); }
  // libllama rotates the moved keys in its next decode.
  Status shift(SeqId seq, TokenRange dropped) override;
  void note_appended(SeqId seq, std::size_t tokens) override;
  void drop_undecoded(SeqId seq) override { truncate(seq, length(seq)); }

 protected:
  // For models whose whole state has more parts after the rows: `empty_rest` is their bytes when they are empty.
  RowMemory(llama_context& context, std::uint32_t conversations, RowLayout layout, ByteSpan empty_rest,
            RestoreCalls calls = {});
  // Reads the rows of the scratch, which holds that many cells, and the parts after them. Returns the rows' bytes.
  virtual Result<std::size_t> read_scratch(std::size_t cells, MutableByteSpan out);
  // For derived classes that copy other state through the scratch. Precondition: `range` cuts no chunk in a plane.
  void copy_to_scratch(SeqId seq, TokenRange range);
  void empty_scratch();

  llama_context& context() const { return context_; }
  llama_memory_t memory() const { return memory_; }
  llama_seq_id scratch() const { return scratch_; }
  const RowLayout& layout() const { return layout_; }

 private:
  using Pieces = std::span<const cache::RowPiece>;
  // Neighbouring pieces that libllama takes in one call, and the argument of that call.
  struct Step {
    Pieces pieces;
    ByteSpan state;
  };

  Result<std::size_t> save_part(SeqId seq, TokenRange range, MutableByteSpan out);
  Status restore_checked(SeqId seq, Pieces pieces);
  Status check_pieces(SeqId seq, Pieces pieces) const;
  std::uint64_t state_bytes(std::size_t cells) const { return rows_bytes(cells); }
  bool worth_setting_directly(const cache::RowPiece& piece, const MediaMap& media) const;
  std::vector<Step> plan_steps(Pieces pieces, const MediaMap& media) const;
  void join_step(Step& step, std::size_t number, const MediaMap& media);
  Status restore_steps(SeqId seq, std::span<Step> steps, const MediaMap& media);
  Status set_steps(SeqId seq, std::span<Step> steps, const MediaMap& media);
  Status set_rows(SeqId seq, const Step& step, const MediaMap& media);

  llama_context& context_;
  llama_memory_t memory_;
  CellLedger ledger_;
  RowLayout layout_;
  std::vector<std::byte> empty_rest_;
  std::vector<std::byte> chunks_;  // reused: rows of whole chunks of which a part is saved
  RestoreCalls calls_;
  llama_seq_id scratch_;
  std::array<std::vector<std::byte>, 2> joined_;  // reused: a first copy into fresh pages is ten times slower
  std::unique_ptr<os::Executor> joiner_;
};

// Moves the rows after the dropped ones down, in libllama's memory and in the ledger. kUnsupported: nothing has
// changed.
Status shift_rows(llama_memory_t memory, CellLedger& ledger, SeqId seq, TokenRange dropped);

}  // namespace kvkeep::engine::llama
