#include "engine/fake/fake_engine.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <string>

#include "base/assert.h"
#include "engine/fake/fake_sampler.h"
#include "engine/fake/fake_state.h"

namespace kvkeep::engine::fake {

namespace {

constexpr std::uint32_t kMagic = 0x5741464BU;  // "KFAW": this engine's rows
constexpr std::uint32_t kWindowMagic = kMagic + 1;
constexpr std::uint32_t kPointMagic = kMagic + 2;

// What is written before saved rows, window rows (of 8 bytes each) and points (where count is of bytes). It records
// positions, as libllama does per cell.
struct SavedHeader {
  std::uint32_t magic;
  std::uint32_t row_bytes;
  std::uint32_t begin;
  std::uint32_t count;
};
static_assert(sizeof(SavedHeader) == 16);

StateOptions state_options(const FakeOptions& options) {
  return {options.memory_class,  options.model_seed,   options.row_bytes,
          options.window_tokens, options.window_slack, options.state_bytes};
}

Result<SavedHeader> read_header(ByteSpan bytes, std::uint32_t magic) {
  SavedHeader header;
  if (bytes.size() < sizeof header) return damaged("too short for a header");
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.magic != magic) return damaged("not state of this kind");
  return header;
}

std::string fingerprint_text(const FakeOptions& options) {
  return "engine=fake\nmodel_seed=" + std::to_string(options.model_seed) +
         "\nrow_bytes=" + std::to_string(options.row_bytes) +
         "\nmemory_class=" + std::string(to_string(options.memory_class)) + "\n";
}

Description describe(const FakeOptions& options) {
  Description description;
  description.model_name = "fake";
  description.model_path = "fake";
  description.summary = "fake engine";
  description.memory_class = options.memory_class;
  description.memory_class_reason = "chosen by options";
  description.context_tokens = options.cells;
  description.context_train_tokens = options.cells;
  description.batch_tokens = options.batch_tokens;
  description.vocabulary_size = options.vocabulary_size;
  description.parameters = 1;
  description.model_bytes = 1;
  description.row_bytes_per_token = state_options(options).has_rows() ? options.row_bytes : 0;
  description.window_bytes_per_token = state_options(options).has_window() ? sizeof(std::uint64_t) : 0;
  description.point_bytes = state_options(options).has_state() ? sizeof(SavedHeader) + options.state_bytes : 0;
  description.fingerprint_text = fingerprint_text(options);
  ByteHasher hasher;
  hasher.append_field(description.fingerprint_text);
  description.fingerprint = hasher.finish<FingerprintHash>();
  return description;
}

}  // namespace

class FakeEngine::Memory {
 public:
  explicit Memory(const FakeOptions& options)
      : options_(state_options(options)),
        rows_(std::size_t{options.cells} * options.row_bytes),
        sequences_(options.sequences, SequenceState(options_)) {}

  const StateOptions& options() const { return options_; }
  // Empty where the model has no rows.
  MutableByteSpan row(std::uint32_t cell) {
    if (!options_.has_rows()) return {};
    return MutableByteSpan(rows_).subspan(std::size_t{cell} * options_.row_bytes, options_.row_bytes);
  }
  SequenceState& at(SeqId seq) { return sequences_.at(static_cast<std::size_t>(seq.value())); }
  const SequenceState& at(SeqId seq) const { return sequences_.at(static_cast<std::size_t>(seq.value())); }

 private:
  StateOptions options_;
  std::vector<std::byte> rows_;
  std::vector<SequenceState> sequences_;
};

FakeEngine::FakeEngine(FakeOptions options)
    : options_(options),
      description_(describe(options_)),
      ledger_(options_.cells, options_.sequences),
      memory_(std::make_unique<Memory>(options_)) {
  KVKEEP_ASSERT(options_.row_bytes >= 8 && options_.state_bytes >= 8, "rows and states are long enough to differ");
  KVKEEP_ASSERT(options_.first_sampled_token + 2 < static_cast<TokenId>(options_.vocabulary_size), "there is text");
}

FakeEngine::~FakeEngine() = default;

