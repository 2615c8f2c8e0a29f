#include "bench/parts/metering.h"

#include <fmt/format.h>

#include <algorithm>

namespace kvkeep::bench {
namespace {

// A capture of so much is judged by its rate in GB/s, a smaller one by its time in ms.
constexpr std::size_t kLargeCaptureBytes = 1 << 20;
constexpr Goal kCaptureRateGoal{Goal::Kind::kAtLeast, 4};
constexpr Goal kCaptureTimeGoal{Goal::Kind::kAtMost, 0.5};

}  // namespace

TokenRange token_range(std::size_t begin, std::size_t end) {
  return {Position{static_cast<std::uint32_t>(begin)}, Position{static_cast<std::uint32_t>(end)}};
}

Status prefill(engine::llama::LlamaEngine& engine, std::size_t tokens, const std::function<bool()>& may_go_on) {
  const std::uint32_t vocabulary = engine.description().vocabulary_size;
  // Short ones, for whoever waits for the next question whether to go on.
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
