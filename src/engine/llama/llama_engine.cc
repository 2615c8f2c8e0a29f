#include "engine/llama/llama_engine.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "base/assert.h"
#include "engine/llama/llama_sampler.h"

namespace kvkeep::engine::llama {

LlamaEngine::LlamaEngine(Parts parts)
    : model_(std::move(parts.model)),
      context_(std::move(parts.context)),
      memory_(std::move(parts.memory)),
      vocabulary_(std::move(parts.vocabulary)),
      description_(std::move(parts.description)) {
  const auto is_cancelled = [](void* engine) { return static_cast<LlamaEngine*>(engine)->cancelled_.load(); };
  llama_set_abort_callback(context_.get(), is_cancelled, this);
}

void LlamaEngine::fill_batch(std::span<const BatchToken> batch) {
  const std::size_t size = batch.size();
  batch_tokens_.resize(size);
  batch_positions_.resize(size);
  batch_sequence_counts_.assign(size, 1);
  batch_sequences_.resize(size);
  batch_sequence_pointers_.resize(size);
  batch_logits_.resize(size);
  for (std::size_t i = 0; i < size; ++i) {
    batch_tokens_[i] = batch[i].token;
    batch_positions_[i] = static_cast<llama_pos>(batch[i].at.value());
    batch_sequences_[i] = batch[i].seq.value();
    batch_sequence_pointers_[i] = &batch_sequences_[i];
    batch_logits_[i] = batch[i].want_logits ? 1 : 0;
  }
}

// libllama would decode with the state of another position, or with none.
bool LlamaEngine::all_complete(std::span<const BatchToken> batch) const {
  return std::ranges::all_of(batch, [this](const BatchToken& entry) { return memory_->is_complete(entry.seq); });
}

DecodeStatus LlamaEngine::decode(std::span<const BatchToken> batch) {
  KVKEEP_ASSERT(!batch.empty() && batch.size() <= description_.batch_tokens, "a batch has a size libllama takes");
  if (cancelled_) return DecodeStatus::kAborted;
  if (batch.size() > memory_->cells_available()) return DecodeStatus::kNoCells;
  if (!all_complete(batch)) {
    spdlog::error("decode refused: the state at a sequence's end was not restored");
    return DecodeStatus::kFailed;
  }
  fill_batch(batch);
  const llama_batch raw{.n_tokens = static_cast<std::int32_t>(batch.size()),
                        .token = batch_tokens_.data(),
                        .embd = nullptr,
                        .pos = batch_positions_.data(),
                        .n_seq_id = batch_sequence_counts_.data(),
                        .seq_id = batch_sequence_pointers_.data(),
                        .logits = batch_logits_.data()};
  const std::uint64_t mark = log_mark();
  const std::int32_t code = llama_decode(context_.get(), raw);
  if (code == 0) {
    note_decoded(batch);
    return DecodeStatus::kOk;
  }
  if (code == 1) return DecodeStatus::kNoCells;
  if (code != 2) spdlog::error("decode failed ({}): {}", code, log_reason_since(mark));
  drop_undecoded(batch);
  return code == 2 ? DecodeStatus::kAborted : DecodeStatus::kFailed;
}

void LlamaEngine::note_decoded(std::span<const BatchToken> batch) {
  for (const BatchToken& entry : batch) memory_->note_appended(entry.seq, 1);
  tokens_decoded_ += batch.size();
}

// Ubatches that were done before the stop left state: libllama's memory and the ledger must agree on it.
void LlamaEngine::drop_undecoded(std::span<const BatchToken> batch) {
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const bool first = i == 0 || batch[i].seq != batch[i - 1].seq;
    if (first) memory_->drop_undecoded(batch[i].seq);
  }
}

std::span<const float> LlamaEngine::logits(std::size_t index) const {
  const float* row = llama_get_logits_ith(context_.get(), static_cast<std::int32_t>(index));
  KVKEEP_ASSERT(row != nullptr, "the batch entry wanted logits");
  return {row, description_.vocabulary_size};
}

TokenId LlamaEngine::sample(Sampler& sampler, std::size_t index) {
  return static_cast<LlamaSampler&>(sampler).sample(*context_, static_cast<std::int32_t>(index));
}

Result<std::unique_ptr<Sampler>> LlamaEngine::make_sampler(const SamplingParams& params) {
  const llama_vocab* vocabulary = llama_model_get_vocab(model_.get());
  TRY_ASSIGN(auto sampler, LlamaSampler::make(*vocabulary, params, description_.context_tokens));
  return std::unique_ptr<Sampler>(std::move(sampler));
}

Status set_rows_bare(LlamaEngine& engine, SeqId seq, ByteSpan rows) {
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(rows.data());
  const std::size_t taken = llama_state_seq_set_data(&engine.context(), bytes, rows.size(), seq.value());
  if (taken != rows.size()) return io_error("libllama refused rows that it gave itself");
  return {};
}

}  // namespace kvkeep::engine::llama