cache::StateShape FakeEngine::shape() const {
  const StateOptions& options = memory_->options();
  const bool opaque = options_.memory_class == MemoryClass::kOpaque;
  return {.cacheable = options_.memory_class != MemoryClass::kUncached,
          .window_tokens = options.has_window() ? options.window_tokens : 0,
          .points = options.has_state() || opaque,
          .whole_points = opaque};
}

Position FakeEngine::stands_from(SeqId seq) const { return Position{} + memory_->at(seq).stands_from(); }

// ---- rows ----

std::uint64_t FakeEngine::rows_bytes(std::size_t tokens) const {
  return memory_->options().has_rows() ? sizeof(SavedHeader) + tokens * options_.row_bytes : 0;
}

Result<std::size_t> FakeEngine::save_rows(SeqId seq, TokenRange range, MutableByteSpan out) {
  ++counters_.save_calls;
  if (!shape().cacheable) return unsupported("rows of this model cannot be saved");
  KVKEEP_ASSERT(range.begin <= range.end && range.end <= length(seq), "saved rows exist");
  KVKEEP_ASSERT(out.size() >= rows_bytes(range.size()), "rows fit their buffer");
  if (fires(&FakeFaults::fail_save)) return io_error("save failed on demand");
  if (rows_bytes(1) == 0) return std::size_t{0};
  const SavedHeader header{kMagic, options_.row_bytes, range.begin.value(), static_cast<std::uint32_t>(range.size())};
  std::memcpy(out.data(), &header, sizeof header);
  std::byte* at = out.data() + sizeof header;
  for (const std::uint32_t cell : ledger_.cells(seq).subspan(range.begin.value(), range.size())) {
    const ByteSpan row = memory_->row(cell);
    std::memcpy(at, row.data(), row.size());
    if (memory_->at(seq).spoiled()) *at ^= std::byte{1};
    at += row.size();
  }
  return static_cast<std::size_t>(at - out.data());
}

Status FakeEngine::restore_rows(SeqId seq, std::span<const cache::RowPiece> pieces) {
  ++counters_.restore_calls;
  Status status;
  if (!shape().cacheable) status = unsupported("rows of this model cannot be restored");
  if (status.ok() && fires(&FakeFaults::fail_restore)) status = damaged("restore failed on demand");
  for (const cache::RowPiece& piece : pieces) {
    if (!status.ok()) break;
    status = append_piece(seq, piece);
  }
  if (!status.ok()) clear(seq);
  return status;
}

Status FakeEngine::append_piece(SeqId seq, const cache::RowPiece& piece) {
  const auto [stored, wanted, bytes] = piece;
  KVKEEP_ASSERT(stored.begin <= wanted.begin && wanted.begin <= wanted.end && wanted.end <= stored.end,
                "wanted rows are stored");
  KVKEEP_ASSERT(wanted.begin == length(seq), "pieces come without gap");
  SavedHeader header{kMagic, options_.row_bytes, stored.begin.value(), static_cast<std::uint32_t>(stored.size())};
  if (rows_bytes(1) > 0) {
    TRY_ASSIGN(header, read_header(bytes, kMagic));
    if (header.row_bytes != options_.row_bytes) return damaged("not rows of this model");
  }
  if (header.count != stored.size() || bytes.size() != rows_bytes(stored.size()))
    return damaged("rows of another length");
  const std::size_t first = wanted.begin - stored.begin;
  if (!ledger_.append(seq, wanted.size())) return no_space("too few cells for restored rows");
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const MutableByteSpan row = memory_->row(ledger_.cells(seq)[wanted.begin.value() + i]);
    if (!row.empty())
      std::ranges::copy(bytes.subspan(sizeof header + (first + i) * row.size(), row.size()), row.begin());
    memory_->at(seq).add_row(static_cast<std::uint32_t>(header.begin + first + i), row);
  }
  counters_.rows_restored += wanted.size();
  return {};
}

// ---- what rows cannot give ----

std::uint64_t FakeEngine::window_bytes(std::size_t tokens) const {
  return memory_->options().has_window() ? sizeof(SavedHeader) + tokens * sizeof(std::uint64_t) : 0;
}

