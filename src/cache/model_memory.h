#pragma once

// The model's KV memory as the cache sees it: a port that the engine implements (and the fake engine, for tests).
//
// All calls come from the one engine thread. Sequences are numbered 0 .. sequence_count() - 1; each holds the rows of
// one prefix [0, length). Rows of a shared prefix lie in shared cells and are counted once. Positions count ids; no
// sequence ends inside a picture's ids (media_floor() in base/media_ids.h), but for a moment between two restores.
//
// A sequence is *complete* if the model can decode it further. With only rows (full attention) it always is. Otherwise
// one of these leaves must be restored last:
// - a *point*: state at one position that rows cannot give (recurrent state; the whole state of opaque models, which
//   have rows of no bytes), saved while a complete sequence ends there;
// - a *window*: rows of layers that look back only window_tokens, kept apart from the others because they are most of
//   the bytes and only the last window of them is needed.
// After a fork or truncation that leaves a sequence incomplete, and after restore_rows, restore_point must come before
// the next decode.

#include <cstdint>
#include <span>

#include "base/result.h"
#include "base/types.h"

namespace kvkeep::cache {

// The state of a sequence that must be saved so that it can be restored.
struct StateShape {
  bool cacheable = false;           // false: nothing; sequences only grow and are cleared
  std::uint32_t window_tokens = 0;  // > 0: window rows next to the rows
  bool points = false;              // a point wherever a sequence is to be restored
  bool whole_points = false;        // points hold the whole state and grow with the position (opaque models)
  // Returns true if a restored sequence needs more than its rows.
  constexpr bool needs_points() const { return window_tokens > 0 || points; }
  bool operator==(const StateShape&) const = default;
};

// Rows or window rows as they were saved, and the part of them to restore.
struct RowPiece {
  TokenRange stored;  // positions whose rows are in `bytes`
  TokenRange wanted;  // within `stored`
  ByteSpan bytes;
  TokenSpan prompt = {};  // whose rows these are, at least to stored.end, if it has pictures or sounds
};

class ModelMemory {
 public:
  virtual ~ModelMemory() = default;

  // Sequences that hold conversations; the scratch sequence is the engine's own and not counted.
  virtual std::uint32_t sequence_count() const = 0;
  virtual std::uint32_t cells_total() const = 0;
  // Distinct cells in use: a prefix shared by forks counts once.
  virtual std::uint32_t cells_used() const = 0;
  // If each sequence has its own, equal part of cells_total(), none slows another, and fork() and save_rows() copy all.
  virtual bool own_cells() const { return false; }
  // Cells that clear(seq) would free: those no other sequence shares.
  virtual std::uint32_t cells_owned(SeqId seq) const = 0;
  virtual Position length(SeqId seq) const = 0;

  virtual StateShape shape() const = 0;
  // The first position to which fork() and truncate() can go so that the result is complete; every later one up to the
  // length will do. 0: any. length(seq): only its end.
  virtual Position complete_from(SeqId seq) const = 0;

  // Bytes that save_rows needs for `tokens` rows (an upper bound within 1 %). 0: the model has no rows to save.
  virtual std::uint64_t rows_bytes(std::size_t tokens) const = 0;
  // Copies the rows of `range` into `out`: one copy, the source stays as it was. Returns the bytes used.
  // Precondition: range within [0, length(seq)), out.size() >= rows_bytes(range.size()).
  virtual Result<std::size_t> save_rows(SeqId seq, TokenRange range, MutableByteSpan out) = 0;
  // Appends rows: pieces ascending and without gap, the first wanted.begin == length(seq). kNoSpace: too few cells;
  // kDamaged: the bytes are not rows of this model's shape. After any error the sequence is empty.
  virtual Status restore_rows(SeqId seq, std::span<const RowPiece> pieces) = 0;

  // Bytes that save_window needs for `tokens` window rows; 0 without windows.
  virtual std::uint64_t window_bytes(std::size_t tokens) const = 0;
  // As save_rows, for window rows. Precondition: 0 < range.size() <= shape().window_tokens, and they are still there:
  // range.begin + window_tokens >= complete_from(seq). kNotFound: they have slid off.
  virtual Result<std::size_t> save_window(SeqId seq, TokenRange range, MutableByteSpan out) = 0;

  // Bytes that save_point needs for the sequence as it is now; 0 without points.
  virtual std::uint64_t point_bytes(SeqId seq) const = 0;
  // Copies the state at length(seq). Precondition: the sequence is complete and not empty.
  virtual Result<std::size_t> save_point(SeqId seq, MutableByteSpan out) = 0;

  // The last step of a restore: afterwards the sequence is complete. With windows: pieces that cover the last
  // min(window_tokens, length) positions, ascending and without gap, the last wanted.end == length. With points: one
  // piece {stored, wanted} = {[length, length), the same}. Errors as restore_rows.
  virtual Status restore_point(SeqId seq, std::span<const RowPiece> pieces) = 0;

  // Makes `to` (empty) share the first `end` positions of `from`. It is complete if end >= complete_from(from).
  virtual Status fork(SeqId from, SeqId to, Position end) = 0;
  // Keeps [0, end); complete if end >= complete_from(seq). Returns false if the sequence had to be emptied instead.
  virtual bool truncate(SeqId seq, Position end) = 0;
  virtual void clear(SeqId seq) = 0;
  virtual bool can_shift() const = 0;  // returns true if rows can move to other positions
  // Drops these rows; later ones move down and are then not what the model computes there: never capture them.
  // Precondition: no other sequence shares a row that moves. kUnsupported: nothing has changed.
  virtual Status shift(SeqId seq, TokenRange dropped) = 0;
};

}  // namespace kvkeep::cache
