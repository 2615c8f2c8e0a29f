#include "bench/parts/meters.h"

#include <fmt/format.h>

#include <algorithm>

#include "format/built_state.h"

namespace kvkeep::bench {
namespace {

constexpr std::size_t kPieceTokens = 512;
// repeated_bytes() takes much memory for each byte.
constexpr std::size_t kMostComparedBytes = std::size_t{64} << 20;
constexpr Goal kKeptGoal{Goal::Kind::kAtLeast, 0.9};

// A capture of at least this size is judged by its rate in GB/s, a smaller one by its time in ms.
constexpr std::size_t kLargeCaptureBytes = 1 << 20;
constexpr Goal kCaptureRateGoal{Goal::Kind::kAtLeast, 4};
constexpr Goal kCaptureTimeGoal{Goal::Kind::kAtMost, 0.5};

}  // namespace

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

TokenRange token_range(std::size_t begin, std::size_t end) {
  return {Position{static_cast<std::uint32_t>(begin)}, Position{static_cast<std::uint32_t>(end)}};
}

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

Result<double> timed_ms(os::Clock& clock, const std::function<Status()>& work) {
  const std::int64_t begin_ns = clock.monotonic_ns();
  TRY(work());
  return os::elapsed_ms(begin_ns, clock.monotonic_ns());
}

std::vector<double> rates_of(std::size_t bytes, std::vector<double> ms) {
  for (double& value : ms) value = static_cast<double>(bytes) / value / 1e6;
  return ms;
}

PartFigures capture_figures(const std::string& what, std::size_t bytes, std::vector<double> ms) {
  const std::string name =
      fmt::format("engine thread blocked to capture {} ({:.1f} MiB)", what, static_cast<double>(bytes) / (1 << 20));
  if (bytes < kLargeCaptureBytes) return summarize(name, "ms", std::move(ms), kCaptureTimeGoal);
  return summarize(name, "GB/s", rates_of(bytes, std::move(ms)), kCaptureRateGoal);
}

}  // namespace kvkeep::bench
