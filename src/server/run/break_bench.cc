// Goal: explaining a request takes at most 0.5 ms of processor time after 100,000 tokens.

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "cache/cache.h"
#include "cache/catalog.h"
#include "os/clock.h"
#include "os/executor.h"
#include "server/run/break_finder.h"
#include "server/run/lookup.h"

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
  EffectiveTokens effective;
  effective.tokens = known;
  effective.asker = std::make_shared<Asker>(asker);
  breaks.end(job, stats, breaks.find({job, stats, known, &asker, nullptr, {}}), effective, 1);
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

// ---- state was lost ----

enum class Losses : std::int64_t {
  kSameConversation,  // again and again
  kOtherBeginnings,   // of conversations that differ at one early token, and nowhere else
  kOtherRests,        // of prompts that part at one place: as many as are remembered
};

// A cache that remembers as many losses as it can; the client's newest prompts, 4 million tokens, are known as well.
class LostPrompts {
 public:
  LostPrompts(Losses losses, bool newest_shares_most)
      : executor_(os::make_thread_executor("bench")),
        cache_({.fingerprint = {}, .ram_budget = mebibytes(64)}, nullptr, os::real_clock(), *executor_, *executor_),
        options_{.text = bench_text},
        breaks_(&options_, cache_),
        prompt_(kTokens) {
    std::iota(prompt_.begin(), prompt_.end(), 1);
    losses == Losses::kOtherRests ? lose_rests() : lose_whole(losses == Losses::kOtherBeginnings);
    remember(newest_shares_most);
  }

  std::shared_ptr<const FoundBreak> explain() {
    const Asker asker;
    return breaks_.find({job_, stats_, prompt_, &asker, nullptr, {}});
  }

 private:
  static constexpr std::size_t kSegment = 128;
  static constexpr std::size_t kDiffers = 8;
  static constexpr std::size_t kPrompts = OwnPrompts::kMostTokens / kTokens;

  // The segments of each prompt are stored, then all are forgotten.
  void lose(const std::vector<std::vector<TokenId>>& prompts) {
    for (const std::vector<TokenId>& prompt : prompts) {
      cache::Track track = cache_.track(prompt);
      while (track.position().value() < prompt.size()) {
        const TokenSpan rest = TokenSpan(prompt).subspan(track.position().value());
        cache_.store(track, rest.first(std::min(rest.size(), kSegment)), cache_.staging(64), 64);
      }
    }
    executor_->drain();
    (void)cache_.clear({});
  }

  void lose_whole(bool differ) {
    for (TokenId i = 0; i < 21; ++i) {
      std::vector<TokenId> other = prompt_;
      if (differ && i < 20) other[kDiffers] = 1'000'000 + i;
      lose({other});
    }
  }

  void lose_rests() {
    std::vector<std::vector<TokenId>> prompts;
    for (TokenId i = 0; i < 16'000; ++i) {
      prompts.emplace_back(prompt_.begin(), prompt_.begin() + 2 * kSegment);
      std::fill(prompts.back().begin() + kSegment + 32, prompts.back().end(), 1'000'000 + i);
    }
    lose(prompts);
  }

  void remember(bool newest_shares_most) {
    stats_.prompt_tokens = kTokens;
    stats_.miss = MissReason::kNothingCached;
    const auto found = explain();
    for (std::size_t i = 0; i < kPrompts; ++i) {
      std::vector<TokenId> own = prompt_;
      own[(newest_shares_most ? i + 1 : kPrompts - i) * kTokens / (kPrompts + 1)] = 0;
      EffectiveTokens effective;
      effective.tokens = std::move(own);
      breaks_.end(job_, stats_, found, effective, 1);
    }
  }

  std::unique_ptr<os::Executor> executor_;
  cache::Cache cache_;
  ExplainOptions options_;
  BreakFinder breaks_;
  std::vector<TokenId> prompt_;
  Job job_;
  JobStats stats_;
};

void BM_ExplainLoss(benchmark::State& state) {
  LostPrompts lost(static_cast<Losses>(state.range(0)), state.range(1) != 0);
  const auto found = lost.explain();
  if (found->found.kind != explain::BreakKind::kEvicted) return state.SkipWithError("the loss was not found");
  state.counters["lost_tokens"] = static_cast<double>(found->found.lost_tokens);
  for (auto _ : state) benchmark::DoNotOptimize(lost.explain());
}
BENCHMARK(BM_ExplainLoss)
    ->ArgNames({"losses", "newest_shares_most"})
    ->ArgsProduct({{0, 1, 2}, {0, 1}})
    ->Unit(benchmark::kMicrosecond);

// ---- which known text is nearest ----

// So many known texts leave the prompt at an early token, and one of them shares all after it.
void BM_ExplainNearestText(benchmark::State& state) {
  constexpr std::size_t kFork = 64;
  const auto executor = os::make_thread_executor("bench");
  cache::Cache cache({.fingerprint = {}, .ram_budget = mebibytes(1024)}, nullptr, os::real_clock(), *executor,
                     *executor);
  std::vector<TokenId> prompt(kTokens);
  std::iota(prompt.begin(), prompt.end(), 1);
  for (TokenId i = 0; i < static_cast<TokenId>(state.range(0)); ++i) {
    std::vector<TokenId> known = prompt;
    known[kFork] = 1'000'000 + i;
    if (i > 0) std::iota(known.begin() + kFork + 1, known.end(), 2'000'000 + i * static_cast<TokenId>(kTokens));
    cache::Track track = cache.track(known);
    while (track.position().value() < known.size()) {
      const TokenSpan rest = TokenSpan(known).subspan(track.position().value());
      const TokenSpan piece = rest.first(std::min<std::size_t>(rest.size(), 512));
      if (!cache.store(track, piece, cache.staging(64), 64)) return state.SkipWithError("a text was not stored");
    }
  }
  for (auto _ : state) benchmark::DoNotOptimize(cache.branch(prompt, SIZE_MAX));
}
BENCHMARK(BM_ExplainNearestText)->Arg(1)->Arg(2)->Arg(4)->Arg(8)->Arg(64)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace kvkeep::server
