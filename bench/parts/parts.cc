#include "bench/parts/parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <string>
#include <vector>

#include "base/assert.h"
#include "base/result.h"
#include "bench/report/figures.h"
#include "cache/model_memory.h"
#include "engine/llama/llama_engine.h"
#include "format/built_state.h"
#include "index/prefix_index.h"
#include "os/clock.h"

namespace kvkeep::bench {
namespace {

constexpr SeqId kSource{0};
constexpr SeqId kTarget{1};

using engine::llama::LlamaEngine;

constexpr std::size_t kPieceTokens = 512;
// repeated_bytes() takes much memory for each byte.
constexpr std::size_t kMostComparedBytes = std::size_t{64} << 20;
constexpr Goal kKeptGoal{Goal::Kind::kAtLeast, 0.9};

// A capture of at least this size is judged by its rate in GB/s, a smaller one by its time in ms.
constexpr std::size_t kLargeCaptureBytes = 1 << 20;
constexpr Goal kCaptureRateGoal{Goal::Kind::kAtLeast, 4};
constexpr Goal kCaptureTimeGoal{Goal::Kind::kAtMost, 0.5};

TokenRange token_range(std::size_t begin, std::size_t end) {
  return {Position{static_cast<std::uint32_t>(begin)}, Position{static_cast<std::uint32_t>(end)}};
}

// Decodes ids, spread over the vocabulary, into kSource up to `tokens` of them; the measurements do not depend on the
// ids. kAborted if may_go_on, called between batches, returned false.
Status prefill(engine::llama::LlamaEngine& engine, std::size_t tokens, const std::function<bool()>& may_go_on) {
  const std::uint32_t vocabulary = engine.description().vocabulary_size;
  // Short batches, so that may_go_on is asked often.
  const std::size_t batch_tokens = std::min<std::size_t>(engine.description().batch_tokens, 256);
  for (std::size_t done = engine.memory().length(kSource).value(); done < tokens;) {
    if (!may_go_on()) return aborted("interrupted");
    std::vector<engine::BatchToken> batch;
    for (; batch.size() < batch_tokens && done < tokens; ++done) {
      const auto id = static_cast<TokenId>((done * 7919 + 13) % vocabulary);
      batch.push_back({kSource, id, Position{static_cast<std::uint32_t>(done)}, done + 1 == tokens});
    }
    if (engine.decode(batch) != engine::DecodeStatus::kOk) return io_error("the model could not be evaluated");
  }
  return {};
}

// Returns the wall time of `work` in ms, or its error.
Result<double> timed_ms(os::Clock& clock, const std::function<Status()>& work) {
  const std::int64_t begin_ns = clock.monotonic_ns();
  TRY(work());
  return os::elapsed_ms(begin_ns, clock.monotonic_ns());
}

// Returns the rates in GB/s of `bytes` in each of `ms`.
std::vector<double> rates_of(std::size_t bytes, std::vector<double> ms) {
  for (double& value : ms) value = static_cast<double>(bytes) / value / 1e6;
  return ms;
}

// Captures of `bytes` each that took `ms`: judged by their rate in GB/s, small ones by their time in ms.
PartFigures capture_figures(const std::string& what, std::size_t bytes, std::vector<double> ms) {
  const std::string name =
      fmt::format("engine thread blocked to capture {} ({:.1f} MiB)", what, static_cast<double>(bytes) / (1 << 20));
  if (bytes < kLargeCaptureBytes) return summarize(name, "ms", std::move(ms), kCaptureTimeGoal);
  return summarize(name, "GB/s", rates_of(bytes, std::move(ms)), kCaptureRateGoal);
}

// Measures capture and restore of a sequence that needs a point, or a window of rows.
class StateMeter {
 public:
  // The engine must have two sequences and cells for both; it and the clock must outlive this.
  StateMeter(engine::llama::LlamaEngine& engine, std::size_t tokens, os::Clock& clock)
      : engine_(engine), tokens_(tokens), clock_(clock) {}

  // Prefills kSource and captures all of it once. kAborted if may_go_on returned false.
  Status prepare(const std::function<bool()>& may_go_on);
  // Captures rows and the state at the end again, and restores both into kTarget.
  Status measure_once();
  std::vector<PartFigures> figures() const;

 private:
  // Rows, a window of rows, or a point.
  struct Captured {
    TokenRange range;
    std::vector<std::byte> buffer;
    std::size_t bytes = 0;  // of the buffer
    cache::RowPiece piece() const { return {range, range, ByteSpan(buffer).first(bytes)}; }
  };

  Status save_base(const std::function<bool()>& may_go_on);
  Status save_rows(Captured& rows);
  Status save_last();
  Status restore();

