#pragma once

// An engine without a model, whose mistakes are visible.
//
// Like a transformer's, a row is a function of the whole prefix: row i = f(rows 0..i-1 as they lie in memory, token i).
// The next token is a function of all rows in memory, of what the memory class keeps beside them (fake_state.h) and of
// the sampler. So a reply is right exactly if every byte of every row is right: a row restored from another prefix, at
// another position, damaged or left out changes the text, and so does a point or window that is wrong, stale or
// missing. Like libllama, restores check the shape of what they are given and nothing else, a sequence that does not
// stand is decoded without complaint, and decode leaves rubbish behind when it fails. expected_text() says what an
// undisturbed engine writes; tests compare with it.
//
// Logits are a function of the same as the next token, apart from the noise that is asked for: a real engine's depend
// in their last bits on batches and cells. Sampling does not look at them.
//
// Of the sampling parameters temperature (on or off), seed, penalties (on or off) and ignore_eos matter; the same seed
// always gives the same text, also 0xFFFFFFFF.

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/mutex.h"
#include "engine/cell_ledger.h"
#include "engine/engine.h"

namespace kvkeep::engine::fake {

struct FakeOptions {
  std::uint32_t cells = 4096;
  std::uint32_t sequences = 4;
  std::uint32_t batch_tokens = 512;
  std::uint32_t vocabulary_size = 1000;
  std::uint32_t row_bytes = 32;  // at least 8
  MemoryClass memory_class = MemoryClass::kSliceable;
  std::uint32_t window_tokens = 16;                   // windowed
  std::uint32_t window_slack = 8;                     // window rows that stay behind the window
  std::uint32_t state_bytes = 48;                     // hybrid, recurrent: a point without its header
  bool truncatable = true;                            // false: truncate() empties the sequence and says so
  std::uint64_t model_seed = 1;                       // another seed is another model: other rows, text and fingerprint
  std::optional<TokenId> end_of_text = std::nullopt;  // never sampled unless end_of_text_one_in says so
  std::uint32_t end_of_text_one_in = 0;               // one sampled token in so many is the end of text; 0: none
  TokenId first_sampled_token = 0;                    // smaller ids (markers) are never sampled
  float logit_noise = 0;  // each decode's logits differ by about this share from what they would be: see logits()
};

// What goes wrong and when: the n-th call of its kind from now, 1 being the next; 0: never. Each fires once.
struct FakeFaults {
  std::uint32_t fail_decode = 0;      // kFailed
  std::uint32_t abort_decode = 0;     // kAborted
  std::uint32_t no_cells_decode = 0;  // kNoCells although there are cells
  std::uint32_t fail_save = 0;        // kIo
  std::uint32_t fail_restore = 0;     // kDamaged
  std::uint32_t fail_point = 0;       // restore_point: kDamaged
};

struct FakeCounters {
  std::uint64_t decode_calls = 0;
  std::uint64_t save_calls = 0;
  std::uint64_t restore_calls = 0;
  std::uint64_t rows_restored = 0;
  std::uint64_t points_saved = 0;  // points and windows
  std::uint64_t points_restored = 0;
  std::uint64_t forks = 0;
};

class FakeEngine final : public Engine {
 public:
  explicit FakeEngine(FakeOptions options = {});
  ~FakeEngine() override;

  // ModelMemory
  std::uint32_t sequence_count() const override { return ledger_.sequence_count(); }
  std::uint32_t cells_total() const override { return ledger_.total(); }
  std::uint32_t cells_used() const override { return ledger_.used(); }
  std::uint32_t cells_owned(SeqId seq) const override { return ledger_.owned(seq); }
  Position length(SeqId seq) const override { return ledger_.length(seq); }
  cache::StateShape shape() const override;
  Position stands_from(SeqId seq) const override;
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

  // Engine
  const Description& description() const override { return description_; }
  DecodeStatus decode(std::span<const BatchToken> batch) override;
  TokenId sample(Sampler& sampler, std::size_t index) override;
  std::span<const float> logits(std::size_t index) const override;
  Result<std::unique_ptr<Sampler>> make_sampler(const SamplingParams& params) override;
  void cancel() override { cancelled_ = true; }
  void reset_cancel() override { cancelled_ = false; }
  std::uint64_t tokens_decoded() const override { return tokens_decoded_; }

  // For tests. All but on_decode's own business happens on the engine thread.
  // From any thread.
  void set_faults(const FakeFaults& faults) {
    const MutexLock lock(faults_mutex_);
    faults_ = faults;
  }
  const FakeCounters& counters() const { return counters_; }
  // Called at the start of each decode, before cancel() is looked at: a test may block or cancel there.
  void set_on_decode(std::function<void(std::span<const BatchToken>)> hook) { on_decode_ = std::move(hook); }

  // The ids an undisturbed engine with these options samples after the prompt: at most `count`, the end of text
  // included where it comes. Const and independent of this engine's memory. Precondition: prompt not empty.
  std::vector<TokenId> expected_text(TokenSpan prompt, std::size_t count, const SamplingParams& params) const;

 private:
  class Memory;  // rows per cell, and the state of each sequence

  bool check_batch(std::span<const BatchToken> batch) const;
  void leave_rubbish(std::span<const BatchToken> batch);
  void append_tokens(std::span<const BatchToken> batch);
  Status append_piece(SeqId seq, const cache::RowPiece& piece);
  Status set_windows(SeqId seq, std::span<const cache::RowPiece> pieces);
  Status set_point(SeqId seq, ByteSpan bytes);
  TokenId choose(std::uint64_t state, const Sampler& sampler) const;

  const FakeOptions options_;
  Description description_;
  CellLedger ledger_;
  std::unique_ptr<Memory> memory_;
  // Counts down to a fault; true on the call that it names.
  bool fires(std::uint32_t FakeFaults::* fault);

  Mutex faults_mutex_;
  FakeFaults faults_ GUARDED_BY(faults_mutex_);
  FakeCounters counters_;
  std::function<void(std::span<const BatchToken>)> on_decode_;
  std::vector<std::optional<std::uint64_t>> logits_;  // of the last decode, per batch entry that wanted them
  mutable std::vector<float> spread_logits_;          // of those that were asked for last
  std::atomic<bool> cancelled_{false};
  std::atomic<std::uint64_t> tokens_decoded_{0};
};

}  // namespace kvkeep::engine::fake
