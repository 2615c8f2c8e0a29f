#include "engine/fake/fake_engine.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <string>

#include "base/assert.h"
#include "base/checksum.h"

namespace kvkeep::engine::fake {

namespace {

constexpr std::uint32_t kMagic = 0x5741464BU;  // "KFAW": this engine's rows
constexpr std::uint64_t kRubbish = 0x6d1f'93a7'e5b0'c24bULL;

// What save_rows writes before the rows. It records positions, as libllama does per cell.
struct SavedHeader {
  std::uint32_t magic;
  std::uint32_t row_bytes;
  std::uint32_t begin;
  std::uint32_t count;
};
static_assert(sizeof(SavedHeader) == 16);

// splitmix64's finaliser over a running value: order matters, every bit of both counts.
std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  std::uint64_t x = a * 0x9e37'79b9'7f4a'7c15ULL + b + 0x632b'e59b'd9b4'e019ULL;
  x = (x ^ (x >> 30)) * 0xbf58'476d'1ce4'e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d0'49bb'1331'11ebULL;
  return x ^ (x >> 31);
}

void expand(std::uint64_t value, MutableByteSpan row) {
  for (std::size_t at = 0; at < row.size(); at += sizeof value) {
    value = mix(value, at);
    std::memcpy(row.data() + at, &value, std::min(sizeof value, row.size() - at));
  }
}

// What the rows before it and one more row add up to.
std::uint64_t add_row(std::uint64_t sum, std::uint32_t position, ByteSpan row) {
  return mix(mix(sum, position), checksum(row).low);
}

std::uint64_t empty_sum(const FakeOptions& options) { return mix(0, options.model_seed); }

// The row that the model computes for `token` after rows that add up to `sum`.
void compute_row(std::uint64_t sum, TokenId token, MutableByteSpan row) {
  expand(mix(sum, static_cast<std::uint32_t>(token)), row);
}

bool penalises(const SamplingParams& params) {
  if (params.repeat_last_n == 0) return false;
  return params.repeat_penalty != 1.0F || params.frequency_penalty != 0.0F || params.presence_penalty != 0.0F;
}

// Greedy text depends on the rows alone; a temperature brings in the seed and the count of samples, a penalty all
// tokens accepted so far, the prompt's included.
class FakeSampler final : public Sampler {
 public:
  explicit FakeSampler(const SamplingParams& params) : params_(params) {}
  void accept(TokenId token) override {
    if (penalises(params_)) history_ = mix(history_, static_cast<std::uint32_t>(token));
  }
  std::uint64_t influence() const {
    const std::uint64_t chance = params_.temperature > 0.0F ? mix(params_.seed, samples_) : 0;
    return mix(chance, history_);
  }
  void count_sample() { ++samples_; }
  bool may_end() const { return !params_.ignore_eos; }