Result<std::size_t> FakeEngine::save_window(SeqId seq, TokenRange range, MutableByteSpan out) {
  KVKEEP_ASSERT(!range.empty() && range.size() <= shape().window_tokens && range.end <= length(seq), "a window's rows");
  KVKEEP_ASSERT(out.size() >= window_bytes(range.size()), "window rows fit their buffer");
  const auto rows = memory_->at(seq).window(range.begin.value(), range.end.value());
  if (rows.empty()) return not_found("window rows have slid off");
  ++counters_.points_saved;
  const SavedHeader header{kWindowMagic, 8, range.begin.value(), static_cast<std::uint32_t>(range.size())};
  std::memcpy(out.data(), &header, sizeof header);
  std::memcpy(out.data() + sizeof header, rows.data(), rows.size() * sizeof rows[0]);
  if (memory_->at(seq).spoiled()) out[sizeof header] ^= std::byte{1};
  return sizeof header + rows.size() * sizeof rows[0];
}

std::uint64_t FakeEngine::point_bytes(SeqId seq) const {
  return shape().points ? sizeof(SavedHeader) + memory_->at(seq).point_bytes() : 0;
}

Result<std::size_t> FakeEngine::save_point(SeqId seq, MutableByteSpan out) {
  KVKEEP_ASSERT(shape().points && length(seq) > Position{0}, "there is a point to save");
  KVKEEP_ASSERT(out.size() >= point_bytes(seq), "a point fits its buffer");
  ++counters_.points_saved;
  const std::vector<std::byte> state = memory_->at(seq).point();
  const SavedHeader header{kPointMagic, 1, length(seq).value(), static_cast<std::uint32_t>(state.size())};
  std::memcpy(out.data(), &header, sizeof header);
  std::ranges::copy(state, out.begin() + sizeof header);
  if (memory_->at(seq).spoiled()) out[sizeof header] ^= std::byte{1};
  return sizeof header + state.size();
}

Status FakeEngine::restore_point(SeqId seq, std::span<const cache::RowPiece> pieces) {
  KVKEEP_ASSERT(shape().needs_points() && !pieces.empty(), "there is a point to restore");
  Status status;
  if (fires(&FakeFaults::fail_point)) status = damaged("restore of a point failed on demand");
  if (status.ok()) status = shape().points ? set_point(seq, pieces.front().bytes) : set_windows(seq, pieces);
  if (status.ok()) ++counters_.points_restored;
  if (!status.ok()) clear(seq);
  return status;
}

Status FakeEngine::set_windows(SeqId seq, std::span<const cache::RowPiece> pieces) {
  const std::size_t needed = std::min<std::size_t>(options_.window_tokens, length(seq).value());
  KVKEEP_ASSERT(pieces.back().wanted.end == length(seq) && pieces.front().wanted.begin + needed <= length(seq),
                "the pieces cover the last window");
  std::vector<std::uint64_t> window;
  for (const auto& [stored, wanted, bytes] : pieces) {
    TRY_ASSIGN(const SavedHeader header, read_header(bytes, kWindowMagic));
    if (header.count != stored.size() || bytes.size() != window_bytes(header.count)) return damaged("another length");
    std::vector<std::uint64_t> rows(header.count);
    std::memcpy(rows.data(), bytes.data() + sizeof header, rows.size() * sizeof rows[0]);
    const std::size_t first = wanted.begin - stored.begin;
    for (std::size_t i = 0; i < wanted.size(); ++i) window.push_back(rows[first + i]);
  }
  memory_->at(seq).set_window(pieces.front().wanted.begin.value(), window);
  return {};
}

Status FakeEngine::set_point(SeqId seq, ByteSpan bytes) {
  TRY_ASSIGN(const SavedHeader header, read_header(bytes, kPointMagic));
  const ByteSpan state = bytes.subspan(sizeof header);
  const bool trail = shape().whole_points;
  if (header.count != state.size() || (!trail && state.size() != options_.state_bytes))
    return damaged("another length");
  memory_->at(seq).set_point(state);
  return {};
}

// ---- sequences ----

Status FakeEngine::fork(SeqId from, SeqId to, Position end) {
  ++counters_.forks;
  ledger_.fork(from, to, end);
  memory_->at(to) = memory_->at(from).cut(end.value());
  return {};
}

