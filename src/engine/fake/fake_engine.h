#pragma once

// An engine without a model, whose mistakes are visible.
//
// Like a transformer's, a row is a function of the whole prefix: row i = f(rows 0..i-1 as they lie in memory, token i).
// The next token is a function of all rows in memory, of the other state that the memory class keeps (fake_state.h) and
// of the sampler. So a reply is right exactly if every byte of every row is right: a row restored from another prefix,
// at another position, damaged or left out changes the text, and so does a point or window that is wrong, stale or
// missing. Like libllama, restores check only the shape of their bytes, an incomplete sequence is decoded
// without complaint, and a failed decode leaves rubbish. expected_text() is what an undisturbed engine writes; tests
// compare with it.
//
// Logits are a function of the same state as the next token, plus noise on request: a real engine's depend in their
// last bits on batches and cells. Sampling does not use them.
//
// With scales of adapters each token computes another row than without.
//
// A chunk's rows are functions of its ids, which name it: embeddings are counted and not read.
//
// Only these sampling parameters matter: temperature, penalties and DRY (each on or off), seed and ignore_eos; the same
// seed, 0xFFFFFFFF included, always gives the same text.

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "engine/engine.h"
#include "engine/fake/fake_memory.h"

namespace kvkeep::engine::fake {

class FakeEngine final : public Engine {
 public:
  explicit FakeEngine(FakeOptions options = {});

  FakeMemory& memory() override { return memory_; }
  const Description& description() const override { return description_; }
  void use_adapters(const AdapterScales& scales) override;
  DecodeStatus decode(std::span<const BatchToken> batch) override;
  bool has_finite_logits(std::size_t index) const override;
  void wipe() override;
  Status lay_out(bool own_cells) override;
  DecodeStatus decode_media(SeqId seq, const MediaChunk& chunk) override;
  TokenId sample(Sampler& sampler, std::size_t index) override;
  std::span<const float> logits(std::size_t index) const override;
  Result<std::unique_ptr<Sampler>> make_sampler(const SamplingParams& params) override;
  void cancel() override { cancelled_ = true; }
  void reset_cancel() override { cancelled_ = false; }
  std::uint64_t tokens_decoded() const override { return tokens_decoded_; }

  // For tests. Call them on the engine thread, except as noted.
  // Callable from any thread.
  void set_faults(const FakeFaults& faults) { faults_.set(faults); }
  std::uint64_t wipes() const { return wipes_; }  // any thread
  const FakeCounters& counters() const { return memory_.counters(); }
  // Called at the start of each decode, before it checks for cancel(): a test may block or cancel there.
  void set_on_decode(std::function<void(std::span<const BatchToken>)> hook) { on_decode_ = std::move(hook); }

  // Returns the ids that an undisturbed engine with these options samples after the prompt: at most `count`, with the
  // end of text if it comes. Const and independent of this engine's memory. Precondition: prompt not empty.
  std::vector<TokenId> expected_text(TokenSpan prompt, std::size_t count, const SamplingParams& params,
                                     const AdapterScales& scales = {}) const;

 private:
  bool check_batch(std::span<const BatchToken> batch) const;
  bool cells_suffice(std::span<const BatchToken> batch) const;
  void leave_rubbish(std::span<const BatchToken> batch);
  void append_tokens(std::span<const BatchToken> batch);
  TokenId choose(std::uint64_t state, const Sampler& sampler) const;

  const FakeOptions options_;
  mutable FaultCountdown faults_;
  FakeMemory memory_;
  const Description description_;
  std::uint64_t decode_calls_ = 0;
  AdapterScales scales_;
  std::function<void(std::span<const BatchToken>)> on_decode_;
  std::vector<std::optional<std::uint64_t>> logits_;  // of the last decode, for each batch entry that wanted them
  mutable std::vector<float> spread_logits_;          // the logits that were returned last
  std::atomic<std::uint64_t> wipes_{0};
  std::atomic<bool> cancelled_{false};
  std::atomic<std::uint64_t> tokens_decoded_{0};
};

}  // namespace kvkeep::engine::fake
