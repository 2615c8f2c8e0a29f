// Replies that come back as text, in other ids than were sampled: nothing of them is computed again, and every reply is
// what an undisturbed engine writes after the effective prompt.

#include <set>
#include <string>

#include "base/word_vocabulary_test.h"
#include "server/run/scheduler_test_fixture.h"
#include "testing/sim/temporary_directory.h"

namespace kvkeep::server {
namespace {

using Tokens = std::vector<TokenId>;

constexpr TokenId kMarkers = 5;
constexpr std::uint32_t kVocabulary = 300;

// Five markers, then all numbers of one and two digits, and the first of three: sampled ids are digits, which are
// tokenized to numbers of three digits where these exist.
const WordVocabulary& vocabulary() {
  static const WordVocabulary made = [] {
    std::vector<std::string> pieces;
    std::set<TokenId> markers;
    for (TokenId id = 0; id < kMarkers; ++id) {
      markers.insert(id);
      pieces.push_back(std::string(1, static_cast<char>('a' + id)));
    }
    for (int digits = 1; digits <= 3; ++digits) {
      for (int number = 0; number < (digits == 1 ? 10 : digits == 2 ? 100 : 1000); ++number) {
        std::string piece = std::to_string(number);
        piece.insert(0, static_cast<std::size_t>(digits) - piece.size(), '0');
        if (pieces.size() < kVocabulary) pieces.push_back(piece);
      }
    }
    return WordVocabulary(std::move(pieces), std::move(markers));
  }();
  return made;
}

const index::TokenTexts& texts() {
  static const index::TokenTexts made(vocabulary(), [](TokenId id) { return vocabulary().is_marker(id); });
  return made;
}

Tokens retokenized(TokenSpan tokens) { return vocabulary().tokenize_text(vocabulary().text_of(tokens, true)); }

// One digit after another in ids of one digit: no tokenizer would return this.
Tokens digits(std::mt19937& random, std::size_t count) {
  Tokens tokens(count);
  for (TokenId& token : tokens) token = kMarkers + static_cast<TokenId>(random() % 10);
  return tokens;
}

WorldOptions with_texts(WorldOptions options = {}) {
  options.fake.vocabulary_size = kVocabulary;
  options.fake.first_sampled_token = kMarkers;
  options.scheduler.texts = &texts();
  return options;
}

// A first turn and the prompt of the second: the first prompt, the reply as text, a marker and something new.
struct Conversation {
  Conversation(World& world, std::uint32_t seed, std::size_t reply_tokens = 40) {
    std::mt19937 random(seed);
    prompt = Tokens{0} + digits(random, 60) + Tokens{1};
    reply = world.ask(prompt, static_cast<std::int64_t>(reply_tokens)).tokens;
    next = prompt + retokenized(reply) + Tokens{2} + digits(random, 20);
    // The last sampled token was never decoded.
    const Tokens computed = prompt + Tokens(reply.begin(), reply.end() - 1);
    const std::vector<TokenRange> sampled = {{Position{} + prompt.size(), Position{} + computed.size()}};
    match = index::match_text(computed, sampled, next, texts());
    effective = index::effective_prompt(match, next, texts()).tokens;
  }

