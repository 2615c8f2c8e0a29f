#pragma once

// Counts the cells of a KV memory: how many each sequence holds, and which of them forks share.
//
// Either all sequences take cells from one pool, and forks share them; or each sequence has a pool of its own, and a
// fork holds copies. Only counts, no rows: the engine asks before it decodes whether the cells suffice, because
// libllama reports a shortage only afterwards. A cell has a reference count; it is free when no sequence refers to it.
// Cell numbers are the ledger's own (libllama chooses other places), stable while the cell is in use. Not thread safe.

#include <cstdint>
#include <span>
#include <vector>

#include "base/types.h"

namespace kvkeep::engine {

class CellLedger {
 public:
  // One pool for all sequences.
  CellLedger(std::uint32_t cells_total, std::uint32_t sequence_count);
  // A pool of so many cells for each sequence.
  static CellLedger with_own_cells(std::uint32_t cells_each, std::uint32_t sequence_count);

  std::uint32_t sequence_count() const { return static_cast<std::uint32_t>(sequences_.size()); }
  std::uint32_t total() const { return static_cast<std::uint32_t>(references_.size()); }
  // Distinct cells in use.
  std::uint32_t used() const { return total() - available(); }
  std::uint32_t available() const;
  // Cells that the sequence can take.
  std::uint32_t available(SeqId seq) const { return static_cast<std::uint32_t>(free_[pool(seq)].size()); }

  Position length(SeqId seq) const { return Position{static_cast<std::uint32_t>(cells(seq).size())}; }
  // Returns how many cells clear(seq) would free. O(length).
  std::uint32_t owned(SeqId seq) const;
  // Returns the cell of each position of the sequence. Valid until the sequence changes.
  std::span<const std::uint32_t> cells(SeqId seq) const;

  // Takes `count` new cells at the sequence's end. Returns false, and changes nothing, if too few are free.
  bool append(SeqId seq, std::size_t count);
  // `to` shares the first `end` cells of `from`, or takes as many from its own pool. Preconditions: `to` is empty,
  // end <= length(from). Copies 4 bytes per position.
  void fork(SeqId from, SeqId to, Position end);
  // Keeps [0, end). Precondition: end <= length(seq).
  void truncate(SeqId seq, Position end);
  // Gives up the cells of `dropped`; the later ones move down. Preconditions: dropped.end <= length(seq), and no other
  // sequence shares a later one.
  void drop(SeqId seq, TokenRange dropped);
  void clear(SeqId seq) { truncate(seq, Position{0}); }

 private:
  using Cells = std::vector<std::uint32_t>;
  CellLedger(std::uint32_t pools, std::uint32_t cells_each, std::uint32_t sequence_count);
  std::vector<std::uint32_t>& sequence(SeqId seq);
  std::size_t pool(SeqId seq) const { return free_.size() == 1 ? 0 : static_cast<std::size_t>(seq.value()); }
  void release(SeqId seq, std::uint32_t cell);

  std::vector<std::uint32_t> references_;              // per cell: sequences that refer to it
  std::vector<Cells> free_;                            // per pool: cells without references
  std::vector<std::vector<std::uint32_t>> sequences_;  // per sequence: the cell of each position
};

}  // namespace kvkeep::engine
