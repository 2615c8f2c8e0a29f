#include "bench/run/speed.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <utility>

#include "bench/report/figures.h"
#include "bench/run/contestant.h"
#include "bench/run/memory_state.h"
#include "bench/run/player.h"
#include "bench/run/server_client.h"
#include "bench/sessions/json_fields.h"

namespace kvkeep::bench {
namespace {

using Progress = std::function<void(std::size_t done, std::size_t of)>;

constexpr std::uint32_t kReplyTokens = 8;
constexpr std::uint32_t kTemplateTokens = 256;  // for the template's text in all turns, more than needed
constexpr int kWrittenWithinMs = 500;           // captured state is on disk within 200 ms
constexpr std::uint64_t kOpening = 8;           // the most tokens at a prompt's end that the next turn may render anew
constexpr double kSuffixShare = 0.03;
constexpr std::size_t kOccasions = 2;
// A restore takes time, so that a restored turn is not faster than one in memory.
constexpr Goal kOfCeiling{.kind = Goal::Kind::kAtLeast, .value = 0.9, .possible_most = 1.05};
constexpr std::size_t kRequestsBehindOnePrompt = 100;
constexpr char kLoop[] = "1-growing";

double median_of(const std::vector<double>& values) { return quartiles_of(values).median; }

// One long conversation, which grows by a turn each time.
struct LongOne {
  Json messages = Json::array();
  std::string label;
  std::uint64_t known_tokens = 0;  // of the last request's prompt
  double alone_before_ms = 0;
};

// An event before a turn, and the times of turns after it.
struct Occasion {
  const char* name;
  bool is_kill = false;
  std::vector<double> warm_ms = {};
  std::vector<double> of_ceiling = {};  // speed-up / ceiling
};

class LongPrompts {
 public:
  LongPrompts(const SpeedOptions& options, ServerProcess& server, ServerClient& client, const Progress& progress)
      : options_(options), server_(server), client_(client), progress_(progress), all_(options.conversations) {}

  Result<std::vector<PartFigures>> measure() {
    for (std::size_t i = 0; i < all_.size(); ++i) {
      all_[i].label = fmt::format("long {}", i + 1);
      TRY_ASSIGN(const double cold_ms, grow(all_[i], "cold", options_.prompt_tokens));
      cold_ms_.push_back(cold_ms);
      TRY_ASSIGN(all_[i].alone_before_ms, grow_alone(all_[i]));
    }
    for (std::size_t round = 0; round < options_.rounds; ++round) {
      for (Occasion& occasion : occasions_) {
        for (LongOne& one : all_) TRY(measure_warm(one, occasion));
      }
    }
    return figures();
  }

  std::size_t requests() const { return (2 + 2 * options_.rounds * occasions_.size()) * all_.size(); }

 private:
  std::uint32_t suffix_tokens() const {
    return static_cast<std::uint32_t>(kSuffixShare * static_cast<double>(options_.prompt_tokens));
  }

  // Returns the next turn's TTFT. All earlier turns must have been known.
  Result<double> grow(LongOne& one, const std::string& when, std::uint32_t tokens) {
    const std::string label = fmt::format("{} {} {}", one.label, when, one.messages.size());
    TRY_ASSIGN(const std::string words, client_.text(label, tokens));
    one.messages.push_back(chat_message("user", words));
    const Exchange reply = client_.chat(one.messages, kReplyTokens);
    if (!reply.answered()) return unsupported(fmt::format("{}: {}", label, reply.failure()));
    const std::uint64_t cached = reply.facts.cached_tokens.value_or(0);
    if (cached < one.known_tokens) {
      return unsupported(fmt::format("{}: {} tokens were known, not {}", label, cached, one.known_tokens));
    }
    one.known_tokens = reply.facts.prompt_tokens.value_or(0) -
                       std::min<std::uint64_t>(kOpening, reply.facts.prompt_tokens.value_or(0));
    one.messages.push_back(chat_message("assistant", reply.facts.text));
    progress_(++done_, requests());
    return reply.ttft_ms;
  }

