// The scheduler on the user's own model, with requests that run and others that wait: what a round of it costs besides
// the model.

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "bench/parts/parts.h"
#include "bench/parts/timed_engine.h"
#include "cache/cache.h"
#include "engine/llama/llama_engine.h"
#include "os/executor.h"
#include "os/threads.h"
#include "server/run/scheduler.h"

namespace kvkeep::bench {
namespace {

constexpr std::size_t kOwnPromptTokens = 200;
constexpr std::size_t kShortPromptTokens = 32;  // one slice
constexpr std::size_t kSharedTokens = 10'000;   // take more slices than there are rounds
constexpr std::int64_t kLongReply = 1'000;      // longer than all rounds
constexpr std::size_t kWarmUp = 10;             // rounds
constexpr double kShortestSlices = 1e-6;        // ms: a tile of 64 tokens
constexpr Goal kGoal{Goal::Kind::kAtMost, 0.01};

// What those that wait have in common, and what happens in a round besides a token for each that runs.
enum class Load {
  kOwnPrompts,  // nothing, and nothing
  kOnePrefix,   // all of their prompts but the last token with one that prefills: a slice of it in each round
  kTurns,       // nothing; a reply ends, its client asks again, and another request starts
};
struct LoadName {
  Load load;
  std::string_view title;
};
constexpr std::array kLoads = {
    LoadName{Load::kOwnPrompts, "with prompts of their own"},
    LoadName{Load::kOnePrefix, "for one prefix that is being prefilled"},
    LoadName{Load::kTurns, "and one that ends and one that starts in each"},
};

// The scheduler logs each request at its end.
class QuietLog {
 public:
  QuietLog() { spdlog::set_level(spdlog::level::off); }
  ~QuietLog() { spdlog::set_level(before_); }
  QuietLog(const QuietLog&) = delete;
  QuietLog& operator=(const QuietLog&) = delete;

 private:
  const spdlog::level::level_enum before_ = spdlog::get_level();
};

class Client final : public server::JobSink {
 public:
  explicit Client(std::function<void()> on_done) : on_done_(std::move(on_done)) {}
  void on_prefill(const server::JobStats&, std::size_t, double) override {}
  bool on_token(TokenId, const server::JobStats&) override { return true; }
  void on_done(server::Finish, const server::JobStats&, const std::optional<Error>&) override { on_done_(); }
  bool gone() const override { return false; }

 private:
  const std::function<void()> on_done_;
};

// One run of a scheduler on an engine whose memory is empty.
class Rounds {
 public:
  Rounds(const RoundOptions& options, Load load, engine::Engine& engine, os::Clock& clock)
      : options_(options),
        load_(load),
        timed_(engine, os::thread_cpu_ns),
        cache_({.fingerprint = engine.description().fingerprint,
                .ram_budget = mebibytes(64),
                .shape = engine.memory().shape()},
               nullptr, clock, *writer_, *writer_),
        scheduler_({.parallel = running(), .slice_ms = kShortestSlices}, timed_, cache_, clock) {
    timed_.set_on_decoded([this](std::span<const engine::BatchToken> batch, std::int64_t ns) { note(batch, ns); });
  }

  // Returns the scheduler's own time in a round / the time of a decode step.
  double run() {
    for (std::size_t i = 0; i < running() + options_.waiting; ++i) ask();
    scheduler_.run();
    return static_cast<double>(own_ns_) / static_cast<double>(std::max<std::int64_t>(decode_ns_, 1));
  }

 private:
  std::size_t running() const { return options_.running + (load_ == Load::kOnePrefix ? 1 : 0); }

  std::vector<TokenId> prompt(std::size_t number) const {
    const bool shares = load_ == Load::kOnePrefix && number >= options_.running;
    std::vector<TokenId> tokens(shares ? kSharedTokens : load_ == Load::kTurns ? kShortPromptTokens : kOwnPromptTokens);
    const std::uint32_t vocabulary = timed_.description().vocabulary_size;
    const std::size_t first = shares ? options_.running : number;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      tokens[i] = static_cast<TokenId>((first * 31 + i * 7919 + 13) % vocabulary);
    }
    tokens.back() = static_cast<TokenId>(number % vocabulary);
    return tokens;
  }

