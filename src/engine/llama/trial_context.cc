#include "engine/llama/trial_context.h"

#include <algorithm>

#include "engine/llama/model_params.h"
#include "engine/llama/state_bytes.h"

namespace kvkeep::engine::llama {
namespace {

// Cells lie in any order; read one row at a time, they come in the order of their positions.
Bytes sorted(const RowLayout& layout, ByteSpan rows, TokenRange range) {
  std::vector<cache::RowPiece> pieces;
  for (Position at = range.begin; at < range.end; at = at + 1) pieces.push_back({range, {at, at + 1}, rows});
  Bytes out(layout.bytes_of(range.size()));
  join_rows(layout, pieces, 0, out);
  return out;
}

}  // namespace

Result<TrialContext> TrialContext::make(llama_model& model, const ModelOptions& options,
                                        std::optional<ClassFinding> finding) {
  TRY_ASSIGN(llama_context_params params, make_context_params(options, kConversations + 1));
  const std::uint64_t mark = log_mark();
  TrialContext made;
  made.context_.reset(llama_init_from_model(&model, params));
  if (!made.context_) return unsupported("no context: " + log_reason_since(mark));
  TRY_ASSIGN(made.parts_, learn_state_parts(*made.context_, {1, 2, 3}));
  made.finding_ = finding.value_or(ClassFinding{.memory_class = made.parts_.looks_like});
  made.memory_ = make_memory(*made.context_, kConversations, made.parts_, made.finding_);
  return made;
}

// Computes at most a window per step, so that its rows can be saved before they slide off.
Status TrialContext::prefill(SeqId seq, TokenRange tokens, std::int32_t text) {
  for (Position at = tokens.begin; at < tokens.end;) {
    const Position end = std::min(at + kBatch, tokens.end);
    TRY(decode(seq, {at, end}, text));
    memory_->note_appended(seq, end - at);
    at = end;
  }
  return {};
}

Status TrialContext::decode(SeqId seq, TokenRange tokens, std::int32_t text) {
  llama_batch batch = llama_batch_init(static_cast<std::int32_t>(tokens.size()), 0, 1);
  batch.n_tokens = static_cast<std::int32_t>(tokens.size());
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const auto position = static_cast<std::int32_t>(tokens.begin.value() + i);
    batch.token[i] = (position * position * 7 + position * 3 + text * 29) % kCloneVocabulary;
    batch.pos[i] = position;
    batch.n_seq_id[i] = 1;
    batch.seq_id[i][0] = seq.value();
    batch.logits[i] = i + 1 == tokens.size() ? 1 : 0;
  }
  const std::uint64_t mark = log_mark();
  const std::int32_t code = llama_decode(context_.get(), batch);
  llama_batch_free(batch);
  if (code == 0) return {};
  return with_reason(unsupported("the clone does not decode (" + std::to_string(code) + ")"), mark);
}

Result<Bytes> TrialContext::rows(SeqId seq, TokenRange range) {
  if (memory_->rows_bytes(1) == 0) return Bytes();
  Bytes bytes(memory_->rows_bytes(range.size()));
  TRY_ASSIGN(const std::size_t written, memory_->save_rows(seq, range, bytes));
  bytes.resize(written);
  TRY(verify_rows(*parts_.rows, bytes, range));
  return sorted(*parts_.rows, bytes, range);
}

Result<Bytes> TrialContext::window(SeqId seq, TokenRange range) {
  Bytes bytes(memory_->window_bytes(range.size()));
  TRY_ASSIGN(const std::size_t written, memory_->save_window(seq, range, bytes));
  bytes.resize(written);
  TRY(verify_rows(*parts_.window, bytes, range));
  return sorted(*parts_.window, bytes, range);
}

Result<Bytes> TrialContext::point(SeqId seq) {
  Bytes bytes(memory_->point_bytes(seq));
  TRY_ASSIGN(const std::size_t written, memory_->save_point(seq, bytes));
  bytes.resize(written);
  return bytes;
}

Result<Bytes> TrialContext::as_of_first(ByteSpan point) {
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(kConversations); ++i) memory_->clear(SeqId{i});
  const StatePart part = finding_.memory_class == MemoryClass::kHybrid ? StatePart::kPartial : StatePart::kWhole;
  TRY(set_state(*context_, 0, part, point));
  TRY_ASSIGN(Bytes again, get_state(*context_, 0, part));
  memory_->clear(SeqId{0});
  return again;
}

}  // namespace kvkeep::engine::llama