  engine::llama::LlamaEngine& engine_;
  std::size_t tokens_;
  os::Clock& clock_;
  std::vector<Captured> rows_;           // ascending, without gaps; without bytes if the model has no rows
  Captured last_;                        // the window, or the point
  Captured base_;                        // for opaque models, an earlier point
  std::vector<cache::RowPiece> pieces_;  // of rows_
  std::vector<double> rows_ms_;          // of the first of rows_
  std::vector<double> last_ms_;
  std::vector<double> restore_ms_;
};

// For points that hold the whole state: saves the previous point, which most of the state repeats.
Status StateMeter::save_base(const std::function<bool()>& may_go_on) {
  if (!engine_.memory().shape().whole_points) return {};
  const std::size_t tokens = tokens_ - tokens_ / 8;
  TRY(prefill(engine_, tokens, may_go_on));
  base_.range = token_range(tokens, tokens);
  base_.buffer.resize(engine_.memory().point_bytes(kSource));
  TRY_ASSIGN(base_.bytes, engine_.memory().save_point(kSource, base_.buffer));
  return {};
}

Status StateMeter::save_rows(Captured& rows) {
  TRY_ASSIGN(rows.bytes, engine_.memory().save_rows(kSource, rows.range, rows.buffer));
  return {};
}

Status StateMeter::save_last() {
  TRY_ASSIGN(last_.bytes, engine_.memory().shape().window_tokens == 0
                              ? engine_.memory().save_point(kSource, last_.buffer)
                              : engine_.memory().save_window(kSource, last_.range, last_.buffer));
  return {};
}

Status StateMeter::prepare(const std::function<bool()>& may_go_on) {
  TRY(save_base(may_go_on));
  TRY(prefill(engine_, tokens_, may_go_on));
  for (std::size_t begin = 0; begin < tokens_; begin += kPieceTokens) {
    Captured& rows = rows_.emplace_back();
    rows.range = token_range(begin, std::min(begin + kPieceTokens, tokens_));
    rows.buffer.resize(engine_.memory().rows_bytes(rows.range.size()));
    if (!rows.buffer.empty()) TRY(save_rows(rows));
  }
  for (const Captured& rows : rows_) pieces_.push_back(rows.piece());
  const std::size_t window = engine_.memory().shape().window_tokens;
  last_.range = token_range(tokens_ - std::min(window, tokens_), tokens_);
  last_.buffer.resize(window == 0 ? engine_.memory().point_bytes(kSource)
                                  : engine_.memory().window_bytes(last_.range.size()));
  TRY(measure_once());  // touches the memory for the first time
  for (auto* times : {&rows_ms_, &last_ms_, &restore_ms_}) times->clear();
  return {};
}

Status StateMeter::restore() {
  engine_.memory().clear(kTarget);
  TRY(engine_.memory().restore_rows(kTarget, pieces_));
  const cache::RowPiece last = last_.piece();
  return engine_.memory().restore_point(kTarget, {&last, 1});
}

Status StateMeter::measure_once() {
  const auto time = [&](std::vector<double>& times, const std::function<Status()>& work) -> Status {
    TRY_ASSIGN(const double ms, timed_ms(clock_, work));
    times.push_back(ms);
    return {};
  };
  if (rows_.front().bytes > 0) TRY(time(rows_ms_, [&] { return save_rows(rows_.front()); }));
  TRY(time(last_ms_, [&] { return save_last(); }));
  TRY(time(restore_ms_, [&] { return restore(); }));
  engine_.memory().clear(kTarget);
  return {};
}

std::vector<PartFigures> StateMeter::figures() const {
  std::vector<PartFigures> out;
  const bool has_rows = rows_.front().bytes > 0;
  if (has_rows) {
    out.push_back(capture_figures(fmt::format("the rows of {} tokens", rows_.front().range.size()), rows_.front().bytes,
                                  rows_ms_));
  }
  const std::size_t window = last_.range.size();
  const std::string last =
      window == 0 ? fmt::format("a point at {} tokens", tokens_) : fmt::format("a window of {} tokens", window);
  out.push_back(capture_figures(last, last_.bytes, last_ms_));
  std::size_t bytes = last_.bytes;
  for (const Captured& rows : rows_) bytes += rows.bytes;
  out.push_back(summarize(fmt::format("restoring {} tokens: {}{} ({:.1f} MiB)", tokens_, has_rows ? "rows and " : "",
                                      last, static_cast<double>(bytes) / (1 << 20)),
                          "GB/s", rates_of(bytes, restore_ms_)));
  if (base_.bytes > 0 && last_.bytes <= kMostComparedBytes) {
    const ByteSpan base = base_.piece().bytes;
    const ByteSpan fresh = last_.piece().bytes;
    const auto built = format::encode_built_state({}, base, fresh, fresh.size());
    const auto kept = static_cast<double>(fresh.size() - (built ? built->size() : fresh.size()));
    const auto repeated = static_cast<double>(std::max<std::size_t>(format::repeated_bytes(base, fresh), 1));
    out.push_back(summarize(fmt::format("share of bytes that a point at {} tokens repeats of one at {}, not rewritten",
                                        tokens_, base_.range.end.value()),
                            "ratio", {kept / repeated}, kKeptGoal));
  }
  return out;
}

constexpr std::array<std::size_t, 4> kSegmentTokens = {64, 256, 512, 2048};
// A share of the rate of the bare call.
constexpr Goal kRestoreGoal{Goal::Kind::kAtLeast, 0.7};

// Rows of all tokens, divided into segments.
struct Segments {
  std::size_t tokens_each = 0;
  std::vector<std::vector<std::byte>> bytes;
  std::vector<cache::RowPiece> pieces;
};

Result<Segments> cut(LlamaEngine& engine, std::size_t tokens, std::size_t tokens_each) {
  Segments out{tokens_each, {}, {}};
  for (std::size_t begin = 0; begin < tokens; begin += tokens_each) {
    const TokenRange range = token_range(begin, std::min(begin + tokens_each, tokens));
    out.bytes.emplace_back(engine.memory().rows_bytes(range.size()));
    TRY_ASSIGN(const std::size_t written, engine.memory().save_rows(kSource, range, out.bytes.back()));
    out.bytes.back().resize(written);
    out.pieces.push_back({range, range, {}});
  }
  for (std::size_t i = 0; i < out.bytes.size(); ++i) out.pieces[i].bytes = out.bytes[i];
  return out;
}

// For models that need only rows. Restoring is compared with libllama's bare call, which takes the same rows.
class RowsMeter {
 public:
  RowsMeter(LlamaEngine& engine, std::size_t tokens, os::Clock& clock)
      : engine_(engine), tokens_(tokens), clock_(clock) {}