  void ask() {
    const std::size_t number = asked_++;
    server::Job job{.id = "bench", .kind = "chat", .prompt = prompt(number), .sampling = {}, .max_tokens = kLongReply};
    job.sampling.ignore_eos = true;
    job.session = number % 100;
    // The first ones end one after the other, and so do all that come after them.
    if (load_ == Load::kTurns) job.max_tokens = static_cast<std::int64_t>(std::min(number + 1, options_.running));
    const auto again = [this] {
      if (load_ != Load::kTurns || is_over_) return;
      const std::int64_t begin_ns = os::thread_cpu_ns();
      ask();
      clients_ns_ += os::thread_cpu_ns() - begin_ns;
    };
    (void)scheduler_.submit(std::move(job), std::make_shared<Client>(again));  // refused only at the end
  }

  void note(std::span<const engine::BatchToken> batch, std::int64_t ns) {
    // One reply may have ended, and one prompt may be on its way.
    const bool is_step = batch.size() + 2 >= options_.running && batch.front().seq != batch.back().seq;
    if (!is_step || is_over_) return;
    const std::int64_t own_ns = os::thread_cpu_ns() - timed_.taken_ns() - clients_ns_;
    if (++round_ == kWarmUp) begun_ns_ = own_ns;
    if (round_ > kWarmUp) decode_ns_ += ns;
    if (round_ < kWarmUp + options_.rounds) return;
    own_ns_ = own_ns - begun_ns_;
    is_over_ = true;
    scheduler_.stop();
  }

  const RoundOptions& options_;
  const Load load_;
  TimedEngine timed_;
  const std::unique_ptr<os::Executor> writer_ = os::make_thread_executor("writer");
  cache::Cache cache_;
  server::Scheduler scheduler_;
  std::size_t asked_ = 0;
  std::size_t round_ = 0;
  std::int64_t clients_ns_ = 0;  // asking again, which other threads do in a server
  std::int64_t begun_ns_ = 0;
  std::int64_t own_ns_ = 0;
  std::int64_t decode_ns_ = 0;
  bool is_over_ = false;
};

void clear(cache::ModelMemory& memory) {
  for (std::uint32_t i = 0; i < memory.sequence_count(); ++i) memory.clear(SeqId{static_cast<std::int32_t>(i)});
}

}  // namespace

Result<std::vector<PartFigures>> measure_rounds(const RoundOptions& options, os::Clock& clock,
                                                const std::function<bool(std::size_t done, std::size_t of)>& progress) {
  engine::llama::ModelOptions model = options.model;
  model.n_ctx = static_cast<std::uint32_t>(options.running * 2 * kOwnPromptTokens + 2 * kSharedTokens);
  model.parallel = static_cast<std::uint32_t>(options.running + 1);
  model.threads = model.threads_batch = 1;  // the engine thread, so that its processor time is all
  TRY_ASSIGN(const std::unique_ptr<engine::llama::LlamaEngine> engine, engine::llama::LlamaEngine::load(model));
  const QuietLog quiet;
  std::array<std::vector<double>, kLoads.size()> ratios;
  const std::size_t steps = options.repetitions * kLoads.size();
  std::size_t done = 0;
  for (std::size_t i = 0; i < options.repetitions; ++i) {
    for (std::size_t load = 0; load < kLoads.size(); ++load) {
      clear(engine->memory());
      ratios[load].push_back(Rounds(options, kLoads[load].load, *engine, clock).run());
      if (!progress(++done, steps)) return aborted("interrupted");
    }
  }
  std::vector<PartFigures> out;
  for (std::size_t load = 0; load < kLoads.size(); ++load) {
    const std::string name =
        fmt::format("CPU time of a round of {} requests besides the engine, {} waiting {} / of its decode step",
                    options.running, options.waiting, kLoads[load].title);
    // A start and an end are more than scheduling: a look-up, a sampler, the capture of a reply.
    const bool is_judged = kLoads[load].load != Load::kTurns;
    out.push_back(summarize(name, "ratio", std::move(ratios[load]), is_judged ? std::optional(kGoal) : std::nullopt));
  }
  return out;
}

}  // namespace kvkeep::bench