  Result<double> grow_alone(LongOne& one) {
    TRY_ASSIGN(const double alone_ms, grow(one, "alone", suffix_tokens()));
    alone_ms_.push_back(alone_ms);
    return alone_ms;
  }

  // Measures between two turns that were computed alone, one before and one after, since each turn lies deeper.
  Status measure_warm(LongOne& one, Occasion& occasion) {
    if (occasion.is_kill) {
      server_.wait(kWrittenWithinMs);
      TRY(server_.restart_after_kill());
    }
    TRY_ASSIGN(const double warm_ms, grow(one, occasion.name, suffix_tokens()));
    TRY_ASSIGN(const double alone_after_ms, grow_alone(one));
    occasion.warm_ms.push_back(warm_ms);
    occasion.of_ceiling.push_back((one.alone_before_ms + alone_after_ms) / 2 / warm_ms);
    one.alone_before_ms = alone_after_ms;
    return {};
  }

  Result<std::vector<PartFigures>> figures() const {
    const std::string behind = fmt::format("{} tokens after {}", suffix_tokens(), options_.prompt_tokens);
    std::vector<PartFigures> all{
        summarize(fmt::format("TTFT of {} new tokens", options_.prompt_tokens), "ms", cold_ms_),
        summarize(fmt::format("TTFT of {} in memory", behind), "ms", alone_ms_)};
    const double cold_ms = median_of(cold_ms_);
    all.push_back(
        summarize("ceiling of the speed-up: the first / the second", "ratio", {cold_ms / median_of(alone_ms_)}));
    for (const Occasion& occasion : occasions_) {
      all.push_back(summarize(fmt::format("TTFT of {}, {}", behind, occasion.name), "ms", occasion.warm_ms));
      all.push_back(
          summarize(fmt::format("speed-up {}", occasion.name), "ratio", {cold_ms / median_of(occasion.warm_ms)}));
      all.push_back(summarize(fmt::format("speed-up / its ceiling, {}", occasion.name), "ratio", occasion.of_ceiling,
                              options_.has_goals ? std::optional(kOfCeiling) : std::nullopt));
    }
    return all;
  }

