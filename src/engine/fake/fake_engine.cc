#include "engine/fake/fake_engine.h"

#include <algorithm>
#include <bit>
#include <string>

#include "base/assert.h"
#include "base/media_ids.h"
#include "engine/fake/fake_sampler.h"

namespace kvkeep::engine::fake {

namespace {

std::string fingerprint_text(const FakeOptions& options) {
  return "engine=fake\nmodel_seed=" + std::to_string(options.model_seed) +
         "\nrow_bytes=" + std::to_string(options.row_bytes) +
         "\nmemory_class=" + std::string(to_string(options.memory_class)) + "\n";
}

Description describe(const FakeOptions& options, const FakeMemory& memory) {
  const StateOptions& state = memory.state_options();
  Description description;
  description.model_name = "fake";
  description.model_path = "fake";
  description.summary = "fake engine";
  description.uses_gpu = options.uses_gpu;
  description.memory_class = options.memory_class;
  description.memory_class_reason = "chosen by options";
  description.own_cells = options.own_cells;
  description.can_lay_out = options.own_sequences > 0;
  description.context_tokens = options.own_cells ? options.cells / options.sequences : options.cells;
  description.context_train_tokens = options.cells;
  description.batch_tokens = options.batch_tokens;
  description.tokens_at_once = options.batch_tokens;
  description.embedding_input_size = 1;
  description.vocabulary_size = options.vocabulary_size;
  description.parameters = 1;
  description.adapters.resize(options.adapters, {.path = "fake", .scale = 0});
  description.model_bytes = 1;
  description.row_bytes_per_token = state.has_rows() ? options.row_bytes : 0;
  description.window_bytes_per_token = state.has_window() ? sizeof(std::uint64_t) : 0;
  description.point_bytes = state.has_state() ? memory.point_bytes(SeqId{0}) : 0;
  description.fingerprint_text = fingerprint_text(options);
  ByteHasher hasher;
  hasher.append_field(description.fingerprint_text);
  description.fingerprint = hasher.finish<FingerprintHash>();
  return description;
}

// The token that has the row which `token` has with these scales.
TokenId adapted(TokenId token, const AdapterScales& scales) {
  for (const float scale : scales) {
    if (scale != 0)
      token = static_cast<TokenId>(mix(static_cast<std::uint64_t>(token), std::bit_cast<std::uint32_t>(scale)) >> 33);
  }
  return token;
}

}  // namespace

FakeEngine::FakeEngine(FakeOptions options)
    : options_(options), memory_(options_, faults_), description_(describe(options_, memory_)) {
  KVKEEP_ASSERT(options_.first_sampled_token + 2 < static_cast<TokenId>(options_.vocabulary_size), "there is text");
}

bool FakeEngine::check_batch(std::span<const BatchToken> batch) const {
  if (batch.empty() || batch.size() > options_.batch_tokens) return false;
  std::vector<Position> next;
  for (std::uint32_t i = 0; i < memory_.sequence_count(); ++i) {
    next.push_back(memory_.length(SeqId{static_cast<std::int32_t>(i)}));
  }
  for (const BatchToken& entry : batch) {
    const auto seq = static_cast<std::size_t>(entry.seq.value());
    if (seq >= next.size() || entry.at != next[seq]) return false;
    if (entry.token < 0 || static_cast<std::uint32_t>(entry.token) >= options_.vocabulary_size) return false;
    next[seq] = next[seq] + 1;
  }
  return true;
}

void FakeEngine::use_adapters(const AdapterScales& scales) {
  KVKEEP_ASSERT(scales.empty() || scales.size() == options_.adapters, "each adapter has a scale");
  scales_ = scales;
}

DecodeStatus FakeEngine::decode(std::span<const BatchToken> batch) {
  ++decode_calls_;
  KVKEEP_ASSERT(check_batch(batch), "a batch continues its sequences with tokens of the vocabulary");
  if (on_decode_) on_decode_(batch);
  logits_.clear();
  const bool fail = faults_.fires(&FakeFaults::fail_decode);
  const bool abort = faults_.fires(&FakeFaults::abort_decode);
  if (fail || abort || cancelled_) {
    leave_rubbish(batch);
    return fail ? DecodeStatus::kFailed : DecodeStatus::kAborted;
  }
  if (faults_.fires(&FakeFaults::no_cells_decode) || !cells_suffice(batch)) return DecodeStatus::kNoCells;
  append_tokens(batch);
  tokens_decoded_ += batch.size();
  return DecodeStatus::kOk;
}

bool FakeEngine::cells_suffice(std::span<const BatchToken> batch) const {
  if (batch.empty()) return true;
  if (!memory_.own_cells()) return batch.size() <= memory_.cells_available(batch.front().seq);
  return std::ranges::all_of(batch, [&](const BatchToken& entry) {
    const auto wanted = std::ranges::count(batch, entry.seq, &BatchToken::seq);
    return static_cast<std::size_t>(wanted) <= memory_.cells_available(entry.seq);
  });
}

DecodeStatus FakeEngine::decode_media(SeqId seq, const MediaChunk& chunk) {
  const auto runs = media_runs(chunk.ids);
  KVKEEP_ASSERT(runs && runs->size() == 1 && runs->front().range.size() == chunk.ids.size(), "the ids of one chunk");
  KVKEEP_ASSERT(chunk.embeddings.size() == runs->front().shape.embeddings, "as many embeddings as the ids say");
  const std::size_t count = chunk.end() - chunk.begin;
  const std::size_t embeddings = runs->front().shape.embeddings;
  const bool sliceable = !chunk.at_once && chunk.ids.size() == embeddings;
  KVKEEP_ASSERT(count == chunk.ids.size() || (sliceable && count > 0), "only a causal chunk is computed in slices");
  KVKEEP_ASSERT(chunk.begin <= memory_.length(seq).value(), "the sequence has the slices before");
  std::vector<BatchToken> batch;
  for (const TokenId id : chunk.ids.subspan(chunk.begin, count)) batch.push_back({.seq = seq, .token = id, .at = {}});
  if (on_decode_) on_decode_(batch);
  logits_.clear();
  const bool fail = faults_.fires(&FakeFaults::fail_decode);
  if (fail || cancelled_ || (chunk.is_unwanted && chunk.is_unwanted())) {
    leave_rubbish(batch);
    return fail ? DecodeStatus::kFailed : DecodeStatus::kAborted;
  }
  if (batch.size() > memory_.cells_available(seq)) return DecodeStatus::kNoCells;
  batch.back().want_logits = true;
  append_tokens(batch);
  logits_.assign(1, logits_.back());
  tokens_decoded_ += std::min(count, embeddings);
  return DecodeStatus::kOk;
}

void FakeEngine::append_tokens(std::span<const BatchToken> batch) {
  for (const BatchToken& entry : batch) {
    const std::uint64_t state = memory_.append(entry.seq, adapted(entry.token, scales_));
    logits_.push_back(entry.want_logits ? std::optional(state) : std::nullopt);
  }
}

// Leaves what a libllama call that failed between micro-batches leaves: some rows are there, and no sequence of the
// batch can be relied upon, whatever its length says.
void FakeEngine::leave_rubbish(std::span<const BatchToken> batch) {
  for (const BatchToken& entry : batch) memory_.spoil(entry.seq);
  std::size_t count = (batch.size() + 1) / 2;
  while (count > 0 && !cells_suffice(batch.first(count))) --count;
  append_tokens(batch.first(count));
  logits_.clear();
}

TokenId FakeEngine::choose(std::uint64_t state, const Sampler& sampler) const {
  const auto& fake_sampler = static_cast<const FakeSampler&>(sampler);
  const std::uint64_t value = mix(state, fake_sampler.influence());
  const bool ends = options_.end_of_text_one_in > 0 && value % options_.end_of_text_one_in == 0;
  if (ends && options_.end_of_text && fake_sampler.may_end()) return *options_.end_of_text;
  const auto first = options_.first_sampled_token;
  const auto choices = static_cast<std::uint64_t>(static_cast<TokenId>(options_.vocabulary_size) - first);
  const auto token = static_cast<TokenId>(first + static_cast<TokenId>((value >> 16) % choices));
  if (token != options_.end_of_text) return token;
  return token == first ? first + 1 : token - 1;
}

bool FakeEngine::has_finite_logits(std::size_t index) const {
  KVKEEP_ASSERT(index < logits_.size() && logits_[index], "the last decode wanted these logits");
  return !faults_.fires(&FakeFaults::bad_logits);
}

void FakeEngine::wipe() {
  KVKEEP_ASSERT(memory_.cells_used() == 0, "cells are wiped while no sequence holds any");
  ++wipes_;
}

Status FakeEngine::lay_out(bool own_cells) {
  if (!description_.can_lay_out) return Engine::lay_out(own_cells);
  if (faults_.fires(&FakeFaults::fail_lay_out)) return no_space("the memory was not made anew, on demand");
  memory_.lay_out(own_cells);
  return {};
}

TokenId FakeEngine::sample(Sampler& sampler, std::size_t index) {
  KVKEEP_ASSERT(index < logits_.size() && logits_[index], "the last decode wanted these logits");
  const TokenId token = choose(*logits_[index], sampler);
  static_cast<FakeSampler&>(sampler).count_sample();
  sampler.accept(token);
  return token;
}

std::span<const float> FakeEngine::logits(std::size_t index) const {
  KVKEEP_ASSERT(index < logits_.size() && logits_[index], "the last decode wanted these logits");
  const auto uniform = [](std::uint64_t from) { return static_cast<float>(from >> 40) / (1 << 23) - 1; };
  spread_logits_.resize(options_.vocabulary_size);
  for (std::size_t token = 0; token < spread_logits_.size(); ++token) {
    const float noise = options_.logit_noise * uniform(mix(decode_calls_, token));
    spread_logits_[token] = uniform(mix(*logits_[index], token)) + noise;
  }
  return spread_logits_;
}

Result<std::unique_ptr<Sampler>> FakeEngine::make_sampler(const SamplingParams& params) {
  if (!params.grammar.text.empty()) return unsupported("the fake engine's tokens have no text for a grammar to match");
  if (params.thinking.most_tokens) return unsupported("the fake engine does not think");
  return std::unique_ptr<Sampler>(std::make_unique<FakeSampler>(params));
}

std::vector<TokenId> FakeEngine::expected_text(TokenSpan prompt, std::size_t count, const SamplingParams& params,
                                               const AdapterScales& scales) const {
  KVKEEP_ASSERT(!prompt.empty(), "something is decoded before something is sampled");
  FakeSampler sampler(params);
  std::vector<std::byte> row(memory_.state_options().has_rows() ? options_.row_bytes : 0);
  SequenceState state(memory_.state_options());
  const auto decode_one = [&](TokenId token) {
    state.compute_row(adapted(token, scales), row);
    state.decode(adapted(token, scales), row);
    sampler.accept(token);
  };
  for (const TokenId token : prompt) decode_one(token);
  std::vector<TokenId> text;
  while (text.size() < count) {
    text.push_back(choose(state.value(), sampler));
    if (text.back() == options_.end_of_text) break;
    sampler.count_sample();
    decode_one(text.back());
  }
  return text;
}

}  // namespace kvkeep::engine::fake
