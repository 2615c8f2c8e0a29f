#pragma once

// The engine of a model that only embeds: it has a description, no memory, and decodes nothing. The server's parts that
// serve every model need no second path for such a one.
//
// No request may reach it: routes refuse to generate (Service::only_embeds).

#include <memory>
#include <span>
#include <utility>

#include "cache/model_memory.h"
#include "engine/engine.h"

namespace kvkeep::engine {

class NoMemory final : public cache::ModelMemory {
 public:
  std::uint32_t sequence_count() const override { return 1; }
  std::uint32_t cells_total() const override { return 0; }
  std::uint32_t cells_used() const override { return 0; }
  std::uint32_t cells_owned(SeqId /*seq*/) const override { return 0; }
  Position length(SeqId /*seq*/) const override { return {}; }
  cache::StateShape shape() const override { return {}; }
  Position complete_from(SeqId /*seq*/) const override { return {}; }
  std::uint64_t rows_bytes(std::size_t /*tokens*/) const override { return 0; }
  Result<std::size_t> save_rows(SeqId, TokenRange, MutableByteSpan) override { return nothing(); }
  Status restore_rows(SeqId, std::span<const cache::RowPiece>) override { return nothing(); }
  std::uint64_t window_bytes(std::size_t /*tokens*/) const override { return 0; }
  Result<std::size_t> save_window(SeqId, TokenRange, MutableByteSpan) override { return nothing(); }
  std::uint64_t point_bytes(SeqId /*seq*/) const override { return 0; }
  Result<std::size_t> save_point(SeqId, MutableByteSpan) override { return nothing(); }
  Status restore_point(SeqId, std::span<const cache::RowPiece>) override { return nothing(); }
  Status fork(SeqId, SeqId, Position) override { return nothing(); }
  bool truncate(SeqId, Position) override { return false; }
  void clear(SeqId /*seq*/) override {}
  bool can_shift() const override { return false; }
  Status shift(SeqId, TokenRange) override { return nothing(); }

 private:
  static Error nothing() { return unsupported("this model only embeds"); }
};

class EmbeddingOnlyEngine final : public Engine {
 public:
  explicit EmbeddingOnlyEngine(Description description) : description_(std::move(description)) {}

  const Description& description() const override { return description_; }
  cache::ModelMemory& memory() override { return memory_; }
  void use_adapters(const AdapterScales&) override {}
  DecodeStatus decode(std::span<const BatchToken>) override { return DecodeStatus::kFailed; }
  bool has_finite_logits(std::size_t) const override { return false; }
  void wipe() override {}
  DecodeStatus decode_media(SeqId, const MediaChunk&) override { return DecodeStatus::kFailed; }
  TokenId sample(Sampler&, std::size_t) override { return 0; }
  std::span<const float> logits(std::size_t) const override { return {}; }
  Result<std::unique_ptr<Sampler>> make_sampler(const SamplingParams&) override {
    return unsupported("this model only embeds");
  }
  void cancel() override {}
  void reset_cancel() override {}
  std::uint64_t tokens_decoded() const override { return 0; }

 private:
  const Description description_;
  NoMemory memory_;
};

}  // namespace kvkeep::engine