 private:
  SamplingParams params_;
  std::uint64_t history_ = 0;
  std::uint64_t samples_ = 0;
};

std::string fingerprint_text(const FakeOptions& options) {
  return "engine=fake\nmodel_seed=" + std::to_string(options.model_seed) +
         "\nrow_bytes=" + std::to_string(options.row_bytes) + "\n";
}

Description describe(const FakeOptions& options) {
  Description description;
  description.model_name = "fake";
  description.model_path = "fake";
  description.summary = "fake engine";
  description.memory_class = options.sliceable ? MemoryClass::kSliceable : MemoryClass::kUncached;
  description.memory_class_reason = "chosen by options";
  description.context_tokens = options.cells;
  description.context_train_tokens = options.cells;
  description.batch_tokens = options.batch_tokens;
  description.vocabulary_size = options.vocabulary_size;
  description.parameters = 1;
  description.model_bytes = 1;
  description.row_bytes_per_token = options.sliceable ? options.row_bytes : 0;
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
      : row_bytes_(options.row_bytes),
        empty_sum_(empty_sum(options)),
        rows_(std::size_t{options.cells} * options.row_bytes),
        sequences_(options.sequences) {}

  // Sums up the rows of a sequence; rubbish in a spoiled one.
  std::uint64_t sum(SeqId seq) const {
    const Sequence& held = at(seq);
    return (held.sums.empty() ? empty_sum_ : held.sums.back()) ^ (held.spoiled ? kRubbish : 0);
  }
  MutableByteSpan row(std::uint32_t cell) {
    return MutableByteSpan(rows_).subspan(std::size_t{cell} * row_bytes_, row_bytes_);
  }
  // The row of the next position is in `cell`; `position` is what its bytes claim to be.
  void push(SeqId seq, std::uint32_t cell, std::uint32_t position) {
    at(seq).sums.push_back(add_row(sum(seq), position, row(cell)));
  }
  void fork(SeqId from, SeqId to, Position end) {
    at(to) = at(from);
    at(to).sums.resize(end.value());
  }
  void truncate(SeqId seq, Position end) { at(seq).sums.resize(end.value()); }
  void clear(SeqId seq) { at(seq) = {}; }
  void spoil(SeqId seq) { at(seq).spoiled = true; }
  bool spoiled(SeqId seq) const { return at(seq).spoiled; }

 private:
  struct Sequence {
    std::vector<std::uint64_t> sums;  // per position: what the rows up to it add up to
    bool spoiled = false;             // a decode of it failed, and nobody cleared it since
  };
  Sequence& at(SeqId seq) { return sequences_.at(static_cast<std::size_t>(seq.value())); }
  const Sequence& at(SeqId seq) const { return sequences_.at(static_cast<std::size_t>(seq.value())); }

  std::size_t row_bytes_;
  std::uint64_t empty_sum_;
  std::vector<std::byte> rows_;
  std::vector<Sequence> sequences_;
};

FakeEngine::FakeEngine(FakeOptions options)
    : options_(options),
      description_(describe(options_)),
      ledger_(options_.cells, options_.sequences),
      memory_(std::make_unique<Memory>(options_)) {
  KVKEEP_ASSERT(options_.row_bytes >= 8, "rows are long enough to differ");
  KVKEEP_ASSERT(options_.first_sampled_token + 2 < static_cast<TokenId>(options_.vocabulary_size), "there is text");
}

FakeEngine::~FakeEngine() = default;

std::uint64_t FakeEngine::rows_bytes(std::size_t tokens) const {
  return options_.sliceable ? sizeof(SavedHeader) + tokens * options_.row_bytes : 0;
}

Result<std::size_t> FakeEngine::save_rows(SeqId seq, TokenRange range, MutableByteSpan out) {
  ++counters_.save_calls;
  if (!options_.sliceable) return unsupported("rows of this model cannot be sliced");
  KVKEEP_ASSERT(range.begin <= range.end && range.end <= length(seq), "saved rows exist");
  KVKEEP_ASSERT(out.size() >= rows_bytes(range.size()), "rows fit their buffer");
  if (fires(&FakeFaults::fail_save)) return io_error("save failed on demand");
  const SavedHeader header{kMagic, options_.row_bytes, range.begin.value(), static_cast<std::uint32_t>(range.size())};
  std::memcpy(out.data(), &header, sizeof header);
  std::byte* at = out.data() + sizeof header;
  for (const std::uint32_t cell : ledger_.cells(seq).subspan(range.begin.value(), range.size())) {
    const ByteSpan row = memory_->row(cell);
    std::memcpy(at, row.data(), row.size());
    if (memory_->spoiled(seq)) *at ^= std::byte{1};
    at += row.size();
  }
  return static_cast<std::size_t>(at - out.data());
}

Status FakeEngine::restore_rows(SeqId seq, std::span<const cache::RowPiece> pieces) {
  ++counters_.restore_calls;
  Status status;
  if (!options_.sliceable) status = unsupported("rows of this model cannot be sliced");
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
  SavedHeader header;
  if (bytes.size() < sizeof header) return damaged("too short for rows");
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.magic != kMagic || header.row_bytes != options_.row_bytes) return damaged("not rows of this model");
  if (header.count != stored.size() || bytes.size() != rows_bytes(stored.size()))
    return damaged("rows of another length");
  const std::size_t first = wanted.begin - stored.begin;
  if (!ledger_.append(seq, wanted.size())) return no_space("too few cells for restored rows");
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const std::uint32_t cell = ledger_.cells(seq)[wanted.begin.value() + i];
    const ByteSpan row = bytes.subspan(sizeof header + (first + i) * options_.row_bytes, options_.row_bytes);
    std::ranges::copy(row, memory_->row(cell).begin());
    memory_->push(seq, cell, static_cast<std::uint32_t>(header.begin + first + i));
  }
  counters_.rows_restored += wanted.size();
  return {};
}

Status FakeEngine::fork(SeqId from, SeqId to, Position end) {
  ++counters_.forks;
  ledger_.fork(from, to, end);
  memory_->fork(from, to, end);
  return {};
}

bool FakeEngine::truncate(SeqId seq, Position end) {
  if (!options_.truncatable) {
    clear(seq);
    return false;
  }
  ledger_.truncate(seq, end);
  memory_->truncate(seq, end);
  return true;
}

void FakeEngine::clear(SeqId seq) {
  ledger_.clear(seq);
  memory_->clear(seq);
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
    const std::uint64_t before = memory_->sum(entry.seq);
    KVKEEP_ASSERT(ledger_.append(entry.seq, 1), "cells were counted before");
    const std::uint32_t cell = ledger_.cells(entry.seq).back();
    compute_row(before, entry.token, memory_->row(cell));
    memory_->push(entry.seq, cell, entry.at.value());
    logits_.push_back(entry.want_logits ? std::optional(memory_->sum(entry.seq)) : std::nullopt);
  }
}

// As after a libllama call that failed between micro-batches: some rows are there, and none of the batch's sequences
// can be relied upon, whatever their length says.
void FakeEngine::leave_rubbish(std::span<const BatchToken> batch) {
  for (const BatchToken& entry : batch) memory_->spoil(entry.seq);
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

Result<std::unique_ptr<Sampler>> FakeEngine::make_sampler(const SamplingParams& params) {
  return std::unique_ptr<Sampler>(std::make_unique<FakeSampler>(params));
}

std::vector<TokenId> FakeEngine::expected_text(TokenSpan prompt, std::size_t count,
                                               const SamplingParams& params) const {
  KVKEEP_ASSERT(!prompt.empty(), "something is decoded before something is sampled");
  FakeSampler sampler(params);
  std::vector<std::byte> row(options_.row_bytes);
  std::uint64_t sum = empty_sum(options_);
  std::uint32_t position = 0;
  const auto decode_one = [&](TokenId token) {
    compute_row(sum, token, row);
    sum = add_row(sum, position++, row);
    sampler.accept(token);
  };
  for (const TokenId token : prompt) decode_one(token);
  std::vector<TokenId> text;
  while (text.size() < count) {
    text.push_back(choose(sum, sampler));
    if (text.back() == options_.end_of_text) break;
    sampler.count_sample();
    decode_one(text.back());
  }
  return text;
}

}  // namespace kvkeep::engine::fake
