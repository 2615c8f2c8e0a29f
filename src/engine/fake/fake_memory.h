#pragma once

// The fake engine's memory: rows per cell, and the state of each sequence (fake_state.h). A row is a function of the
// whole prefix, so that a byte that is wrong, or of another prefix, changes the sampled tokens.
//
// Like libllama's, restores check only the shape of their bytes.

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "engine/cell_ledger.h"
#include "engine/engine.h"
#include "engine/fake/fake_state.h"

namespace kvkeep::engine::fake {

struct FakeOptions {
  std::uint32_t cells = 4096;
  bool own_cells = false;  // each sequence has cells / sequences of its own
  // FakeEngine::lay_out(): so many sequences have cells of their own then; 0: the layout is fixed.
  std::uint32_t own_sequences = 0;
  std::uint32_t sequences = 4;
  std::uint32_t batch_tokens = 512;
  std::uint32_t vocabulary_size = 1000;
  std::uint32_t row_bytes = 32;  // at least 8
  MemoryClass memory_class = MemoryClass::kSliceable;
  std::uint32_t window_tokens = 16;                   // windowed
  std::uint32_t window_slack = 8;                     // window rows before the window that have not slid off yet
  std::uint32_t state_bytes = 48;                     // for hybrid, recurrent: a point without its header
  bool truncatable = true;                            // false: truncate() empties the sequence and returns false
  std::uint64_t model_seed = 1;                       // another seed is another model: other rows, text and fingerprint
  std::optional<TokenId> end_of_text = std::nullopt;  // never sampled unless end_of_text_one_in says so
  std::uint32_t end_of_text_one_in = 0;               // one of so many sampled tokens is the end of text; 0: none
  bool uses_gpu = false;                              // says so
  std::size_t adapters = 0;                           // LoRA adapters; at scale 0 after the start
  TokenId first_sampled_token = 0;                    // smaller ids (markers) are never sampled
  float logit_noise = 0;  // each decode's logits are changed at random by about this share: see logits()
};

// Which call fails: the n-th of its kind from now on, 1 being the next; 0: none. Each fault fires once.
struct FakeFaults {
  std::uint32_t fail_decode = 0;      // kFailed
  std::uint32_t abort_decode = 0;     // kAborted
  std::uint32_t no_cells_decode = 0;  // kNoCells although cells are free
  std::uint32_t bad_logits = 0;       // has_finite_logits(): false
  std::uint32_t fail_save = 0;        // kIo
  std::uint32_t fail_restore = 0;     // kDamaged
  std::uint32_t fail_fork = 0;        // kNoSpace
  std::uint32_t fail_point = 0;       // restore_point: kDamaged
  std::uint32_t fail_shift = 0;       // kUnsupported
  std::uint32_t fail_lay_out = 0;     // kNoSpace
};

// Counted by the engine thread, read by any: a request is answered before its sequence is captured and released.
struct FakeCounters {
  std::atomic<std::uint64_t> save_calls = 0;
  std::atomic<std::uint64_t> rows_restored = 0;
  std::atomic<std::uint64_t> forks = 0;
  std::atomic<std::uint64_t> shifts = 0;
};

// Counts down to each requested fault. Any thread.
class FaultCountdown {
 public:
  void set(const FakeFaults& faults) {
    const MutexLock lock(mutex_);
    faults_ = faults;
  }
  // Returns true on the call at which the fault is due.
  bool fires(std::uint32_t FakeFaults::* fault) {
    const MutexLock lock(mutex_);
    std::uint32_t& countdown = faults_.*fault;
    return countdown > 0 && --countdown == 0;
  }

 private:
  Mutex mutex_;
  FakeFaults faults_ GUARDED_BY(mutex_);
};

class FakeMemory final : public cache::ModelMemory {
 public:
  // `faults` must outlive the memory.
  FakeMemory(const FakeOptions& options, FaultCountdown& faults);

  std::uint32_t sequence_count() const override { return ledger_.sequence_count(); }
  std::uint32_t cells_total() const override { return ledger_.total(); }
  std::uint32_t cells_used() const override { return ledger_.used(); }
  bool own_cells() const override { return own_cells_; }
  std::uint32_t cells_owned(SeqId seq) const override { return ledger_.owned(seq); }
  Position length(SeqId seq) const override { return ledger_.length(seq); }
  cache::StateShape shape() const override;
  Position complete_from(SeqId seq) const override { return Position{} + state_of(seq).complete_from(); }
  std::uint64_t rows_bytes(std::size_t tokens) const override;
  Result<std::size_t> save_rows(SeqId seq, TokenRange range, MutableByteSpan out) override;
  Status restore_rows(SeqId seq, std::span<const cache::RowPiece> pieces) override;
  std::uint64_t window_bytes(std::size_t tokens) const override;
  Result<std::size_t> save_window(SeqId seq, TokenRange range, MutableByteSpan out) override;
  std::uint64_t point_bytes(SeqId seq) const override;
  Result<std::size_t> save_point(SeqId seq, MutableByteSpan out) override;
  Status restore_point(SeqId seq, std::span<const cache::RowPiece> pieces) override;
  Status fork(SeqId from, SeqId to, Position end) override;
  bool truncate(SeqId seq, Position end) override;
  void clear(SeqId seq) override;
  bool can_shift() const override { return options_.memory_class == MemoryClass::kSliceable; }
  // A row that moved differs from each row that is computed, so that text tells if one was captured.
  Status shift(SeqId seq, TokenRange dropped) override;

  // For tests: called on the engine thread with the number of rows, before they are put or saved; 0: a point is put.
  void set_on_restore(std::function<void(std::size_t rows)> hook) { on_restore_ = std::move(hook); }
  void set_on_save(std::function<void(std::size_t rows)> hook) { on_save_ = std::move(hook); }

  // For the engine's lay_out(). Precondition: all sequences are empty.
  void lay_out(bool own_cells);

  // For the engine's decode.
  std::uint32_t cells_available(SeqId seq) const { return ledger_.available(seq); }
  // Computes the token's row at the sequence's end. Returns the value to sample from. Precondition: a cell is free.
  std::uint64_t append(SeqId seq, TokenId token);
  // A decode failed: the sequence's state is wrong until it is cleared.
  void spoil(SeqId seq) { state_of(seq).spoil(); }
  const StateOptions& state_options() const { return state_options_; }
  const FakeCounters& counters() const { return counters_; }

 private:
  SequenceState& state_of(SeqId seq) { return sequences_.at(static_cast<std::size_t>(seq.value())); }
  const SequenceState& state_of(SeqId seq) const { return sequences_.at(static_cast<std::size_t>(seq.value())); }
  MutableByteSpan row_of(std::uint32_t cell);  // empty if the model has no rows
  Status append_piece(SeqId seq, const cache::RowPiece& piece);
  Status set_windows(SeqId seq, std::span<const cache::RowPiece> pieces);
  Status set_point(SeqId seq, ByteSpan bytes);

  const FakeOptions options_;
  const StateOptions state_options_;
  FaultCountdown& faults_;
  bool own_cells_;
  CellLedger ledger_;
  std::vector<std::byte> rows_;
  std::vector<SequenceState> sequences_;
  FakeCounters counters_;
  std::function<void(std::size_t)> on_restore_;
  std::function<void(std::size_t)> on_save_;
};

}  // namespace kvkeep::engine::fake
