#pragma once

// The model's KV memory as the cache sees it: a port that the engine implements (and the fake engine, for tests).
//
// All calls come from the one engine thread. Sequences are numbered 0 .. sequence_count() - 1; each holds the rows of
// one prefix [0, length). Rows of a shared prefix lie in shared cells and are counted once.

#include <cstdint>
#include <span>

#include "base/result.h"
#include "base/types.h"

namespace kvkeep::cache {

// Rows as save_rows gave them, and the part of them to restore.
struct RowPiece {
  TokenRange stored;  // positions whose rows are in `bytes`
  TokenRange wanted;  // within `stored`
  ByteSpan bytes;
};

class ModelMemory {
 public:
  virtual ~ModelMemory() = default;

  // Sequences that hold conversations; the scratch sequence is the engine's own and not counted.
  virtual std::uint32_t sequence_count() const = 0;
  virtual std::uint32_t cells_total() const = 0;
  // Distinct cells in use: a prefix shared by forks counts once.
  virtual std::uint32_t cells_used() const = 0;
  // Cells that clear(seq) would free: those no other sequence shares.
  virtual std::uint32_t cells_owned(SeqId seq) const = 0;
  virtual Position length(SeqId seq) const = 0;

  // Bytes that save_rows needs for `tokens` rows (an upper bound within 1 %). 0: this model's rows cannot be sliced.
  virtual std::uint64_t rows_bytes(std::size_t tokens) const = 0;
  // Copies the rows of `range` into `out`: one copy, the source stays as it was. Returns the bytes used.
  // Precondition: range within [0, length(seq)), out.size() >= rows_bytes(range.size()).
  virtual Result<std::size_t> save_rows(SeqId seq, TokenRange range, MutableByteSpan out) = 0;
  // Appends rows: pieces ascending and without gap, the first wanted.begin == length(seq). kNoSpace: too few cells;
  // kDamaged: the bytes are not rows of this model's shape. After any error the sequence is empty.
  virtual Status restore_rows(SeqId seq, std::span<const RowPiece> pieces) = 0;

  // Makes `to` (empty) share the first `end` positions of `from`.
  virtual Status fork(SeqId from, SeqId to, Position end) = 0;
  // Keeps [0, end) of the sequence. False: the memory cannot (the sequence is empty then).
  virtual bool truncate(SeqId seq, Position end) = 0;
  virtual void clear(SeqId seq) = 0;
};

}  // namespace kvkeep::cache