  Tokens prompt, reply, next;
  index::TextMatch match;
  Tokens effective;
};

TEST(SchedulerText, AReplyThatComesBackAsTextIsNotComputedAgain) {
  World world(with_texts());
  world.start();
  for (std::uint32_t seed = 0; seed < 10; ++seed) {
    const Conversation talk(world, seed);
    ASSERT_NE(talk.effective, talk.next);
    const Reply again = world.ask(talk.next, 10);
    EXPECT_EQ(again.tokens, world.expected(talk.effective, 10));
    EXPECT_EQ(again.stats.prompt_tokens, talk.effective.size());
    EXPECT_EQ(again.stats.cached_tokens, talk.match.head.size());
    EXPECT_GT(again.stats.cached_tokens, talk.prompt.size() + 30);
    EXPECT_EQ(again.stats.prefilled_tokens, talk.effective.size() - talk.match.head.size());
    EXPECT_EQ(again.stats.source, CacheSource::kMemoryText);
    EXPECT_EQ(again.stats.memory_tokens, again.stats.cached_tokens);
  }
}

TEST(SchedulerText, AnotherTenantsIdsStandForNothing) {
  World world(with_texts());
  world.start();
  const Conversation talk(world, 1);
  const Tenant tenant = tenant_of({}, "salt");
  const Reply again = world.ask_as(tenant, talk.next, 10);
  EXPECT_EQ(again.tokens, world.expected(talk.next, 10));
  EXPECT_EQ(again.stats.cached_tokens, 0U);
}

TEST(SchedulerText, ThirdAndLaterTurnsReuseEverythingBeforeThem) {
  World world(with_texts());
  world.start();
  std::mt19937 random(1);
  Tokens conversation = Tokens{0} + digits(random, 50) + Tokens{1};
  std::size_t computed = 0;
  for (int turn = 0; turn < 6; ++turn) {
    const Reply reply = world.ask(conversation, 30);
    EXPECT_GE(reply.stats.cached_tokens + 15, computed) << "turn " << turn;
    computed = reply.stats.prompt_tokens + 30;
    conversation = conversation + retokenized(reply.tokens) + Tokens{2} + digits(random, 10) + Tokens{1};
  }
}

TEST(SchedulerText, WithoutTextsOnlyIdsMatch) {
  WorldOptions options = with_texts();
  options.scheduler.texts = nullptr;
  World world(options);
  world.start();
  const Conversation talk(world, 1);
  const Reply again = world.ask(talk.next, 10);
  EXPECT_EQ(again.tokens, world.expected(talk.next, 10));
  EXPECT_EQ(again.stats.prompt_tokens, talk.next.size());
  EXPECT_LT(again.stats.cached_tokens, talk.match.head.size());
  EXPECT_EQ(again.stats.source, CacheSource::kMemoryToken);
}

TEST(SchedulerText, IdsThatAgreeAreNoTextMatch) {
  World world(with_texts());
  world.start();
  const Conversation talk(world, 2);
  const Reply again = world.ask(talk.prompt + talk.reply + Tokens{2}, 4);
  EXPECT_EQ(again.stats.source, CacheSource::kMemoryToken);
  EXPECT_EQ(again.stats.cached_tokens, talk.prompt.size() + talk.reply.size() - 1);
}

TEST(SchedulerText, PromptsOfOthersAreNotText) {
  World world(with_texts());
  world.start();
  std::mt19937 random(3);
  const Tokens prompt = Tokens{0} + digits(random, 60);
  (void)world.ask(prompt, 1);
  const Tokens other = Tokens{0} + retokenized(TokenSpan(prompt).subspan(1));
  const Reply reply = world.ask(other, 5);
  EXPECT_EQ(reply.stats.cached_tokens, 1U);
  EXPECT_EQ(reply.stats.prompt_tokens, other.size());
  EXPECT_EQ(reply.tokens, world.expected(other, 5));
}

TEST(SchedulerText, LiveSequencesAreEnough) {
  WorldOptions options = with_texts();
  options.ram = ByteCount{0};
  World world(options);
  world.start();
  const Conversation talk(world, 4);
  const Reply again = world.ask(talk.next, 10);
  EXPECT_EQ(again.tokens, world.expected(talk.effective, 10));
  EXPECT_EQ(again.stats.source, CacheSource::kMemoryText);
  EXPECT_EQ(again.stats.cached_tokens, talk.match.head.size());
}

TEST(SchedulerText, RamAndDiskAreToldApart) {
  const sim::TemporaryDirectory directory;
  WorldOptions options = with_texts();
  options.disk_directory = directory.path();
  std::optional<Conversation> talk;
  std::mt19937 random(5);
  {
    World world(options);
    world.start();
    talk.emplace(world, 6);
    (void)world.ask(digits(random, 4040), 10);  // pushes the conversation out of the model's memory
    const Reply again = world.ask(talk->next, 10);
    EXPECT_EQ(again.stats.source, CacheSource::kRamText);
    EXPECT_EQ(again.stats.cached_tokens, talk->match.head.size());
    EXPECT_EQ(again.tokens, world.expected(talk->effective, 10));
    world.stop();
    world.cache.flush();
  }
  World world(options);
  world.start();
  const Reply again = world.ask(talk->next, 10);
  EXPECT_EQ(again.stats.source, CacheSource::kDiskText);
  EXPECT_EQ(again.stats.prompt_tokens, talk->effective.size());
  EXPECT_EQ(again.stats.prefilled_tokens, 1U);  // the previous run had computed all of it
  EXPECT_EQ(again.tokens, world.expected(talk->effective, 10));
}

TEST(SchedulerText, AnEffectivePromptThatWouldNotFitIsNotTaken) {
  WorldOptions options = with_texts();
  options.fake.cells = 400;
  World world(options);
  world.start();
  const Conversation other(world, 6, 200);
  std::mt19937 random(8);
  const std::size_t longer = other.effective.size() - other.next.size();
  const Tokens fits = other.next + digits(random, 399 - longer - other.next.size());
  EXPECT_EQ(world.ask(fits, 1).stats.prompt_tokens, 399U);
  const Conversation talk(world, 7, 200);
  ASSERT_GT(talk.effective.size(), talk.next.size());
  const Tokens full = talk.next + digits(random, 399 - talk.next.size());
  const Reply reply = world.ask(full, 1);
  EXPECT_EQ(reply.finish, Finish::kLength);
  EXPECT_EQ(reply.stats.prompt_tokens, 399U);
  EXPECT_EQ(reply.tokens, world.expected(full, 1));
}

TEST(SchedulerText, CacheOffLeavesThePromptAsItIs) {
  World world(with_texts());
  world.start();
  const Conversation talk(world, 9);
  const Reply reply = world.ask(talk.next, 5, false);
  EXPECT_EQ(reply.stats.prompt_tokens, talk.next.size());
  EXPECT_EQ(reply.tokens, world.expected(talk.next, 5));
}

// A reply that continues where another reply's text ends is sampled, too.
TEST(SchedulerText, AReplyThatIsContinuedIsFoundWhole) {
  World world(with_texts());
  world.start();
  std::mt19937 random(14);
  const Tokens prompt = Tokens{0} + digits(random, 60) + Tokens{1};
  Tokens known = prompt + world.ask(prompt, 40).tokens;
  known.pop_back();  // the last token was never decoded
  const Reply more = world.ask(prompt + retokenized(TokenSpan(known).subspan(prompt.size())), 40);
  ASSERT_EQ(more.stats.prompt_tokens, known.size());
  known = known + more.tokens;
  const Tokens next = prompt + retokenized(TokenSpan(known).subspan(prompt.size())) + Tokens{2};
  known.pop_back();
  const std::vector<TokenRange> sampled = {{Position{} + prompt.size(), Position{} + known.size()}};
  const index::TextMatch match = index::match_text(known, sampled, next, texts());
  ASSERT_GT(match.head.size(), prompt.size() + 70);
  EXPECT_EQ(world.ask(next, 4).stats.cached_tokens, match.head.size());
}

// The beginning of the reply was part of a prompt, in the same ids, before it was sampled.
TEST(SchedulerText, IdsOfAPromptThatAreSampledLaterAreFoundWhole) {
  const auto ends_where_text_does = [](const Conversation& talk) {
    return talk.effective != talk.next && talk.match.head.size() == talk.prompt.size() + talk.reply.size() - 1;
  };
  for (const auto memory_class : {engine::MemoryClass::kSliceable, engine::MemoryClass::kRecurrent}) {
    WorldOptions options = with_texts();
    options.fake.memory_class = memory_class;
    options.fake.sequences = 1;  // the next request pushes it out of the model's memory
    World before(options);
    before.start();
    std::uint32_t seed = 15;
    Conversation talk(before, seed);
    while (!ends_where_text_does(talk)) talk = Conversation(before, ++seed);
    World world(options);
    world.start();
    (void)world.ask(talk.prompt + Tokens(talk.reply.begin(), talk.reply.begin() + 7) + Tokens{3}, 1);
    EXPECT_EQ(world.ask(talk.prompt, static_cast<std::int64_t>(talk.reply.size())).tokens, talk.reply);
    (void)world.ask(Tokens(40, 4), 1);
    const Reply again = world.ask(talk.next, 10);
    EXPECT_EQ(again.stats.cached_tokens, talk.match.head.size());
    EXPECT_EQ(again.stats.source, CacheSource::kRamText);
    EXPECT_EQ(again.tokens, world.expected(talk.effective, 10));
  }
}

// The request finds no free sequence, and is looked up again when the reply that it continues is complete.
TEST(SchedulerText, PenaltiesLookAtTheIdsThatWereFoundLast) {
  WorldOptions options = with_texts();
  options.fake.sequences = 1;
  World before(options);
  before.start();
  const Conversation talk(before, 13);
  ASSERT_NE(talk.effective, talk.next);
  World world(options);
  std::future<Reply> first = world.submit(talk.prompt, static_cast<std::int64_t>(talk.reply.size()));
  const auto sink = std::make_shared<CollectingSink>();
  Job job;
  job.prompt = talk.next;
  job.sampling = World::greedy();
  job.sampling.presence_penalty = 1;
  job.sampling.repeat_last_n = -1;  // all
  job.max_tokens = 10;
  const engine::SamplingParams sampling = job.sampling;
  ASSERT_TRUE(world.scheduler.submit(std::move(job), sink).ok());
  world.start();
  EXPECT_EQ(first.get().tokens, talk.reply);
  const Reply second = sink->future().get();
  EXPECT_EQ(second.stats.cached_tokens, talk.match.head.size());
  EXPECT_EQ(second.tokens, world.engine.expected_text(talk.effective, 10, sampling));
}

// A model that goes on only from points: the point at the reply's end is reached through the effective prompt.
TEST(SchedulerText, PointsAreReachedAsText) {
  for (const auto memory_class :
       {engine::MemoryClass::kHybrid, engine::MemoryClass::kRecurrent, engine::MemoryClass::kWindowed}) {
    WorldOptions options = with_texts();
    options.fake.memory_class = memory_class;
    World world(options);
    world.start();
    std::size_t reached = 0;
    for (std::uint32_t seed = 0; seed < 12; ++seed) {
      const Conversation talk(world, 100 + seed);
      const Reply again = world.ask(talk.next, 10);
      ASSERT_EQ(again.tokens, world.expected(talk.effective, 10));
      ASSERT_EQ(again.stats.prompt_tokens, talk.effective.size());
      const bool whole = talk.match.head.size() == talk.prompt.size() + talk.reply.size() - 1;
      if (!whole || talk.effective == talk.next) continue;  // the point is no common end, or ids agree
      ++reached;
      EXPECT_EQ(again.stats.cached_tokens, talk.match.head.size());
      EXPECT_EQ(again.stats.source, CacheSource::kMemoryText);
    }
    EXPECT_GT(reached, 0U);
  }
}

// Turns begin elsewhere in the effective prompt: the point before its generation prompt is captured where that begins
// in the effective prompt, so that another end of the same conversation goes on from it.
TEST(SchedulerText, MarkersMoveWithThePrompt) {
  WorldOptions options = with_texts();
  options.fake.memory_class = engine::MemoryClass::kHybrid;
  World world(options);
  world.start();
  const auto ask = [&](const Tokens& prompt, std::size_t before_the_end) {
    const auto sink = std::make_shared<CollectingSink>();
    Job job;
    job.prompt = prompt;
    job.sampling = World::greedy();
    job.max_tokens = 5;
    job.markers.generation_prompt = Position{} + (prompt.size() - before_the_end);
    EXPECT_TRUE(world.scheduler.submit(std::move(job), sink).ok());
    return sink->future().get();
  };
  const Conversation talk(world, 11);
  ASSERT_NE(talk.effective.size(), talk.next.size());
  std::mt19937 random(12);
  const Tokens shared = talk.next + digits(random, 40);
  const std::size_t sampled_end = talk.effective.size() + 40;
  (void)ask(shared + Tokens{3, 3, 3, 3, 3, 3}, 6);
  const Reply other = ask(shared + Tokens{4, 4, 4, 4, 4, 4}, 6);
  EXPECT_EQ(other.stats.cached_tokens, sampled_end);
  EXPECT_EQ(other.tokens,
            world.expected(talk.effective + Tokens(shared.end() - 40, shared.end()) + Tokens{4, 4, 4, 4, 4, 4}, 5));
}

// Random conversations that branch and come back as text. The twin knows every sequence that was ever computed.
TEST(SchedulerText, RandomHistoriesAreRightAndReuseTheLongestText) {
  const std::uint32_t first = seed();
  std::size_t as_text_count = 0;
  for (std::uint32_t round = 0; round < 6; ++round) {
    WorldOptions options = with_texts();
    options.fake.cells = round % 2 == 0 ? 4096 : 700;  // many come from RAM
    World world(options);
    world.start();
    std::mt19937 random(first + round);
    struct Known {
      Tokens tokens;
      std::vector<TokenRange> sampled;
    };
    std::vector<Known> known;
    std::vector<Tokens> histories = {{0}};
    for (int i = 0; i < 40; ++i) {
      Tokens prompt = histories[random() % histories.size()] + digits(random, random() % 12) + Tokens{1};
      if (prompt.size() > 400) continue;
      const Reply reply = world.ask(prompt, 1 + static_cast<std::int64_t>(random() % 25));
      std::vector<index::TextMatch> best(1);
      for (const Known& one : known) {
        index::TextMatch match = index::match_text(one.tokens, one.sampled, prompt, texts());
        if (match.prompt_tokens > best.front().prompt_tokens) best.clear();
        if (best.empty() || match.prompt_tokens == best.front().prompt_tokens) best.push_back(std::move(match));
      }
      bool right = false;
      for (const index::TextMatch& match : best) {
        const Tokens effective = index::effective_prompt(match, prompt, texts()).tokens;
        if (right || reply.tokens != world.expected(effective, reply.tokens.size())) continue;
        right = true;
        EXPECT_EQ(reply.stats.prompt_tokens, effective.size());
        EXPECT_EQ(reply.stats.cached_tokens, std::min(match.head.size(), effective.size() - 1));
        Known now{effective + reply.tokens, match.sampled};
        now.tokens.pop_back();
        now.sampled.push_back({Position{} + effective.size(), Position{} + now.tokens.size()});
        known.push_back(std::move(now));
      }
      ASSERT_TRUE(right) << "seed " << first + round << ", request " << i;
      as_text_count += reply.stats.source == CacheSource::kMemoryText || reply.stats.source == CacheSource::kRamText;
      histories.push_back(prompt + retokenized(reply.tokens));
    }
  }
  EXPECT_GT(as_text_count, 20U);
}

}  // namespace
}  // namespace kvkeep::server
