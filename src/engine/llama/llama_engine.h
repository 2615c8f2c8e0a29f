#pragma once

// The engine on libllama: one model, one context with unified KV memory, many sequences.
//
// Sequences 0 .. parallel + idle_sequences - 1 hold conversations; one more is the scratch that rows pass through.
// Engine thread only, but for what engine.h names. One decode at a time, as libllama demands.

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "engine/engine.h"
#include "engine/llama/library.h"
#include "engine/llama/llama_vocabulary.h"
#include "engine/llama/model_options.h"
#include "engine/llama/row_memory.h"

namespace kvkeep::engine::llama {

// Called with 0 .. 1 while the model loads; false stops the load.
using LoadProgress = std::function<bool(float)>;

class LlamaEngine final : public Engine {
 public:
  // Loads the model and finds out what it can do; takes as long as reading the file. Errors are one line that says what
  // to change: kNotFound (no such file), kDamaged (truncated, not GGUF), kUnsupported (unknown architecture, not a text
  // generator), kInvalid (an option), kNoSpace (memory), kAborted (`progress` said so).
  static Result<std::unique_ptr<LlamaEngine>> load(const ModelOptions& options, const LoadProgress& progress = {});

  // Shared with HTTP threads; outlives the engine if they still hold it.
  std::shared_ptr<const Vocabulary> vocabulary() const { return vocabulary_; }
  // The library's own objects, for benchmarks that compare with bare calls.
  llama_context& context() { return *context_; }
  // Logits of batch entry `index` of the last decode, which wanted them. Valid until the next decode.
  std::span<const float> logits(std::size_t index) const;

  const Description& description() const override { return description_; }
  DecodeStatus decode(std::span<const BatchToken> batch) override;
  TokenId sample(Sampler& sampler, std::size_t index) override;
  Result<std::unique_ptr<Sampler>> make_sampler(const SamplingParams& params) override;
  void cancel() override { cancelled_ = true; }
  void reset_cancel() override { cancelled_ = false; }
  std::uint64_t tokens_decoded() const override { return tokens_decoded_; }

  std::uint32_t sequence_count() const override { return rows_->cells().sequence_count(); }
  std::uint32_t cells_total() const override { return rows_->cells().total(); }
  std::uint32_t cells_used() const override { return rows_->cells().used(); }
  std::uint32_t cells_owned(SeqId seq) const override { return rows_->cells().owned(seq); }
  Position length(SeqId seq) const override { return rows_->length(seq); }
  cache::StateShape shape() const override { return {.cacheable = rows_->sliceable()}; }
  Position stands_from(SeqId seq) const override { return rows_->sliceable() ? Position{} : length(seq); }
  std::uint64_t rows_bytes(std::size_t tokens) const override { return rows_->rows_bytes(tokens); }
  Result<std::size_t> save_rows(SeqId seq, TokenRange range, MutableByteSpan out) override {
    return rows_->save_rows(seq, range, out);
  }
  Status restore_rows(SeqId seq, std::span<const cache::RowPiece> pieces) override {
    return rows_->restore_rows(seq, pieces);
  }
  std::uint64_t window_bytes(std::size_t) const override { return 0; }
  Result<std::size_t> save_window(SeqId, TokenRange, MutableByteSpan) override { return unsupported("no windows"); }
  std::uint64_t point_bytes(SeqId) const override { return 0; }
  Result<std::size_t> save_point(SeqId, MutableByteSpan) override { return unsupported("no points"); }
  Status restore_point(SeqId, std::span<const cache::RowPiece>) override { return unsupported("no points"); }
  Status fork(SeqId from, SeqId to, Position end) override { return rows_->fork(from, to, end); }
  bool truncate(SeqId seq, Position end) override { return rows_->truncate(seq, end); }
  void clear(SeqId seq) override { rows_->clear(seq); }

 private:
  struct Parts {
    ModelHandle model;
    ContextHandle context;
    std::unique_ptr<RowMemory> rows;
    std::shared_ptr<const Vocabulary> vocabulary;
    Description description;
  };
  explicit LlamaEngine(Parts parts);

  void fill_batch(std::span<const BatchToken> batch);
  void note_decoded(std::span<const BatchToken> batch);
  void drop_undecoded(std::span<const BatchToken> batch);

  std::atomic<bool> cancelled_ = false;
  std::atomic<std::uint64_t> tokens_decoded_ = 0;
  ModelHandle model_;
  ContextHandle context_;
  std::unique_ptr<RowMemory> rows_;
  std::shared_ptr<const Vocabulary> vocabulary_;
  Description description_;

  // The arrays of the libllama batch.
  std::vector<llama_token> batch_tokens_;
  std::vector<llama_pos> batch_positions_;
  std::vector<std::int32_t> batch_sequence_counts_;
  std::vector<llama_seq_id> batch_sequences_;
  std::vector<llama_seq_id*> batch_sequence_pointers_;
  std::vector<std::int8_t> batch_logits_;
};

}  // namespace kvkeep::engine::llama