  Status prepare(const std::function<bool()>& may_go_on) {
    TRY(prefill(engine_, tokens_, may_go_on));
    TRY_ASSIGN(whole_, cut(engine_, tokens_, tokens_));
    for (const std::size_t size : kSegmentTokens) {
      if (size > tokens_) continue;
      TRY_ASSIGN(Segments segments, cut(engine_, tokens_, size));
      cuts_.push_back({std::move(segments), {}, {}});
    }
    TRY(measure_once());  // touches the memory for the first time
    for (Cut& cut : cuts_) {
      cut.restore_ratios.clear();
      cut.capture_ms.clear();
    }
    return {};
  }

  // Each restore begins with an empty sequence: emptying one takes a tenth of the time of a restore.
  Status measure_once() {
    TRY_ASSIGN(const double bare_ms,
               timed_ms(clock_, [&] { return set_rows_bare(engine_, kTarget, whole_.bytes.front()); }));
    for (Cut& cut : cuts_) {
      engine_.memory().clear(kTarget);
      TRY_ASSIGN(const double restore_ms,
                 timed_ms(clock_, [&] { return engine_.memory().restore_rows(kTarget, cut.segments.pieces); }));
      cut.restore_ratios.push_back(bare_ms / restore_ms);
      std::vector<std::byte>& buffer = cut.segments.bytes.front();
      TRY_ASSIGN(const double capture_ms, timed_ms(clock_, [&]() -> Status {
                   TRY_ASSIGN([[maybe_unused]] const std::size_t written,
                              engine_.memory().save_rows(kSource, cut.segments.pieces.front().stored, buffer));
                   return {};
                 }));
      cut.capture_ms.push_back(capture_ms);
    }
    engine_.memory().clear(kTarget);
    return {};
  }

  std::vector<PartFigures> figures() const {
    std::vector<PartFigures> out;
    for (const Cut& cut : cuts_) out.push_back(restore_figures(cut));
    for (const Cut& cut : cuts_) {
      out.push_back(capture_figures(fmt::format("{} tokens", cut.segments.tokens_each),
                                    cut.segments.bytes.front().size(), cut.capture_ms));
    }
    return out;
  }

 private:
  struct Cut {
    Segments segments;
    std::vector<double> restore_ratios;
    std::vector<double> capture_ms;
  };

  PartFigures restore_figures(const Cut& cut) const {
    return summarize(
        fmt::format("restoring {} tokens ({} bytes each) in segments of {}, rate / bare state_seq_set_data", tokens_,
                    whole_.bytes.front().size() / tokens_, cut.segments.tokens_each),
        "ratio", cut.restore_ratios, kRestoreGoal);
  }

