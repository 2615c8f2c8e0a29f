#pragma once

// The engine on libllama: one model, one context, many sequences, whose KV memory is one pool of cells or has cells for
// each of them (ModelOptions::own_cells), or goes from one to the other by a new context (lay_out).
//
// Sequences 0 .. sequence_count() - 1 hold conversations; if rows pass through a scratch sequence, there is one more.
// Engine thread only, except for what engine.h names. One decode at a time, as libllama demands.

#include <atomic>
#include <memory>
#include <optional>
#include <vector>

#include "engine/engine.h"
#include "engine/llama/library.h"
#include "engine/llama/llama_vocabulary.h"
#include "engine/llama/model_options.h"
#include "engine/llama/relaid_memory.h"
#include "engine/llama/sampler_chain.h"
#include "engine/llama/sequence_memory.h"
#include "engine/llama/weights.h"

namespace kvkeep::engine::llama {

class LlamaEngine final : public Engine {
 public:
  // Makes a context for conversations and finds out what it can do. Errors: kUnsupported (not a text generator),
  // kInvalid (an option), kNoSpace (memory).
  static Result<std::unique_ptr<LlamaEngine>> make(const Weights& weights);
  // Loads the weights and makes an engine of them. Errors: those of both.
  static Result<std::unique_ptr<LlamaEngine>> load(const ModelOptions& options, const LoadProgress& progress = {});

  // Shared with HTTP threads; outlives the engine if they still hold it.
  std::shared_ptr<const Vocabulary> vocabulary() const { return vocabulary_; }
  // Returns the library's own context, for benchmarks that compare with bare calls.
  llama_context& context() { return *context_; }

  const Description& description() const override { return description_; }
  cache::ModelMemory& memory() override { return shown_memory_; }
  void use_adapters(const AdapterScales& scales) override;
  bool has_finite_logits(std::size_t index) const override;
  void wipe() override;
  Status lay_out(bool own_cells) override;
  DecodeStatus decode(std::span<const BatchToken> batch) override;
  DecodeStatus decode_media(SeqId seq, const MediaChunk& chunk) override;
  TokenId sample(Sampler& sampler, std::size_t index) override;
  std::span<const float> logits(std::size_t index) const override;
  Result<std::unique_ptr<Sampler>> make_sampler(const SamplingParams& params) override;
  void cancel() override { cancelled_ = true; }
  void reset_cancel() override { cancelled_ = false; }
  std::uint64_t tokens_decoded() const override { return tokens_decoded_; }

 private:
  // All that a context for conversations is made of again.
  struct Plan {
    ModelOptions options;
    ClassFinding finding = {};
    std::optional<StateParts> state = {};  // once it was learnt
    std::uint32_t pooled = 0;              // conversations that share one pool
    std::optional<ControlVectors> vectors = {};
  };
  struct Parts {
    ModelHandle model;
    std::shared_ptr<ThreadPools> pools;
    Plan plan;
    ContextHandle context;
    std::vector<llama_adapter_lora*> adapters;  // the model owns them
    std::unique_ptr<SequenceMemory> memory;
    std::shared_ptr<const Vocabulary> vocabulary;
    Description description;
  };
  explicit LlamaEngine(Parts parts);

  void prepare_context();
  Status renew_context(bool own_cells);

  bool all_complete(std::span<const BatchToken> batch) const;
  bool cells_suffice(std::span<const BatchToken> batch) const;
  void order_batch(std::span<const BatchToken> batch);
  void fill_batch(std::span<const BatchToken> batch);
  Position chunk_begin(SeqId seq, const MediaChunk& chunk) const;
  bool is_aborted() const;
  std::int32_t decode_embeddings(SeqId seq, const MediaChunk& chunk, const ChunkShape& shape);
  DecodeStatus status_of(std::int32_t code, std::uint64_t log_mark) const;
  void note_decoded(std::span<const BatchToken> batch);
  void drop_undecoded(std::span<const BatchToken> batch);

  std::atomic<bool> cancelled_ = false;
  std::atomic<std::uint64_t> tokens_decoded_ = 0;
  const MediaChunk* chunk_in_work_ = nullptr;  // null: none is
  ModelHandle model_;
  std::shared_ptr<ThreadPools> pools_;  // null: the library's own
  const Plan plan_;
  ContextHandle context_;
  std::vector<llama_adapter_lora*> adapters_;
  std::unique_ptr<SequenceMemory> memory_;
  RelaidMemory shown_memory_;
  std::shared_ptr<const Vocabulary> vocabulary_;
  Description description_;
  const AdapterScales start_scales_;
  AdapterScales used_scales_;
  SamplerChains chains_;

  // The arrays of the libllama batch.
  std::vector<llama_token> batch_tokens_;
  std::vector<llama_pos> batch_positions_;
  std::vector<std::int32_t> batch_sequence_counts_;
  std::vector<llama_seq_id> batch_sequences_;
  std::vector<llama_seq_id*> batch_sequence_pointers_;
  std::vector<std::int8_t> batch_logits_;
  std::vector<std::int32_t> batch_places_;  // where each entry of the caller's batch is in libllama's
};

// Calls llama_state_seq_set_data with rows from save_rows. The engine's ledger does not count them: clear the sequence
// before anything else is done with it. kIo if libllama refused.
Status set_rows_bare(LlamaEngine& engine, SeqId seq, ByteSpan rows);

}  // namespace kvkeep::engine::llama
