#pragma once

// The fake engine wrapped in a layer that gets something wrong on purpose: the effects of a broken cache or engine, as
// the model's memory sees them. Checkers of histories must notice.

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "engine/fake/fake_engine.h"

namespace kvkeep::server {

enum class Bend {
  kNothing,
  kPointOfAnotherPlace,  // a point comes back as the one that was captured before it
  kPointNotRestored,     // a restore that ends without its point or window returns ok
  kPointBeforeRows,      // the last row is put back after the point
  kPointForgotten,       // every third point cannot be saved
  kRowsGone,             // rows come back as rubbish, as if evicted rows below a point had been overwritten
  kCompleteAnywhere,     // an incomplete sequence counts as complete: points of it are captured
  kCountsRestored,       // tokens that were restored count as given to the model
};

// The fake engine's memory with a mistake.
class BentMemory final : public cache::ModelMemory {
 public:
  BentMemory(cache::ModelMemory& fake, Bend bend) : fake_(fake), bend_(bend) {}

  std::uint32_t sequence_count() const override { return fake_.sequence_count(); }
  std::uint32_t cells_total() const override { return fake_.cells_total(); }
  std::uint32_t cells_used() const override { return fake_.cells_used(); }
  std::uint32_t cells_owned(SeqId seq) const override { return fake_.cells_owned(seq); }
  Position length(SeqId seq) const override { return fake_.length(seq); }
  cache::StateShape shape() const override { return fake_.shape(); }
  Position complete_from(SeqId seq) const override {
    return bend_ == Bend::kCompleteAnywhere ? Position{} : fake_.complete_from(seq);
  }
  std::uint64_t rows_bytes(std::size_t tokens) const override { return fake_.rows_bytes(tokens); }
  Result<std::size_t> save_rows(SeqId seq, TokenRange range, MutableByteSpan out) override {
    return fake_.save_rows(seq, range, out);
  }
  Status restore_rows(SeqId seq, std::span<const cache::RowPiece> pieces) override {
    for (const cache::RowPiece& piece : pieces) restored_ += piece.wanted.size();
    tell(pieces);
    if (bend_ != Bend::kRowsGone) return fake_.restore_rows(seq, pieces);
    std::vector<std::byte> rubbish(pieces.back().bytes.begin(), pieces.back().bytes.end());
    if (rubbish.size() > kHeaderBytes) std::fill(rubbish.begin() + kHeaderBytes, rubbish.end(), std::byte{});
    std::vector<cache::RowPiece> bent(pieces.begin(), pieces.end());
    bent.back().bytes = rubbish;
    return fake_.restore_rows(seq, bent);
  }
  std::uint64_t window_bytes(std::size_t tokens) const override { return fake_.window_bytes(tokens); }
  Result<std::size_t> save_window(SeqId seq, TokenRange range, MutableByteSpan out) override {
    return fake_.save_window(seq, range, out);
  }
  std::uint64_t point_bytes(SeqId seq) const override { return fake_.point_bytes(seq); }
  Result<std::size_t> save_point(SeqId seq, MutableByteSpan out) override {
    if (bend_ == Bend::kPointForgotten && ++points_ % 3 == 0) return not_found("forgotten");
    Result<std::size_t> saved = fake_.save_point(seq, out);
    if (saved) std::swap(before_, last_);
    if (saved) last_.assign(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(*saved));
    return saved;
  }
  Status restore_point(SeqId seq, std::span<const cache::RowPiece> pieces) override {
    tell(pieces);
    if (bend_ == Bend::kPointNotRestored) return {};
    if (bend_ != Bend::kPointOfAnotherPlace || before_.empty()) {
      TRY(fake_.restore_point(seq, pieces));
      return bend_ == Bend::kPointBeforeRows ? put_last_row_again(seq) : Status{};
    }
    cache::RowPiece other = pieces.front();
    other.bytes = std::ranges::equal(other.bytes, last_) ? before_ : last_;
    return fake_.restore_point(seq, {&other, 1});
  }
  Status fork(SeqId from, SeqId to, Position end) override { return fake_.fork(from, to, end); }
  bool truncate(SeqId seq, Position end) override { return fake_.truncate(seq, end); }
  void clear(SeqId seq) override { fake_.clear(seq); }
  bool can_shift() const override { return fake_.can_shift(); }
  Status shift(SeqId seq, TokenRange dropped) override { return fake_.shift(seq, dropped); }

  std::uint64_t restored() const { return restored_; }  // any thread
  std::function<void(std::size_t bytes)> on_restore;    // called before anything is restored

 private:
  static constexpr std::ptrdiff_t kHeaderBytes = 16;

  void tell(std::span<const cache::RowPiece> pieces) const {
    if (!on_restore) return;
    for (const cache::RowPiece& piece : pieces) on_restore(piece.bytes.size());
  }
  Status put_last_row_again(SeqId seq) {
    const TokenRange last{Position{fake_.length(seq).value() - 1}, fake_.length(seq)};
    std::vector<std::byte> row(fake_.rows_bytes(1));
    TRY_ASSIGN(const std::size_t size, fake_.save_rows(seq, last, row));
    fake_.truncate(seq, last.begin);
    const cache::RowPiece piece{last, last, ByteSpan(row).first(size)};
    return fake_.restore_rows(seq, {&piece, 1});
  }

  cache::ModelMemory& fake_;
  const Bend bend_;
  std::atomic<std::uint64_t> restored_ = 0;
  std::uint32_t points_ = 0;
  std::vector<std::byte> before_;  // the last two points that were saved
  std::vector<std::byte> last_;
};

class BentEngine final : public engine::Engine {
 public:
  BentEngine(const engine::fake::FakeOptions& options, Bend bend)
      : fake(options), bent_memory(fake.memory(), bend), bend_(bend) {}

  BentMemory& memory() override { return bent_memory; }
  const engine::Description& description() const override { return fake.description(); }
  void use_adapters(const engine::AdapterScales& scales) override { fake.use_adapters(scales); }
  engine::DecodeStatus decode(std::span<const engine::BatchToken> batch) override { return fake.decode(batch); }
  bool has_finite_logits(std::size_t index) const override { return fake.has_finite_logits(index); }
  void wipe() override { fake.wipe(); }
  engine::DecodeStatus decode_media(SeqId seq, const engine::MediaChunk& chunk) override {
    return fake.decode_media(seq, chunk);
  }
  TokenId sample(engine::Sampler& sampler, std::size_t index) override { return fake.sample(sampler, index); }
  std::span<const float> logits(std::size_t index) const override { return fake.logits(index); }
  Result<std::unique_ptr<engine::Sampler>> make_sampler(const engine::SamplingParams& params) override {
    return fake.make_sampler(params);
  }
  void cancel() override { fake.cancel(); }
  void reset_cancel() override { fake.reset_cancel(); }
  std::uint64_t tokens_decoded() const override {
    return fake.tokens_decoded() + (bend_ == Bend::kCountsRestored ? bent_memory.restored() : 0);
  }

  engine::fake::FakeEngine fake;
  BentMemory bent_memory;

 private:
  const Bend bend_;
};

}  // namespace kvkeep::server
