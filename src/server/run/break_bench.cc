// Goal: explaining a request takes at most 0.5 ms of processor time after 100,000 tokens.

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <numeric>

#include "cache/cache.h"
#include "os/clock.h"
#include "os/executor.h"
#include "server/run/break_finder.h"

namespace kvkeep::server {
namespace {

constexpr std::size_t kTokens = 100'000;

std::string bench_text(TokenSpan tokens) {
  std::string text;
  for (const TokenId token : tokens) text += fmt::format(" t{}", token);
  return text;
}

// A conversation of 1,000 messages.
PromptParts many_parts() {
  PromptParts parts;
  for (std::uint32_t i = 0; i < 1'000; ++i) {
    parts.parts.push_back({Position{i * 100}, {PromptField::kTemplate}});
    parts.parts.push_back({Position{i * 100 + 4}, {PromptField::kContent, PromptRole::kUser, i}});
  }
  return parts;
}

// state.range(0): the token that differs; kTokens: none. state.range(1): how often the rest differs again.
void BM_Explain(benchmark::State& state) {
  const auto executor = os::make_thread_executor("bench");
  const cache::Cache cache({.fingerprint = {}, .ram_budget = mebibytes(1)}, nullptr, os::real_clock(), *executor,
                           *executor);
  const ExplainOptions options{.text = bench_text};
  BreakFinder breaks(&options, cache);
  const auto at = static_cast<std::size_t>(state.range(0));
  std::vector<TokenId> known(kTokens);
  std::iota(known.begin(), known.end(), 1);
  std::vector<TokenId> prompt = known;
  const auto changes = static_cast<std::size_t>(state.range(1));
  for (std::size_t i = 0; i < changes; ++i) prompt[at + i * (kTokens - at) / changes] = 0;
  Job job;
  JobStats stats;
  stats.prompt_tokens = kTokens;
  stats.cached_tokens = stats.known_tokens = at;
  stats.miss = MissReason::kNewTokens;
  const Asker asker{.parts = std::make_shared<PromptParts>(many_parts())};
  const TokenSpan rest = TokenSpan(known).subspan(at);
  const auto difference = difference_at(Position{} + at, prompt, rest, true);
  breaks.end(job, stats, breaks.find({job, stats, known, &asker, nullptr, {}}), known, 1);
  for (auto _ : state) {
    const auto found = breaks.find({job, stats, prompt, &asker, difference ? &*difference : nullptr, rest});
    benchmark::DoNotOptimize(found);
  }
}
BENCHMARK(BM_Explain)
    ->Args({8, 1})
    ->Args({8, 100})
    ->Args({50'000, 1})
    ->Args({99'900, 1})
    ->Unit(benchmark::kMicrosecond);

// Nothing is the same after the difference: every token that is compared is searched.
void BM_ExplainOtherText(benchmark::State& state) {
  const auto executor = os::make_thread_executor("bench");
  const cache::Cache cache({.fingerprint = {}, .ram_budget = mebibytes(1)}, nullptr, os::real_clock(), *executor,
                           *executor);
  const ExplainOptions options{.text = bench_text};
  BreakFinder breaks(&options, cache);
  std::vector<TokenId> known(kTokens);
  std::iota(known.begin(), known.end(), 1);
  std::vector<TokenId> prompt(kTokens);
  std::iota(prompt.begin(), prompt.end(), 1'000'000);
  Job job;
  JobStats stats;
  stats.prompt_tokens = kTokens;
  stats.miss = MissReason::kNewTokens;
  const auto difference = difference_at(Position{}, prompt, known, true);
  for (auto _ : state) {
    const auto found = breaks.find({job, stats, prompt, nullptr, &*difference, known});
    benchmark::DoNotOptimize(found);
  }
}
BENCHMARK(BM_ExplainOtherText)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace kvkeep::server