  LlamaEngine& engine_;
  std::size_t tokens_;
  os::Clock& clock_;
  Segments whole_;
  std::vector<Cut> cuts_;
};

// Runs all measurements of a meter on one engine, repetition by repetition.
template <typename Meter>
Result<std::vector<PartFigures>> measure(Meter meter, std::size_t repetitions,
                                         const std::function<bool(std::size_t done, std::size_t of)>& progress) {
  const std::size_t steps = repetitions + 2;
  TRY(meter.prepare([&] { return progress(0, steps); }));
  if (!progress(1, steps)) return aborted("interrupted");
  for (std::size_t i = 0; i < repetitions; ++i) {
    TRY(meter.measure_once());
    if (!progress(i + 2, steps)) return aborted("interrupted");
  }
  return meter.figures();
}

}  // namespace

Result<std::vector<PartFigures>> measure_parts(const PartsOptions& options, os::Clock& clock,
                                               const std::function<bool(std::size_t done, std::size_t of)>& progress) {
  engine::llama::ModelOptions model = options.model;
  model.n_ctx = static_cast<std::uint32_t>(options.tokens * 3);  // the source, the restored sequence, and room to spare
  model.parallel = 2;  // not idle ones: an engine may have fewer of them if their state is large
  model.idle_sequences = 0;
  TRY_ASSIGN(const std::unique_ptr<LlamaEngine> engine, LlamaEngine::load(model));
  const cache::StateShape shape = engine->memory().shape();
  if (!shape.cacheable) {
    return unsupported("nothing of this model can be kept: " + engine->description().memory_class_reason);
  }
  auto figures = shape.needs_points()
                     ? measure(StateMeter(*engine, options.tokens, clock), options.repetitions, progress)
                     : measure(RowsMeter(*engine, options.tokens, clock), options.repetitions, progress);
  if (figures) std::ranges::move(measure_index(options.repetitions, clock), std::back_inserter(*figures));
  return figures;
}

namespace {

constexpr std::size_t kSegments = 10'000;
constexpr std::size_t kPromptTokens = 100'000;

// Tokens of a conversation, whose first id is its own.
std::vector<TokenId> conversation(std::uint32_t number, std::size_t count) {
  std::vector<TokenId> tokens(count);
  std::uint64_t state = number + 1;
  for (TokenId& token : tokens) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    token = static_cast<TokenId>(state >> 49);
  }
  tokens.front() = static_cast<TokenId>(1 << 20 | number);
  return tokens;
}

// `depth` segments of `size` tokens per conversation; returns the first conversation.
std::vector<TokenId> fill(index::PrefixIndex& index, std::size_t size, std::size_t depth) {
  std::vector<TokenId> first;
  for (std::uint32_t number = 0; number * depth < kSegments; ++number) {
    std::vector<TokenId> tokens = conversation(number, size * depth);
    index::Cursor at;
    for (std::size_t i = 0; i < depth; ++i) {
      at = {index.insert(at, TokenSpan(tokens).subspan(i * size, size), {}, {}), at.at + size};
    }
    if (number == 0) first = std::move(tokens);
  }
  return first;
}

PartFigures lookup_figures(std::size_t repetitions, os::Clock& clock) {
  constexpr std::size_t kIndexedTokens = 1'000;
  index::PrefixIndex index;
  const std::vector<TokenId> prompt = fill(index, kIndexedTokens, kPromptTokens / kIndexedTokens);
  std::vector<double> times;
  for (std::size_t i = 0; i < repetitions; ++i) {
    const std::int64_t begin_ns = clock.monotonic_ns();
    const std::vector<index::Step> path = index.match(prompt);
    times.push_back(os::elapsed_ms(begin_ns, clock.monotonic_ns()));
    KVKEEP_ASSERT(path.size() == kPromptTokens / kIndexedTokens, "the index finds what was put in");
  }
  return summarize("lookup of a 100k-token prompt among 10k segments", "ms", std::move(times),
                   Goal{Goal::Kind::kAtMost, 2});
}

PartFigures memory_figures(std::size_t segment_tokens) {
  constexpr std::size_t kDepth = 20;
  index::PrefixIndex index;
  (void)fill(index, segment_tokens, kDepth);
  const double bytes = static_cast<double>(index.memory().value()) / static_cast<double>(index.token_count());
  return summarize(fmt::format("index memory per token beyond its id, segments of {} tokens", segment_tokens), "bytes",
                   {bytes - sizeof(TokenId)}, Goal{Goal::Kind::kAtMost, 16});
}

}  // namespace

std::vector<PartFigures> measure_index(std::size_t repetitions, os::Clock& clock) {
  return {lookup_figures(repetitions, clock), memory_figures(16), memory_figures(512)};
}

}  // namespace kvkeep::bench
