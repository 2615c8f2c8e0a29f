#include "engine/llama/llama_embedder.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/assert.h"

namespace kvkeep::engine::llama {
namespace {

static_assert(int{LLAMA_POOLING_TYPE_NONE} == int(Pooling::kNone) &&
              int{LLAMA_POOLING_TYPE_MEAN} == int(Pooling::kMean) &&
              int{LLAMA_POOLING_TYPE_CLS} == int(Pooling::kCls) &&
              int{LLAMA_POOLING_TYPE_LAST} == int(Pooling::kLast) &&
              int{LLAMA_POOLING_TYPE_RANK} == int(Pooling::kRank));

// How one context is to be made.
struct ContextPlan {
  ModelOptions options;
  std::optional<Pooling> pooling;
};

Result<ContextHandle> embedding_context(const ContextPlan& plan, llama_model& model) {
  TRY_ASSIGN(llama_context_params params, make_context_params(plan.options, 1));
  params.embeddings = true;
  params.pooling_type =
      plan.pooling ? static_cast<enum llama_pooling_type>(*plan.pooling) : LLAMA_POOLING_TYPE_UNSPECIFIED;
  return make_context(params, model);
}

bool is_sliced(const llama_context& context) {
  return llama_get_memory(&context) != nullptr && llama_pooling_type(&context) == LLAMA_POOLING_TYPE_LAST;
}

// A context for one input that is as long as a ubatch.
ContextPlan short_plan(const Weights& weights, std::optional<Pooling> pooling) {
  ContextPlan plan{.options = weights.options, .pooling = pooling};
  plan.options.n_batch = plan.options.ubatch();
  plan.options.n_ctx = std::max(plan.options.ubatch(), kLeastContext);
  return plan;
}

// The same for inputs that are computed in slices.
Result<ContextPlan> sliced_plan(const Weights& weights, ContextPlan plan) {
  const std::uint32_t most = *weights.options.n_ctx;
  plan.options.n_ctx = weights.context_is_given ? most : std::min(most, kLongestSlicedInput);
  const auto fits = choose_context(plan.options, weights.shape, measure_kv_room(plan.options, weights.params));
  if (!fits) return fits.error();
  return plan;
}

Result<ContextHandle> best_context(const Weights& weights, std::optional<Pooling> pooling) {
  llama_model& model = *weights.model;
  const ContextPlan plan = short_plan(weights, pooling);
  TRY_ASSIGN(ContextHandle context, embedding_context(plan, model));
  if (!is_sliced(*context)) return context;
  context.reset();
  TRY_ASSIGN(const ContextPlan longer, sliced_plan(weights, plan));
  return embedding_context(longer, model);
}

// libllama knows positions up to the trained context only, where a model has a vector for each.
void set_lengths(const Weights& weights, const llama_context& context, EmbedderDescription& out) {
  const std::size_t batch = llama_n_ubatch(&context);
  out.slice_tokens = batch;
  out.longest_input = is_sliced(context) ? llama_n_ctx(&context) : std::min<std::size_t>(batch, *weights.options.n_ctx);
  out.longer_by = out.longest_input < batch || is_sliced(context) ? "--ctx-size" : "--ubatch-size";
  const std::size_t trained = weights.shape.context_train_tokens;
  if (llama_get_memory(&context) != nullptr || trained == 0 || trained > out.longest_input) return;
  out.longest_input = trained;
  out.longer_by = {};
}

RerankFormat rerank_format(const llama_model& model) {
  RerankFormat format;
  if (const char* source = llama_model_chat_template(&model, "rerank")) format.source = source;
  const llama_vocab* vocabulary = llama_model_get_vocab(&model);
  const auto add = [](std::vector<TokenId>& ids, bool wanted, llama_token token) {
    if (wanted && token != LLAMA_TOKEN_NULL) ids.push_back(token);
  };
  llama_token end = llama_vocab_eos(vocabulary);
  if (end == LLAMA_TOKEN_NULL) end = llama_vocab_sep(vocabulary);
  add(format.before, llama_vocab_get_add_bos(vocabulary), llama_vocab_bos(vocabulary));
  add(format.between, llama_vocab_get_add_eos(vocabulary), end);
  add(format.between, llama_vocab_get_add_sep(vocabulary), llama_vocab_sep(vocabulary));
  add(format.after, llama_vocab_get_add_eos(vocabulary), end);
  return format;
}

EmbedderDescription describe_embedder(const Weights& weights, const llama_context& context) {
  const llama_model& model = *weights.model;
  EmbedderDescription out{.pooling = static_cast<Pooling>(llama_pooling_type(&context))};
  const bool ranks = out.pooling == Pooling::kRank;
  out.vector_size = ranks ? llama_model_n_cls_out(&model) : static_cast<std::size_t>(llama_model_n_embd_out(&model));
  set_lengths(weights, context, out);
  if (ranks) out.rerank = rerank_format(model);
  return out;
}

Error with_advice(const Error& error) {
  return {error.kind, "no context for embeddings: " + error.message +
                          (error.kind == ErrorKind::kNoSpace ? "; --ctx-size and --ubatch-size make it smaller" : "")};
}

}  // namespace

LlamaEmbedder::LlamaEmbedder(const Weights& weights, ContextHandle context, EmbedderDescription description)
    : model_(weights.model), pools_(weights.pools), context_(std::move(context)), description_(std::move(description)) {
  if (pools_ != nullptr) pools_->attach(*context_);
  const auto is_cancelled = [](void* self) { return static_cast<LlamaEmbedder*>(self)->cancelled_.load(); };
  llama_set_abort_callback(context_.get(), is_cancelled, this);
}

Result<std::unique_ptr<LlamaEmbedder>> LlamaEmbedder::make(const Weights& weights, std::optional<Pooling> pooling) {
  llama_model& model = *weights.model;
  const std::string& path = weights.options.path;
  if (llama_model_has_encoder(&model) && llama_model_has_decoder(&model)) {
    return unsupported(path + " cannot embed: a model with an encoder and a decoder has no vectors for a whole text");
  }
  if (pooling == Pooling::kRank && !weights.shape.has_classifier) {
    return unsupported(path + " cannot rank: it has no classifier; serve a reranking model, or leave out --rerank");
  }
  const AbortNet net(path);
  Result<ContextHandle> context = best_context(weights, pooling);
  if (!context) return with_advice(context.error());
  TRY(apply_loras(weights.options, model, **context));
  TRY_ASSIGN(const auto vectors, read_control_vectors(weights.options, model));
  if (vectors) TRY(set_control_vectors(**context, *vectors));
  EmbedderDescription description = describe_embedder(weights, **context);
  std::unique_ptr<LlamaEmbedder> made(new LlamaEmbedder(weights, std::move(*context), std::move(description)));
  const std::vector<TokenId> first{std::max(llama_vocab_bos(llama_model_get_vocab(&model)), 0)};
  if (weights.options.warmup) TRY(made->compute(first, Position{}, true));
  return made;
}

Result<std::vector<float>> LlamaEmbedder::compute(TokenSpan run, Position at, bool last) {
  KVKEEP_ASSERT(!run.empty() && run.size() <= description_.slice_tokens, "a run has a size libllama takes");
  KVKEEP_ASSERT(at + run.size() <= Position{} + description_.longest_input, "an input fits");
  if (cancelled_) return aborted("the server is shutting down");
  TRY(decode(run, at));
  return last ? values(run.size()) : std::vector<float>{};
}

Status LlamaEmbedder::decode(TokenSpan run, Position at) {
  llama_memory_t memory = llama_get_memory(context_.get());
  if (memory != nullptr && at == Position{}) llama_memory_clear(memory, /*data=*/false);
  std::vector<llama_token> tokens(run.begin(), run.end());
  std::vector<llama_pos> positions(run.size());
  std::vector<std::int32_t> counts(run.size(), 1);
  llama_seq_id sequence = 0;
  std::vector<llama_seq_id*> sequences(run.size(), &sequence);
  std::vector<std::int8_t> outputs(run.size(), 1);
  for (std::size_t i = 0; i < run.size(); ++i) positions[i] = static_cast<llama_pos>((at + i).value());
  const llama_batch batch{.n_tokens = static_cast<std::int32_t>(run.size()),
                          .token = tokens.data(),
                          .embd = nullptr,
                          .pos = positions.data(),
                          .n_seq_id = counts.data(),
                          .seq_id = sequences.data(),
                          .logits = outputs.data()};
  const std::uint64_t mark = log_mark();
  if (pools_ != nullptr) pools_->begin(run.size());
  // For a model without memory libllama encodes instead.
  const std::int32_t code = llama_decode(context_.get(), batch);
  if (code == 0) return {};
  if (cancelled_) return aborted("the server is shutting down");
  return io_error(fmt::format("libllama could not embed ({}): {}", code, log_reason_since(mark)));
}

Result<std::vector<float>> LlamaEmbedder::values(std::size_t tokens) const {
  const std::size_t size = description_.vector_size;
  std::vector<float> out;
  const bool pooled = description_.pooling != Pooling::kNone;
  for (std::size_t i = 0; i < (pooled ? 1 : tokens); ++i) {
    const float* row = pooled ? llama_get_embeddings_seq(context_.get(), 0)
                              : llama_get_embeddings_ith(context_.get(), static_cast<std::int32_t>(i));
    if (row == nullptr) return io_error("libllama gave no embedding");
    out.insert(out.end(), row, row + size);
  }
  return out;
}

}  // namespace kvkeep::engine::llama