  const SpeedOptions& options_;
  ServerProcess& server_;
  ServerClient& client_;
  const Progress& progress_;
  std::vector<LongOne> all_;
  std::size_t done_ = 0;
  std::vector<double> cold_ms_;
  std::vector<double> alone_ms_;
  std::array<Occasion, kOccasions> occasions_{Occasion{.name = "after another as long"},
                                              Occasion{.name = "after a kill", .is_kill = true}};
};

Result<std::vector<PartFigures>> measure_long_prompts(const BenchOptions& bench, const SpeedOptions& options,
                                                      const Progress& progress, Interrupt& interrupt) {
  Workload sizes;  // only of the context, which holds one of the conversations
  const auto turns = static_cast<double>(1 + 2 * kOccasions * options.rounds);
  sizes.context_tokens =
      static_cast<std::uint32_t>((1 + turns * kSuffixShare) * options.prompt_tokens) + kTemplateTokens;
  TRY_ASSIGN(const Served served, Served::start(bench, sizes, {}, interrupt));
  TRY_ASSIGN(const auto client,
             ServerClient::make({.base_url = served.process->base_url(), .keeps_connection = true}, interrupt));
  LongPrompts prompts(options, *served.process, *client, progress);
  auto figures = prompts.measure();
  TRY(interrupt.check());
  return figures;
}

Result<RunFigures> play_one(const BenchOptions& bench, const Workload& workload, std::vector<std::string> flags,
                            MemoryState& state, Interrupt& interrupt) {
  TRY_ASSIGN(const Served served, Served::start(bench, workload, std::move(flags), interrupt));
  const PlayedServer server{.name = "kvkeep", .process = served.process.get(), .base_url = {}};
  TRY_ASSIGN(Played played, play(workload, server, {.must_be_counted = true}, interrupt));
  state = memory_state_of(served.process->log());
  if (!played.figures.problems.empty()) return unsupported(workload.name + ": " + played.figures.problems.front());
  return std::move(played.figures);
}

struct LoopTimes {
  double wall_ms = 0;
  double ttft_90_ms = 0;
};

LoopTimes times_of(const RunFigures& run) {
  LoopTimes times;
  std::vector<double> ttft_ms;
  for (const RequestFigures& request : run.requests) {
    times.wall_ms += request.total_ms;
    ttft_ms.push_back(request.ttft_ms);
  }
  std::ranges::sort(ttft_ms);
  const std::size_t rank = (9 * ttft_ms.size() + 9) / 10;  // nearest rank, from 1
  times.ttft_90_ms = ttft_ms[rank - 1];
  return times;
}

Result<std::vector<PartFigures>> measure_loop(const BenchOptions& bench, Interrupt& interrupt) {
  const auto& all = builtin_workloads();
  const Workload& loop = *std::ranges::find(all, std::string(kLoop), &Workload::name);
  MemoryState state;
  TRY_ASSIGN(const RunFigures without, play_one(bench, loop, {"--no-cache-prompt"}, state, interrupt));
  TRY_ASSIGN(const RunFigures with, play_one(bench, loop, {}, state, interrupt));
  const LoopTimes off = times_of(without);
  const LoopTimes on = times_of(with);
  return std::vector{
      summarize(loop.title + ": wall time without / with the cache", "ratio", {off.wall_ms / on.wall_ms}),
      summarize(loop.title + ": 90th percentile of TTFT without / with the cache", "ratio",
                {off.ttft_90_ms / on.ttft_90_ms})};
}

Workload requests_behind_one_prompt() {
  Workload workload;
  workload.name = "hundred";
  workload.title = fmt::format("{} requests after one 870-token prompt", kRequestsBehindOnePrompt);
  workload.context_tokens = 8192;
  workload.reply_tokens = 4;
  workload.point_bound = 1.02;  // of all but the first: 1.015, the opening of a turn computed a few times
  workload.steps.emplace_back(DefineSystem{"rules", 870});
  for (std::size_t i = 1; i <= kRequestsBehindOnePrompt; ++i) {
    workload.steps.emplace_back(OpenConversation{fmt::format("r{}", i), "rules"});
    workload.steps.emplace_back(Turn{fmt::format("r{}", i), 60});
  }
  return workload;
}

Result<PartFigures> measure_requests(const BenchOptions& bench, Interrupt& interrupt) {
  const Workload workload = requests_behind_one_prompt();
  MemoryState state;
  TRY_ASSIGN(const RunFigures run, play_one(bench, workload, {}, state, interrupt));
  const double own_ideal = static_cast<double>(run.ideal_tokens() - run.requests.front().ideal_tokens);
  const double own_prefilled = static_cast<double>(run.prefilled_tokens() - run.requests.front().prefilled_tokens);
  const auto bound = ratio_bound(state, workload);
  return summarize(workload.title + ": prefilled / new tokens of all but the first", "ratio",
                   {own_prefilled / own_ideal},
                   bound ? std::optional(Goal{Goal::Kind::kAtMost, *bound}) : std::nullopt);
}

}  // namespace

Result<std::vector<PartFigures>> measure_speed(const BenchOptions& bench, const SpeedOptions& options,
                                               const Progress& progress, Interrupt& interrupt) {
  TRY_ASSIGN(std::vector<PartFigures> figures, measure_long_prompts(bench, options, progress, interrupt));
  TRY_ASSIGN(std::vector<PartFigures> loop, measure_loop(bench, interrupt));
  std::ranges::move(loop, std::back_inserter(figures));
  TRY_ASSIGN(PartFigures requests, measure_requests(bench, interrupt));
  figures.push_back(std::move(requests));
  return figures;
}

}  // namespace kvkeep::bench
