#include "bench/parts/parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "bench/parts/index_parts.h"
#include "engine/llama/bare_rows.h"
#include "engine/llama/llama_engine.h"

namespace kvkeep::bench {
namespace {

using engine::llama::LlamaEngine;

constexpr SeqId kSource{0};
constexpr SeqId kTarget{1};
constexpr std::array<std::size_t, 4> kSegmentTokens = {64, 256, 512, 2048};
// Of the rate of the bare call.
constexpr Goal kRestoreGoal{Goal::Kind::kAtLeast, 0.7};
// A capture of so much is judged by its rate in GB/s, a smaller one by its time in ms.
constexpr std::size_t kLargeCaptureBytes = 1 << 20;
constexpr Goal kCaptureRateGoal{Goal::Kind::kAtLeast, 4};
constexpr Goal kCaptureTimeGoal{Goal::Kind::kAtMost, 0.5};

TokenRange token_range(std::size_t begin, std::size_t end) {
  return {Position{static_cast<std::uint32_t>(begin)}, Position{static_cast<std::uint32_t>(end)}};
}

// Rows of all tokens, cut into segments.
struct Segments {
  std::size_t tokens_each = 0;
  std::vector<std::vector<std::byte>> bytes;
  std::vector<cache::RowPiece> pieces;
};

Result<Segments> cut(LlamaEngine& engine, std::size_t tokens, std::size_t tokens_each) {
  Segments out{tokens_each, {}, {}};
  for (std::size_t begin = 0; begin < tokens; begin += tokens_each) {
    const TokenRange range = token_range(begin, std::min(begin + tokens_each, tokens));
    out.bytes.emplace_back(engine.rows_bytes(range.size()));
    TRY_ASSIGN(const std::size_t written, engine.save_rows(kSource, range, out.bytes.back()));
    out.bytes.back().resize(written);
    out.pieces.push_back({range, range, {}});
  }
  for (std::size_t i = 0; i < out.bytes.size(); ++i) out.pieces[i].bytes = out.bytes[i];
  return out;
}

// Ids spread over the vocabulary; which ones does not matter to what is measured.
Status prefill(LlamaEngine& engine, std::size_t tokens, const std::function<bool()>& may_go_on) {
  const std::uint32_t vocabulary = engine.description().vocabulary_size;
  // Short ones, for whoever waits for the next question whether to go on.
  const std::size_t batch_tokens = std::min<std::size_t>(engine.description().batch_tokens, 256);
  for (std::size_t done = 0; done < tokens;) {
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

// All that is measured on one engine, repetition by repetition.
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
    TRY(measure_once());  // touches memory for the first time
    for (Cut& cut : cuts_) {
      cut.restore_ratios.clear();
      cut.capture_ms.clear();
    }
    return {};
  }

  Status measure_once() {
    TRY_ASSIGN(const double bare_ms, timed([&] { return set_rows_bare(engine_, kTarget, whole_.bytes.front()); }));
    for (Cut& cut : cuts_) {
      TRY_ASSIGN(const double restore_ms, timed([&] {
                   engine_.clear(kTarget);
                   return engine_.restore_rows(kTarget, cut.segments.pieces);
                 }));
      cut.restore_ratios.push_back(bare_ms / restore_ms);
      std::vector<std::byte>& buffer = cut.segments.bytes.front();
      TRY_ASSIGN(const double capture_ms, timed([&]() -> Status {
                   TRY_ASSIGN([[maybe_unused]] const std::size_t written,
                              engine_.save_rows(kSource, cut.segments.pieces.front().stored, buffer));
                   return {};
                 }));
      cut.capture_ms.push_back(capture_ms);
    }
    engine_.clear(kTarget);
    return {};
  }

  std::vector<PartFigures> figures() const {
    std::vector<PartFigures> out;
    for (const Cut& cut : cuts_) out.push_back(restore_figures(cut));
    for (const Cut& cut : cuts_) out.push_back(capture_figures(cut));
    return out;
  }

 private:
  struct Cut {
    Segments segments;
    std::vector<double> restore_ratios;
    std::vector<double> capture_ms;
  };

  Result<double> timed(const std::function<Status()>& work) {
    const std::int64_t begin_ns = clock_.monotonic_ns();
    TRY(work());
    return os::elapsed_ms(begin_ns, clock_.monotonic_ns());
  }

  PartFigures restore_figures(const Cut& cut) const {
    return summarize(
        fmt::format("restoring {} tokens ({} bytes each) in segments of {}, rate / bare state_seq_set_data", tokens_,
                    whole_.bytes.front().size() / tokens_, cut.segments.tokens_each),
        "ratio", cut.restore_ratios, kRestoreGoal);
  }

  static PartFigures capture_figures(const Cut& cut) {
    const auto bytes = static_cast<double>(cut.segments.bytes.front().size());
    const std::string name = fmt::format("engine thread blocked to capture {} tokens ({:.1f} MiB)",
                                         cut.segments.tokens_each, bytes / (1 << 20));
    if (bytes < kLargeCaptureBytes) return summarize(name, "ms", cut.capture_ms, kCaptureTimeGoal);
    std::vector<double> rates = cut.capture_ms;
    for (double& value : rates) value = bytes / value / 1e6;
    return summarize(name, "GB/s", std::move(rates), kCaptureRateGoal);
  }

  LlamaEngine& engine_;
  std::size_t tokens_;
  os::Clock& clock_;
  Segments whole_;
  std::vector<Cut> cuts_;
};

}  // namespace

Result<std::vector<PartFigures>> measure_parts(const PartsOptions& options, os::Clock& clock,
                                               const std::function<bool(std::size_t done, std::size_t of)>& progress) {
  const std::size_t steps = options.repetitions + 2;
  engine::llama::ModelOptions model = options.model;
  model.n_ctx = static_cast<std::uint32_t>(options.tokens * 3);  // the source, what is restored, and room to spare
  model.parallel = 1;
  model.idle_sequences = 1;
  TRY_ASSIGN(const std::unique_ptr<LlamaEngine> engine, LlamaEngine::load(model));
  if (engine->rows_bytes(1) == 0) {
    return unsupported("this model's rows cannot be sliced: " + engine->description().memory_class_reason);
  }
  RowsMeter rows(*engine, options.tokens, clock);
  TRY(rows.prepare([&] { return progress(0, steps); }));
  if (!progress(1, steps)) return aborted("interrupted");
  for (std::size_t i = 0; i < options.repetitions; ++i) {
    TRY(rows.measure_once());
    if (!progress(i + 2, steps)) return aborted("interrupted");
  }
  std::vector<PartFigures> out = rows.figures();
  std::ranges::move(measure_index(options.repetitions, clock), std::back_inserter(out));
  return out;
}

}  // namespace kvkeep::bench
