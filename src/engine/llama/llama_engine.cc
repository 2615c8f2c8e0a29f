#include "engine/llama/llama_engine.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "base/media_ids.h"
#include "base/result.h"
#include "engine/gguf/model_identity.h"
#include "engine/llama/fingerprint.h"
#include "engine/llama/library.h"
#include "engine/llama/llama_sampler.h"
#include "engine/llama/media_batch.h"
#include "engine/llama/memory_class.h"
#include "engine/llama/model_file.h"
#include "engine/llama/model_options.h"
#include "engine/llama/model_params.h"
#include "engine/llama/state_parts.h"
#include "engine/llama/stream_memory.h"

namespace kvkeep::engine::llama {

LlamaEngine::LlamaEngine(Parts parts)
    : model_(std::move(parts.model)),
      pools_(std::move(parts.pools)),
      plan_(std::move(parts.plan)),
      context_(std::move(parts.context)),
      adapters_(std::move(parts.adapters)),
      memory_(std::move(parts.memory)),
      shown_memory_(*memory_),
      vocabulary_(std::move(parts.vocabulary)),
      description_(std::move(parts.description)),
      start_scales_(scales_of(description_.adapters)),
      chains_(*llama_model_get_vocab(model_.get()), description_.context_tokens) {
  used_scales_ = start_scales_;
  prepare_context();
}

void LlamaEngine::prepare_context() {
  const auto is_aborted = [](void* engine) { return static_cast<const LlamaEngine*>(engine)->is_aborted(); };
  llama_set_abort_callback(context_.get(), is_aborted, this);
  // Only now: a thread that was made by a thread with a place of its own, such as the one that joins rows, has it too.
  if (pools_ != nullptr) pools_->attach(*context_);
  shown_memory_.show(*memory_);
}

// libllama computes streams together only where their numbers follow each other in the batch.
void LlamaEngine::order_batch(std::span<const BatchToken> batch) {
  batch_places_.resize(batch.size());
  std::iota(batch_places_.begin(), batch_places_.end(), 0);
  if (!memory_->own_cells() || std::ranges::is_sorted(batch, {}, &BatchToken::seq)) return;
  std::vector<std::int32_t> entries = batch_places_;
  const auto key = [&](std::int32_t entry) { return std::pair(batch[static_cast<std::size_t>(entry)].seq, entry); };
  std::ranges::sort(entries, {}, key);  // std::stable_sort does not compile under clang with this library
  for (std::size_t place = 0; place < entries.size(); ++place) {
    batch_places_[static_cast<std::size_t>(entries[place])] = static_cast<std::int32_t>(place);
  }
}

void LlamaEngine::fill_batch(std::span<const BatchToken> batch) {
  order_batch(batch);
  const std::size_t size = batch.size();
  batch_tokens_.resize(size);
  batch_positions_.resize(size);
  batch_sequence_counts_.assign(size, 1);
  batch_sequences_.resize(size);
  batch_sequence_pointers_.resize(size);
  batch_logits_.resize(size);
  for (std::size_t entry = 0; entry < size; ++entry) {
    const auto i = static_cast<std::size_t>(batch_places_[entry]);
    batch_tokens_[i] = batch[entry].token;
    batch_positions_[i] = memory_->media(batch[entry].seq).to_library(batch[entry].at);
    batch_sequences_[i] = batch[entry].seq.value();
    batch_sequence_pointers_[i] = &batch_sequences_[i];
    batch_logits_[i] = batch[entry].want_logits ? 1 : 0;
  }
}

// libllama would decode with the state of another position, or with none.
bool LlamaEngine::all_complete(std::span<const BatchToken> batch) const {
  return std::ranges::all_of(batch, [this](const BatchToken& entry) { return memory_->is_complete(entry.seq); });
}

bool LlamaEngine::cells_suffice(std::span<const BatchToken> batch) const {
  if (!memory_->own_cells()) return batch.size() <= memory_->cells_available(batch.front().seq);
  std::map<SeqId, std::size_t> needed;
  for (const BatchToken& entry : batch) ++needed[entry.seq];
  return std::ranges::all_of(needed,
                             [this](const auto& of) { return of.second <= memory_->cells_available(of.first); });
}

void LlamaEngine::use_adapters(const AdapterScales& scales) {
  const AdapterScales& wanted = scales.empty() ? start_scales_ : scales;
  KVKEEP_ASSERT(wanted.size() == adapters_.size(), "each adapter has a scale");
  if (wanted == used_scales_) return;
  used_scales_ = wanted;
  KVKEEP_ASSERT(set_scales(*context_, adapters_, used_scales_), "libllama accepted these adapters before");
}

DecodeStatus LlamaEngine::decode(std::span<const BatchToken> batch) {
  KVKEEP_ASSERT(!batch.empty() && batch.size() <= description_.batch_tokens, "a batch has a size libllama takes");
  if (cancelled_) return DecodeStatus::kAborted;
  if (!cells_suffice(batch)) return DecodeStatus::kNoCells;
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
  if (pools_ != nullptr) pools_->begin(batch.size());
  const std::int32_t code = llama_decode(context_.get(), raw);
  // On a GPU libllama returns while the tokens are still being computed.
  llama_synchronize(context_.get());
  if (code == 0) {
    note_decoded(batch);
    return DecodeStatus::kOk;
  }
  const DecodeStatus status = status_of(code, mark);
  if (status != DecodeStatus::kNoCells) drop_undecoded(batch);
  return status;
}

DecodeStatus LlamaEngine::status_of(std::int32_t code, std::uint64_t log_mark) const {
  if (code == 0) return DecodeStatus::kOk;
  if (code == 1) return DecodeStatus::kNoCells;
  if (code == 2) return DecodeStatus::kAborted;
  spdlog::error("decode failed ({}): {}", code, log_reason_since(log_mark));
  return DecodeStatus::kFailed;
}

DecodeStatus LlamaEngine::decode_media(SeqId seq, const MediaChunk& chunk) {
  const auto runs = media_runs(chunk.ids);
  KVKEEP_ASSERT(runs && runs->size() == 1 && runs->front().range.size() == chunk.ids.size(), "the ids of one chunk");
  const ChunkShape& shape = runs->front().shape;
  KVKEEP_ASSERT(chunk.embeddings.size() == std::size_t{shape.embeddings} * description_.embedding_input_size,
                "as many embeddings as the ids say");
  KVKEEP_ASSERT(chunk.places.size() == (shape.plane ? shape.embeddings : 0), "as many places as embeddings");
  KVKEEP_ASSERT(!chunk.at_once || shape.embeddings <= description_.tokens_at_once, "the chunk fits one micro-batch");
  const std::size_t count = chunk.end() - chunk.begin;
  const bool sliceable = !chunk.at_once && chunk.ids.size() == shape.embeddings;
  KVKEEP_ASSERT(count == chunk.ids.size() || (sliceable && count > 0), "only a causal chunk is computed in slices");
  if (cancelled_) return DecodeStatus::kAborted;
  if (count > memory_->cells_available(seq)) return DecodeStatus::kNoCells;
  if (!memory_->is_complete(seq)) {
    spdlog::error("decode refused: the state at a sequence's end was not restored");
    return DecodeStatus::kFailed;
  }
  const std::uint64_t mark = log_mark();
  const DecodeStatus status = status_of(decode_embeddings(seq, chunk, shape), mark);
  if (status == DecodeStatus::kNoCells) return status;
  if (status != DecodeStatus::kOk) {
    // libllama cannot cut a sequence within a plane.
    chunk.begin > 0 ? memory_->clear(seq) : memory_->drop_undecoded(seq);
    return status;
  }
  const Position begin = chunk_begin(seq, chunk);
  memory_->note_media(seq, {{begin, begin + chunk.ids.size()}, shape}, count);
  tokens_decoded_ += std::min<std::size_t>(count, shape.embeddings);
  return status;
}

// Where the chunk begins of which the sequence has the ids before chunk.begin.
Position LlamaEngine::chunk_begin(SeqId seq, const MediaChunk& chunk) const {
  return Position{static_cast<std::uint32_t>(memory_->length(seq).value() - chunk.begin)};
}

// libllama asks between the nodes of a graph that a processor computes.
bool LlamaEngine::is_aborted() const {
  return cancelled_ || (chunk_in_work_ != nullptr && chunk_in_work_->is_unwanted && chunk_in_work_->is_unwanted());
}

std::int32_t LlamaEngine::decode_embeddings(SeqId seq, const MediaChunk& chunk, const ChunkShape& shape) {
  const llama_pos first = memory_->media(seq).to_library(chunk_begin(seq, chunk));
  MediaBatch batch(*model_, seq.value(), first, chunk);
  // The embeddings of a chunk that is computed at once are fewer than a batch takes.
  if (chunk.at_once) llama_set_causal_attn(context_.get(), false);
  chunk_in_work_ = &chunk;
  std::int32_t code = 0;
  const std::size_t end = std::min<std::size_t>(chunk.end(), shape.embeddings);
  for (std::size_t done = chunk.begin; code == 0 && done < end;) {
    const std::size_t count = std::min<std::size_t>(description_.batch_tokens, end - done);
    if (pools_ != nullptr) pools_->begin(count);
    code = cancelled_ ? 2 : llama_decode(context_.get(), batch.part(done, count, done + count == end));
    if (code == 1 && done > chunk.begin) code = -1;  // part of it is there: not as if nothing had changed
    done += count;
    batch_places_.assign(1, static_cast<std::int32_t>(count) - 1);
  }
  chunk_in_work_ = nullptr;
  if (chunk.at_once) llama_set_causal_attn(context_.get(), true);
  return code;
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
  const float* row = llama_get_logits_ith(context_.get(), batch_places_.at(index));
  KVKEEP_ASSERT(row != nullptr, "the batch entry wanted logits");
  return {row, description_.vocabulary_size};
}

// A NaN in the hidden state makes each logit NaN, or 0 where activations are rounded to K-quants. No model gives all
// tokens the same logit.
bool LlamaEngine::has_finite_logits(std::size_t index) const {
  const std::span<const float> all = logits(index);
  return std::isfinite(all.front()) && std::ranges::any_of(all, [&](float each) { return each != all.front(); });
}

void LlamaEngine::wipe() { llama_memory_clear(llama_get_memory(context_.get()), /*data=*/true); }

TokenId LlamaEngine::sample(Sampler& sampler, std::size_t index) {
  return static_cast<LlamaSampler&>(sampler).sample(*context_, batch_places_.at(index));
}

Result<std::unique_ptr<Sampler>> LlamaEngine::make_sampler(const SamplingParams& params) {
  const llama_vocab* vocabulary = llama_model_get_vocab(model_.get());
  TRY_ASSIGN(SamplerHandle chain, chains_.make(params));
  TRY_ASSIGN(auto sampler, LlamaSampler::make(*vocabulary, std::move(chain), params));
  return std::unique_ptr<Sampler>(std::move(sampler));
}

Status set_rows_bare(LlamaEngine& engine, SeqId seq, ByteSpan rows) {
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(rows.data());
  const std::size_t taken = llama_state_seq_set_data(&engine.context(), bytes, rows.size(), seq.value());
  if (taken != rows.size()) return io_error("libllama refused rows that it gave itself");
  return {};
}

// LlamaEngine::load: from options to a context whose memory class is proven.

namespace {

Result<ContextHandle> conversations_context(const ModelOptions& options, llama_model& model, std::uint32_t sequences) {
  TRY_ASSIGN(const llama_context_params params, make_context_params(options, sequences));
  return make_context(params, model);
}

// The sequences of a context: in a pool, rows may pass through one more.
std::uint32_t count_sequences(const ModelOptions& options, MemoryClass memory_class, std::uint32_t conversations) {
  return conversations + (needs_scratch(memory_class) && !options.own_cells ? 1 : 0);
}

// Returns true if the engine may change the layout: a trial passed, and RoPE's factors, which depend on how long a
// sequence may become, are the same in both.
bool can_lay_out(const Weights& weights, const ModelOptions& options, const ClassFinding& finding) {
  if (!options.choose_cells || options.own_cells || !finding.own_cells || options.parallel < 2) return false;
  const auto factors = [&](std::uint32_t tokens) {
    return rope_factors_in_use(weights.shape, options.kv_overrides, tokens);
  };
  constexpr std::uint32_t kStep = 256;  // libllama rounds each sequence's cells up to multiples of it
  return factors(*options.n_ctx) == factors((*options.n_ctx / options.parallel + kStep - 1) / kStep * kStep);
}

// The tokens from which the state's parts are learnt. As many as take libggml's way of computing prompts are enough to
// warm up: a whole micro-batch took most of the processor time of a start, which a busy machine multiplies.
constexpr std::uint32_t kWarmupTokens = 32;
std::vector<llama_token> first_tokens(const llama_context& context, const llama_model& model, bool warmup) {
  const llama_vocab* vocabulary = llama_model_get_vocab(&model);
  std::vector<llama_token> tokens{std::max(llama_vocab_bos(vocabulary), 0), std::max(llama_vocab_eos(vocabulary), 0)};
  if (warmup)
    tokens.resize(std::min({kWarmupTokens, llama_n_ubatch(&context), llama_n_ctx(&context) / 2}), tokens.front());
  return tokens;
}

// Learns the parts of the state in a small context of one sequence, where both layouts of cells are the same.
Result<StateParts> learn_in_small_context(ModelOptions options, llama_model& model) {
  options.own_cells = false;
  options.n_ctx = kLeastContext;
  options.n_ubatch = options.n_batch = kLeastContext;
  TRY_ASSIGN(const ContextHandle context, conversations_context(options, model, 1));
  return learn_state_parts(*context, first_tokens(*context, model, false));
}

// How many conversations the context is made for.
Result<std::uint32_t> count_conversations(const ModelOptions& options, llama_model& model, MemoryClass memory_class) {
  const std::uint32_t running = std::max(options.parallel, 1U);
  if (options.own_cells) return running;
  if (memory_class == MemoryClass::kSliceable) return running + options.idle_sequences;
  if (memory_class == MemoryClass::kOpaque || memory_class == MemoryClass::kUncached) return running;
  TRY_ASSIGN(const StateParts parts, learn_in_small_context(options, model));
  const std::uint32_t idle = affordable_idle_sequences(options.idle_sequences, parts.bytes_per_sequence);
  spdlog::debug("each sequence costs {:.1f} MiB: {} for running requests, {} for idle conversations",
                static_cast<double>(parts.bytes_per_sequence) / (1 << 20), running, idle);
  return running + idle;
}

// Learns the parts of the state in the model's own context, and corrects the verdict on its clone if they differ.
Result<StateParts> learn_parts(const ModelOptions& options, llama_context& context, ClassVerdict& verdict) {
  const llama_model& model = *llama_get_model(&context);
  if (options.own_cells) return learn_in_small_context(options, const_cast<llama_model&>(model));
  TRY_ASSIGN(StateParts parts, learn_state_parts(context, first_tokens(context, model, options.warmup)));
  const MemoryClass proven = verdict.finding.memory_class;
  if (needs_scratch(proven) || proven == MemoryClass::kRecurrent) {
    if (parts.looks_like == proven) return parts;
    verdict = {.finding = {}, .reason = "the parts of the model's state differ from its clone's"};
  } else if (proven == MemoryClass::kOpaque && !verdict.tried) {
    const Status tried = try_whole_state(context, first_tokens(context, model, false));
    if (!tried) verdict = {.finding = {}, .reason = verdict.reason + "; " + tried.error().message};
  }
  return parts;
}

// Computes the first tokens in a memory whose sequences have cells of their own, and checks that it gives their rows in
// the layout that was learnt elsewhere. The memory is empty before and after.
Status try_first_rows(const ModelOptions& options, llama_context& context, SequenceMemory& memory,
                      const RowLayout& layout) {
  std::vector<llama_token> tokens = first_tokens(context, *llama_get_model(&context), options.warmup);
  tokens.resize(std::min<std::size_t>(tokens.size(), llama_n_ctx_seq(&context)));
  const std::uint64_t mark = log_mark();
  if (llama_decode(&context, llama_batch_get_one(tokens.data(), static_cast<std::int32_t>(tokens.size()))) != 0) {
    return with_reason(unsupported("the first decode failed"), mark);
  }
  constexpr SeqId kTried{0};
  const TokenRange all{Position{}, Position{} + tokens.size()};
  memory.note_appended(kTried, tokens.size());
  std::vector<std::byte> rows(memory.rows_bytes(tokens.size()));
  const auto written = memory.save_rows(kTried, all, rows);
  memory.clear(kTried);
  if (!written) return written.error();
  return verify_rows(layout, ByteSpan(rows).first(*written), all);
}

void add_memory_class(const ClassVerdict& verdict, const StateParts& parts, Description& out) {
  out.memory_class = verdict.finding.memory_class;
  out.memory_class_reason = verdict.reason;
  if (needs_scratch(out.memory_class)) out.row_bytes_per_token = parts.rows->bytes_per_token();
  if (out.memory_class == MemoryClass::kWindowed) out.window_bytes_per_token = parts.window->bytes_per_token();
  if (out.memory_class == MemoryClass::kHybrid || out.memory_class == MemoryClass::kRecurrent) {
    out.point_bytes = parts.point_bytes;
  }
}

Error only_embeds(const std::string& path) {
  return unsupported(path + " is not a text generator: serve it with --embeddings, or with --rerank if it ranks");
}

Result<ModelHash> model_hash(const ModelOptions& options) {
  const auto depth = options.full_model_hash ? gguf::IdentityDepth::kFull : gguf::IdentityDepth::kSampled;
  return gguf::model_identity(open_linked, options.path, depth);
}

}  // namespace

Result<std::unique_ptr<LlamaEngine>> LlamaEngine::load(const ModelOptions& options, const LoadProgress& progress) {
  TRY_ASSIGN(const Weights weights, load_weights(options, progress));
  return make(weights);
}

Result<std::unique_ptr<LlamaEngine>> LlamaEngine::make(const Weights& weights) {
  const AbortNet net(weights.options.path);
  Parts parts;
  parts.model = weights.model;
  llama_model& model = *parts.model;
  if (!llama_model_has_decoder(&model)) return only_embeds(weights.options.path);
  ClassVerdict verdict = find_memory_class(model, weights.options);
  const MemoryClass memory_class = verdict.finding.memory_class;
  ModelOptions options = weights.options;
  options.own_cells = weights.options.own_cells && verdict.finding.own_cells;
  if (options.repeatable && !options.own_cells && memory_class != MemoryClass::kRecurrent) {
    return unsupported("text of this model is not repeatable, since its sequences cannot have cells of their own: " +
                       verdict.no_own_cells);
  }
  TRY_ASSIGN(const std::uint32_t conversations, count_conversations(options, model, memory_class));
  TRY_ASSIGN(parts.context,
             conversations_context(options, model, count_sequences(options, memory_class, conversations)));
  if (llama_get_memory(parts.context.get()) == nullptr) return only_embeds(options.path);
  parts.pools = weights.pools;
  FingerprintParts fingerprint{.devices = device_names(weights.params, *options.gpu_layers, options.operation_offload)};
  fingerprint.rope_factors =
      rope_factors_in_use(weights.shape, options.kv_overrides, llama_n_ctx_seq(parts.context.get()));
  TRY_ASSIGN(Loras loras, apply_loras(options, model, *parts.context));
  TRY_ASSIGN(parts.plan.vectors, read_control_vectors(options, model));
  if (parts.plan.vectors) TRY(set_control_vectors(*parts.context, *parts.plan.vectors));
  fingerprint.adapters = std::move(loras.names);
  if (const auto& vectors = parts.plan.vectors) {
    fingerprint.adapters.insert(fingerprint.adapters.end(), vectors->names.begin(), vectors->names.end());
  }
  parts.adapters = std::move(loras.handles);
  TRY_ASSIGN(const StateParts state, learn_parts(options, *parts.context, verdict));
  parts.memory = make_memory(*parts.context, conversations, state, verdict.finding, options.own_cells);
  if (options.own_cells) TRY(try_first_rows(options, *parts.context, *parts.memory, *state.rows));
  TRY_ASSIGN(parts.vocabulary, LlamaVocabulary::make(parts.model, options.path));
  TRY_ASSIGN(fingerprint.model, model_hash(options));
  fingerprint.memory_class = verdict.finding.memory_class;
  fingerprint.state = &state;
  fingerprint.sequences = llama_n_seq_max(parts.context.get());
  parts.description = describe(weights, *parts.context);
  parts.description.own_cells = options.own_cells;
  parts.description.can_lay_out = can_lay_out(weights, options, verdict.finding);
  parts.description.context_tokens =
      options.own_cells ? llama_n_ctx_seq(parts.context.get()) : llama_n_ctx(parts.context.get());
  if (weights.options.own_cells && !options.own_cells) parts.description.no_own_cells = verdict.no_own_cells;
  if (options.choose_cells && !verdict.finding.own_cells) {
    spdlog::debug("the layout of cells does not change: {}", verdict.no_own_cells);
  }
  parts.description.compute_kinds = device_kinds(weights.params, *options.gpu_layers, options.operation_offload);
  add_memory_class(verdict, state, parts.description);
  parts.description.adapters = std::move(loras.adapters);
  parts.description.fingerprint_text = fingerprint_text(fingerprint_fields(options, fingerprint));
  parts.description.fingerprint = fingerprint_hash(parts.description.fingerprint_text);
  parts.plan.options = std::move(options);
  parts.plan.finding = verdict.finding;
  parts.plan.state = state;
  parts.plan.pooled = conversations;
  return std::unique_ptr<LlamaEngine>(new LlamaEngine(std::move(parts)));
}

// LlamaEngine::lay_out: another context on the same weights.

Status LlamaEngine::renew_context(bool own_cells) {
  ModelOptions options = plan_.options;
  options.own_cells = own_cells;
  const std::uint32_t conversations = own_cells ? options.parallel : plan_.pooled;
  const std::uint32_t sequences = count_sequences(options, plan_.finding.memory_class, conversations);
  TRY_ASSIGN(ContextHandle context, conversations_context(options, *model_, sequences));
  if (plan_.vectors) TRY(set_control_vectors(*context, *plan_.vectors));
  if (!set_scales(*context, adapters_, used_scales_)) return invalid("libllama does not accept the LoRA adapters");
  memory_ = make_memory(*context, conversations, *plan_.state, plan_.finding, own_cells);
  context_ = std::move(context);
  prepare_context();
  return {};
}

// The cells of both layouts rarely fit into memory at the same time: the old ones go first.
Status LlamaEngine::lay_out(bool own_cells) {
  if (!description_.can_lay_out) return Engine::lay_out(own_cells);
  if (own_cells == memory_->own_cells()) return {};
  KVKEEP_ASSERT(memory_->cells_used() == 0, "a context is made anew while no sequence holds any of it");
  memory_.reset();
  context_.reset();
  Status renewed = renew_context(own_cells);
  if (renewed) return renewed;
  const Status former = renew_context(!own_cells);
  KVKEEP_ASSERT(former.ok(), "the memory that was freed a moment ago is there");
  return renewed;
}

}  // namespace kvkeep::engine::llama
