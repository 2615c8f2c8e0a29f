// A lookup without a scheduler: how much a prompt could reuse, and why no more.

#include "server/run/lookup.h"

#include "base/word_vocabulary_test.h"
#include "server/run/parts_fixture.h"

namespace kvkeep::server {
namespace {

class PromptLookupTest : public PartsTest {
 protected:
  static Job job_of(std::vector<TokenId> prompt) {
    Job job;
    job.prompt = std::move(prompt);
    return job;
  }
  static LookupOptions options() { return {.context_tokens = 1000, .least_point_tokens = 32}; }

  Sequences sequences = make_sequences();
  PromptLookup lookup{options(), engine.memory(), cache, sequences};
};

TEST_F(PromptLookupTest, FindsWhatMemoryAndCacheHave) {
  const auto tokens = counting(60);
  const SeqId seq = run(sequences, tokens);
  const Job job = job_of(tokens);
  const FoundPath in_memory = lookup.find(job, tokens, {.cells_promised = 40});
  ASSERT_EQ(in_memory.view.residents.size(), 1U);
  EXPECT_EQ(in_memory.view.residents[0].common, Position{60});
  EXPECT_EQ(in_memory.lease->end(), Position{60});
  EXPECT_EQ(in_memory.known.end, Position{60});
  EXPECT_EQ(in_memory.view.cells_free, 1000U - 60 - 40);
  sequences.leave(seq);
  const FoundPath memory_alone = lookup.find(job, tokens, {}, {.memory = true, .cache = false});
  EXPECT_EQ(memory_alone.lease, nullptr);
  EXPECT_EQ(memory_alone.known.end, Position{});
}

TEST_F(PromptLookupTest, AQuestionIsAnsweredAndTouchesNothing) {
  const auto tokens = counting(60);
  sequences.leave(run(sequences, tokens));
  auto prompt = counting(50);
  prompt.push_back(1);
  prompt.push_back(2);
  const Inspection told = lookup.inspect({.tokens = prompt}, {});
  EXPECT_EQ(told.stats.ram_tokens, 50U);
  EXPECT_EQ(told.stats.cached_tokens, 50U);
  EXPECT_EQ(told.stats.source, CacheSource::kRamToken);
  EXPECT_EQ(told.stats.miss, MissReason::kNewTokens);
  ASSERT_TRUE(told.explanation.difference.has_value());
  EXPECT_EQ(told.explanation.difference->at, Position{50});
  EXPECT_EQ(told.explanation.start, "fresh");
  EXPECT_EQ(engine.memory().cells_used(), 0U);
}

TEST_F(PromptLookupTest, ComparesWithTheNearestKnownText) {
  const auto text = [](TokenId value, std::size_t same) {
    auto tokens = counting(50);
    tokens.push_back(value);
    const auto rest = counting(40, 500);
    tokens.insert(tokens.end(), rest.begin(), rest.begin() + static_cast<std::ptrdiff_t>(same));
    return tokens;
  };
  const auto near_in_cache = text(1, 20);
  sequences.leave(run(sequences, near_in_cache));
  run(sequences, text(2, 10));
  const Job job = job_of(text(3, 40));
  std::vector<TokenId> rest;
  const auto to_cache = lookup.difference(job, job.prompt, &rest);
  ASSERT_TRUE(to_cache.has_value());
  EXPECT_EQ(to_cache->at, Position{50});
  EXPECT_FALSE(to_cache->in_memory);
  EXPECT_EQ(rest, std::vector<TokenId>(near_in_cache.begin() + 50, near_in_cache.end()));
  const auto near_in_memory = text(4, 30);
  run(sequences, near_in_memory);
  const auto to_memory = lookup.difference(job, job.prompt, &rest);
  ASSERT_TRUE(to_memory.has_value());
  EXPECT_TRUE(to_memory->in_memory);
  EXPECT_EQ(rest, std::vector<TokenId>(near_in_memory.begin() + 50, near_in_memory.end()));
}

TEST_F(PromptLookupTest, APromptThatOnlyGoesOnDiffersFromNothing) {
  const SeqId seq = *sequences.place({});
  sequences.occupy(seq, {.id = "runs"}, {});
  sequences.begin_capture(seq);
  decode(sequences, seq, counting(60));
  auto earlier = counting(30);
  earlier.push_back(7);
  sequences.leave(run(sequences, earlier));
  const Job job = job_of(counting(70));
  EXPECT_FALSE(lookup.difference(job, job.prompt).has_value()) << "60 tokens are known, and nothing after them";
}

TEST_F(PromptLookupTest, TellsWhyNoMoreIsReused) {
  Job job = job_of(counting(100));
  const auto reason = [&](std::uint32_t known, std::size_t reused, std::optional<MissReason> failed = {}) {
    return lookup.miss_reason(job, 100, Position{known}, reused, failed);
  };
  EXPECT_EQ(reason(100, 99), MissReason::kWholePrompt);
  EXPECT_EQ(reason(60, 60), MissReason::kNewTokens);
  EXPECT_EQ(reason(60, 50), MissReason::kNewTokens) << "a point lies a little before";
  EXPECT_EQ(reason(100, 90), MissReason::kWholePrompt);
  EXPECT_EQ(reason(60, 10), MissReason::kNoPoint);
  EXPECT_EQ(reason(0, 0), MissReason::kNothingCached);
  EXPECT_EQ(reason(31, 0), MissReason::kNothingCached) << "how the template opens";
  EXPECT_EQ(reason(60, 10, MissReason::kNoCells), MissReason::kNoCells);
  EXPECT_EQ(reason(100, 99, MissReason::kNoCells), MissReason::kWholePrompt);
  EXPECT_EQ(lookup.miss_reason(job, 1, Position{}, 0, {}), MissReason::kNothingCached) << "a prompt of one token";
  job.markers.beginning = Position{8};
  EXPECT_EQ(reason(8, 8), MissReason::kNothingCached) << "what the template writes before any text";
  EXPECT_EQ(reason(9, 8), MissReason::kNewTokens);
  EXPECT_EQ(reason(9, 9), MissReason::kNewTokens);
  job.cache_prompt = false;
  EXPECT_EQ(reason(60, 0), MissReason::kCacheOff);
}

TEST_F(PromptLookupTest, APromptAsItWasSentIsSampledAfterItsEnd) {
  const Job job = job_of(counting(10));
  const EffectiveTokens sent = as_sent(job);
  EXPECT_EQ(sent.tokens, counting(10));
  EXPECT_EQ(sent.tokens.data(), job.prompt.data()) << "a prompt that waits lies in memory once";
  ASSERT_EQ(sent.sampled.size(), 1U);
  EXPECT_EQ(sent.sampled[0].begin, Position{10});
  EXPECT_FALSE(sent.text_from.has_value());
}

// Each start looks for other ids of the same text, and a request may start in vain and wait again.
TEST_F(PromptLookupTest, APromptThatIsNotKnownInOtherIdsStaysTheJobs) {
  const WordVocabulary vocabulary({"a", "b", "ab", "c"}, {});
  const index::TokenTexts texts(vocabulary, [](TokenId) { return false; });
  LookupOptions with_texts = options();
  with_texts.texts = &texts;
  const PromptLookup matching(with_texts, engine.memory(), cache, sequences);
  run(sequences, std::vector<TokenId>{3, 0, 1, 3});
  for (const std::vector<TokenId>& prompt : {std::vector<TokenId>{3, 0, 1, 3, 0}, std::vector<TokenId>{0, 0, 0}}) {
    const Job job = job_of(prompt);
    EXPECT_EQ(matching.match_text(job).tokens.data(), job.prompt.data());
  }
}

}  // namespace
}  // namespace kvkeep::server
