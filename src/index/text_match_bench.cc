// Goals: a prompt of 100k tokens, its ids known or half of them other ids of the same text, costs at most 5 ms on one
// core, no more than prefilling a few tokens; a prompt with 1,000 known replies at most 0.1 ms.

#include <benchmark/benchmark.h>

#include <random>

#include "base/word_vocabulary_test.h"
#include "index/text_match.h"

namespace kvkeep::index {
namespace {

const WordVocabulary& letters() {
  static const WordVocabulary made({"a", "b", "ab", "ba"}, {});
  return made;
}

// 100 turns of 1,000 ids, every other one sampled. Argument: 1: the prompt has other ids where it was sampled.
void BM_MatchText100k(benchmark::State& state) {
  const TokenTexts texts(letters(), [](TokenId) { return false; });
  PrefixIndex index;
  std::mt19937 random(7);
  std::vector<TokenId> prompt;
  Cursor at;
  for (int turn = 0; turn < 100; ++turn) {
    const bool sampled = turn % 2 == 1;
    std::vector<TokenId> run(1000);
    for (TokenId& id : run) id = static_cast<TokenId>(random() % 2);
    const format::Origin origin = sampled ? format::Origin::kSampled : format::Origin::kPrompt;
    at = {index.insert(at, run, {}, {}, origin), at.at + run.size()};
    if (sampled && state.range(0) == 1) run = letters().tokenize_text(letters().text_of(run, true));
    prompt.insert(prompt.end(), run.begin(), run.end());
  }
  prompt.push_back(3);
  TextMatch match;
  for ([[maybe_unused]] auto _ : state) {
    match = match_text(index, prompt, texts, [](SegmentId) { return true; });
    benchmark::DoNotOptimize(effective_prompt(match, prompt, texts));
  }
  state.counters["known"] = static_cast<double>(match.head.size());
}
BENCHMARK(BM_MatchText100k)->Arg(0)->Arg(1)->Unit(benchmark::kMicrosecond);

// One prompt answered 1,000 times, then one of the answers comes back as text.
void BM_MatchTextAmongReplies(benchmark::State& state) {
  const TokenTexts texts(letters(), [](TokenId) { return false; });
  PrefixIndex index;
  std::mt19937 random(7);
  const std::vector<TokenId> head(1000, 2);
  const Cursor trunk{index.insert({}, head, {}, {}), Position{1000}};
  std::vector<TokenId> reply(500);
  for (int i = 0; i < 1000; ++i) {
    for (TokenId& id : reply) id = static_cast<TokenId>(random() % 4);
    const Cursor at = index.advance(trunk, reply);
    index.insert(at, TokenSpan(reply).subspan(at.at - trunk.at), {}, {}, format::Origin::kSampled);
  }
  std::vector<TokenId> prompt = head;
  for (const TokenId id : letters().tokenize_text(letters().text_of(reply, true))) prompt.push_back(id);
  TextMatch match;
  for ([[maybe_unused]] auto _ : state) {
    match = match_text(index, prompt, texts, [](SegmentId) { return true; });
    benchmark::DoNotOptimize(match);
  }
  state.counters["known"] = static_cast<double>(match.head.size());
}
BENCHMARK(BM_MatchTextAmongReplies)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace kvkeep::index