bool FakeEngine::truncate(SeqId seq, Position end) {
  if (!options_.truncatable) {
    clear(seq);
    return false;
  }
  ledger_.truncate(seq, end);
  memory_->at(seq) = memory_->at(seq).cut(end.value());
  return true;
}

void FakeEngine::clear(SeqId seq) {
  ledger_.clear(seq);
  memory_->at(seq) = SequenceState(memory_->options());
}

bool FakeEngine::check_batch(std::span<const BatchToken> batch) const {
  if (batch.empty() || batch.size() > options_.batch_tokens) return false;
  std::vector<Position> next;
  for (std::uint32_t i = 0; i < sequence_count(); ++i) next.push_back(length(SeqId{static_cast<std::int32_t>(i)}));
  for (const BatchToken& entry : batch) {
    const auto seq = static_cast<std::size_t>(entry.seq.value());
    if (seq >= next.size() || entry.at != next[seq]) return false;
    if (entry.token < 0 || static_cast<std::uint32_t>(entry.token) >= options_.vocabulary_size) return false;
    next[seq] = next[seq] + 1;
  }
  return true;
}

bool FakeEngine::fires(std::uint32_t FakeFaults::* fault) {
  const MutexLock lock(faults_mutex_);
  std::uint32_t& countdown = faults_.*fault;
  return countdown > 0 && --countdown == 0;
}

DecodeStatus FakeEngine::decode(std::span<const BatchToken> batch) {
  ++counters_.decode_calls;
  KVKEEP_ASSERT(check_batch(batch), "a batch continues its sequences with tokens of the vocabulary");
  if (on_decode_) on_decode_(batch);
  logits_.clear();
  const bool fail = fires(&FakeFaults::fail_decode);
  const bool abort = fires(&FakeFaults::abort_decode);
  if (fail || abort || cancelled_) {
    leave_rubbish(batch);
    return fail ? DecodeStatus::kFailed : DecodeStatus::kAborted;
  }
  if (fires(&FakeFaults::no_cells_decode) || batch.size() > ledger_.available()) return DecodeStatus::kNoCells;
  append_tokens(batch);
  tokens_decoded_ += batch.size();
  return DecodeStatus::kOk;
}

void FakeEngine::append_tokens(std::span<const BatchToken> batch) {
  for (const BatchToken& entry : batch) {
    KVKEEP_ASSERT(ledger_.append(entry.seq, 1), "cells were counted before");
    SequenceState& state = memory_->at(entry.seq);
    const MutableByteSpan row = memory_->row(ledger_.cells(entry.seq).back());
    state.compute_row(entry.token, row);
    state.decode(entry.token, row);
    logits_.push_back(entry.want_logits ? std::optional(state.value()) : std::nullopt);
  }
}

// As after a libllama call that failed between micro-batches: some rows are there, and none of the batch's sequences
// can be relied upon, whatever their length says.
void FakeEngine::leave_rubbish(std::span<const BatchToken> batch) {
  for (const BatchToken& entry : batch) memory_->at(entry.seq).spoil();
  append_tokens(batch.first(std::min<std::size_t>((batch.size() + 1) / 2, ledger_.available())));
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
    const float noise = options_.logit_noise * uniform(mix(counters_.decode_calls, token));
    spread_logits_[token] = uniform(mix(*logits_[index], token)) + noise;
  }
  return spread_logits_;
}

Result<std::unique_ptr<Sampler>> FakeEngine::make_sampler(const SamplingParams& params) {
  if (!params.grammar.text.empty())
    return unsupported("tokens of the fake engine are no text that a grammar could match");
  if (params.thinking.most_tokens) return unsupported("the fake engine does not think");
  return std::unique_ptr<Sampler>(std::make_unique<FakeSampler>(params));
}

std::vector<TokenId> FakeEngine::expected_text(TokenSpan prompt, std::size_t count,
                                               const SamplingParams& params) const {
  KVKEEP_ASSERT(!prompt.empty(), "something is decoded before something is sampled");
  FakeSampler sampler(params);
  std::vector<std::byte> row(memory_->options().has_rows() ? options_.row_bytes : 0);
  SequenceState state(memory_->options());
  const auto decode_one = [&](TokenId token) {
    state.compute_row(token, row);
    state.decode(token, row);
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
