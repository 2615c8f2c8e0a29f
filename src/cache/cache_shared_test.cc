// The shared tier: servers that have an engine in common and nothing else. State of one is found, loaded and restored
// by another, byte for byte, in each class of models; and an engine that loses, lies or hangs costs only time.

#include <random>

#include "base/test_seed.h"
#include "cache/cache_test_fixture.h"
#include "cache/seeking.h"

namespace kvkeep::cache {
namespace {

policy::PromptMarkers ending_at(std::size_t end) {
  policy::PromptMarkers markers;
  markers.message_ends = {Position{} + end};
  return markers;
}

struct Pair {
  explicit Pair(const ModelClass& model = kRowsModel) {
    for (World* server : {&first, &second}) {
      server->model = model;
      server->open_without_disk();
    }
  }
  sim::SimClock clock;
  share::FrailWorld engine{clock};
  World first{engine};
  World second{engine};
};

class SharedClasses : public testing::TestWithParam<ModelClass> {};

TEST_P(SharedClasses, AnotherServerGoesOnFromWhatOnePublished) {
  Pair pair(GetParam());
  const Tokens told = conversation(1, 300);
  ASSERT_TRUE(pair.first.keep(told));
  pair.first.publish();
  const Tokens prompt = told + conversation(500, 60);
  const SeekResult found = pair.second.seek(prompt, ending_at(told.size()));
  EXPECT_TRUE(found.asked);
  EXPECT_EQ(found.found, Position{300});
  EXPECT_EQ(pair.second.check(prompt), 300U);
  if (GetParam().shape.needs_points()) {
    EXPECT_EQ(pair.second.restorable(prompt).back(), 300U);
  }
  EXPECT_EQ(pair.second.seek(prompt, ending_at(told.size())).asked, false) << "little is unknown now";
}

TEST_P(SharedClasses, ConversationsThatBranchOffInTheMiddleOfASegmentAreFoundWhole) {
  Pair pair(GetParam());
  const Tokens trunk = conversation(1, 330);
  ASSERT_TRUE(pair.first.keep(trunk, 64));
  const Tokens branch = head(trunk, 283) + conversation(700, 200);
  ASSERT_TRUE(pair.first.keep(branch, 64));
  pair.first.publish();
  const Tokens prompt = branch + conversation(900, 40);
  EXPECT_EQ(pair.second.seek(prompt, ending_at(branch.size())).found, Position{} + branch.size());
  EXPECT_EQ(pair.second.check(prompt), branch.size());
  if (GetParam().shape.needs_points()) {
    EXPECT_EQ(pair.second.restorable(prompt).back(), branch.size());
  }
}

INSTANTIATE_TEST_SUITE_P(All, SharedClasses, testing::ValuesIn(kClasses),
                         [](const auto& each) { return each.param.name; });

// ---- what is published ----

TEST(Publishing, ShortPromptsAreNotWorthIt) {
  Pair pair;
  pair.first.grow(conversation(1, 240));
  pair.first.publish();
  EXPECT_EQ(pair.engine.puts, 0U);
  pair.first.grow(conversation(1, 260));
  pair.first.publish();
  EXPECT_EQ(pair.engine.puts, 17U) << "with all that leads to it";
}

TEST(Publishing, EachSegmentGoesOnce) {
  Pair pair;
  const Tokens tokens = conversation(1, 320);
  pair.first.grow(tokens);
  pair.first.publish();
  pair.first.grow(tokens + conversation(50, 16));
  pair.first.publish();
  EXPECT_EQ(pair.first.share_counters().published, 21U);
  EXPECT_EQ(pair.first.share_counters().already_there, 0U);
  pair.second.grow(tokens);
  pair.second.publish();
  EXPECT_EQ(pair.engine.puts, 21U) << "two servers computed the same";
  EXPECT_EQ(pair.second.share_counters().already_there, 20U);
}

TEST(Publishing, AServerThatOnlyReadsPublishesNothing) {
  sim::SimClock clock;
  share::FrailWorld engine{clock};
  World reader{engine};
  reader.share_mode = share::ShareMode::kRead;
  reader.open_without_disk();
  EXPECT_FALSE(reader.cache->publishes());
  reader.grow(conversation(1, 320));
  reader.publish();
  EXPECT_EQ(engine.puts, 0U);
}

// What only readers use must stay as well.
TEST(Publishing, UsesAreReportedInEveryMode) {
  sim::SimClock clock;
  share::FrailWorld engine{clock};
  const Tokens told = conversation(1, 320);
  for (const share::ShareMode mode : {share::ShareMode::kWrite, share::ShareMode::kRead, share::ShareMode::kBoth}) {
    World server{engine};
    server.share_mode = mode;
    server.open_without_disk();
    if (mode == share::ShareMode::kWrite) {
      server.grow(told);
      server.publish();
    } else {
      ASSERT_EQ(server.seek(told + conversation(50, 300), ending_at(told.size())).found, Position{320});
    }
    engine.touches.clear();
    server.cache->note_use(*server.cache->lease(told));
    server.share_worker.run_all();
    EXPECT_EQ(engine.touches.size(), 20U) << "each segment on the way";
  }
}

TEST(Publishing, EndsWhenStoredStateIsWrong) {
  Pair pair;
  pair.first.cache->distrust("an audit");
  pair.first.grow(conversation(1, 320));
  pair.first.publish();
  EXPECT_EQ(pair.engine.puts, 0U);
  EXPECT_FALSE(pair.first.cache->can_seek());
}

TEST(Publishing, StateThatLoadsSlowerThanItIsPrefilledStays) {
  sim::SimClock clock;
  share::FrailWorld engine{clock};
  World server{engine, mebibytes(64)};
  server.model.row_bytes = 32'768;  // enough to measure how fast they are written
  server.open_without_disk();
  engine.answer_ms = 4;
  server.grow(conversation(1, 320));
  server.publish();
  const std::uint64_t before = engine.puts;
  ASSERT_GT(before, 0U) << "rates were unknown";
  server.cache->note_prefill_rate(1e9);
  server.grow(conversation(100, 320));
  server.publish();
  EXPECT_EQ(engine.puts, before);
  server.cache->note_prefill_rate(1);
  server.grow(conversation(200, 320));
  server.publish();
  EXPECT_GT(engine.puts, before);
}

// The engine was restarted, or evicted the beginning: what continues it would be orphaned for ever.
TEST(Publishing, BeginsAnewWhenTheEngineLostWhatCameBefore) {
  Pair pair;
  const Tokens told = conversation(1, 320);
  pair.first.grow(told);
  pair.first.publish();
  pair.engine.objects.clear();
  pair.clock.advance_ms(100'000);
  for (std::size_t turn = 1; turn <= 3; ++turn) {
    pair.first.grow(told + conversation(300, 64 * turn));
    pair.first.publish();
  }
  const Tokens prompt = told + conversation(300, 300);
  EXPECT_GE(pair.second.seek(prompt).found, Position{384});
  EXPECT_GE(pair.second.check(prompt), 384U);
}

// A server that was restarted has the beginning on disk only, and the engine began anew.
TEST_P(SharedClasses, WhatLiesOnlyOnDiskIsPublishedAgain) {
  sim::SimClock clock;
  share::FrailWorld engine{clock};
  World first{engine};
  World second{engine};
  first.model = second.model = GetParam();
  ASSERT_TRUE(first.open());
  second.open_without_disk();
  const Tokens told = conversation(1, 320);
  ASSERT_TRUE(first.keep(told));
  first.publish();
  ASSERT_TRUE(first.restart());
  engine.objects.clear();
  clock.advance_ms(100'000);
  const Tokens prompt = told + conversation(300, 80);
  ASSERT_TRUE(first.keep(prompt));
  first.publish();
  EXPECT_EQ(second.seek(prompt + conversation(5, 60), ending_at(prompt.size())).found, Position{} + prompt.size());
  EXPECT_EQ(second.check(prompt), prompt.size());
}

// The rest goes with the conversation's next turns.
TEST(Publishing, ReadsABoundedPartFromDiskAtOnce) {
  sim::SimClock clock;
  share::FrailWorld engine{clock};
  World first{engine};
  World second{engine};
  first.most_read_to_publish = ByteCount{6'000};
  ASSERT_TRUE(first.open());
  second.open_without_disk();
  const Tokens told = conversation(1, 640);
  ASSERT_TRUE(first.keep(told));
  first.publish();
  ASSERT_TRUE(first.restart());
  engine.objects.clear();
  clock.advance_ms(100'000);
  std::vector<std::size_t> found;
  Tokens prompt = told;
  for (std::uint32_t turn = 0; turn < 40; ++turn) {
    prompt = prompt + conversation(300 + turn, 32);
    ASSERT_TRUE(first.keep(prompt));
    first.publish();
    found.push_back(engine.objects.size());
  }
  // Each turn by itself adds few objects, but they are not all: the rest of the beginning comes turn by turn.
  EXPECT_LT(2 * found.front(), found[10]);
  EXPECT_EQ(second.seek(prompt + conversation(5, 60), ending_at(prompt.size())).found, Position{} + prompt.size());
  EXPECT_EQ(second.check(prompt), prompt.size());
}

// Where a sequence of 3,000 tokens, captured in two portions, is cut.
std::vector<std::size_t> ends_after_capture(World& world) {
  const Tokens tokens = conversation(1, 3000);
  OneSequence memory(tokens);
  Track track = world.cache->track({});
  for (const std::size_t end : {std::size_t{1500}, tokens.size()}) {
    EXPECT_TRUE(capture(*world.cache, memory, SeqId{0}, head(tokens, end), track).complete);
  }
  std::vector<std::size_t> ends;
  const std::shared_ptr<Lease> leased = world.cache->lease(tokens);
  for (const LeasedStep& step : leased->steps()) ends.push_back(step.range.end.value());
  return ends;
}

TEST(Publishing, EndsSegmentsWhereOthersLook) {
  Pair pair;
  EXPECT_EQ(ends_after_capture(pair.first), (std::vector<std::size_t>{32, 256, 1500, 2048, 3000}));
  World alone;
  alone.open_without_disk();
  EXPECT_EQ(ends_after_capture(alone), (std::vector<std::size_t>{32, 256, 1500, 3000}));
}

// ---- what is found ----

TEST(Seeking, TenantsFindOnlyTheirOwn) {
  Pair pair;
  const Tokens told = conversation(1, 320);
  pair.first.tenant = tenant_of({}, "ours");
  pair.first.grow(told);
  pair.first.publish();
  EXPECT_EQ(pair.second.seek(told).found, Position{});
  pair.second.tenant = tenant_of({}, "ours");
  EXPECT_EQ(pair.second.seek(told).found, Position{320});
  pair.second.tenant = kNoTenant;
  EXPECT_EQ(pair.second.cache->lease(told)->end(), Position{});
}

// A segment in whose middle the prompt leaves it goes on with ids that nothing was compared with.
TEST(Seeking, IdsOfAnotherVocabularyStayOutside) {
  sim::SimClock clock;
  share::FrailWorld engine{clock};
  World first{engine};
  World second{engine};
  second.vocabulary_size = 1000;
  for (World* server : {&first, &second}) server->open_without_disk();
  const Tokens trunk = conversation(1, 283) + conversation(5000, 47);
  ASSERT_TRUE(first.keep(trunk, 64));
  const Tokens branch = head(trunk, 283) + conversation(700, 200);
  ASSERT_TRUE(first.keep(branch, 64));
  first.publish();
  EXPECT_EQ(second.seek(branch, ending_at(branch.size())).found, Position{} + branch.size());
  const std::size_t known = second.check(branch);
  EXPECT_GE(known, 192U);
  EXPECT_LT(known, 283U);
  EXPECT_TRUE(second.cache->branch(trunk, SIZE_MAX, kNoTenant).next.empty());
}

TEST(Seeking, AsksOnlyWhereEnoughIsUnknown) {
  Pair pair;
  const Tokens told = conversation(1, 320);
  EXPECT_FALSE(pair.second.seek(head(told, 200)).asked);
  pair.second.grow(told);
  EXPECT_FALSE(pair.second.seek(told + conversation(90, 63)).asked);
  EXPECT_TRUE(pair.second.seek(told + conversation(90, 64)).asked);
  EXPECT_EQ(pair.second.share_counters().lookups, 1U);
}

TEST(Seeking, StateThatWasEvictedMeanwhileIsForgotten) {
  Pair pair;
  const Tokens told = conversation(1, 320);
  pair.first.grow(told);
  pair.first.publish();
  ASSERT_EQ(pair.second.seek(told).found, Position{320});
  EXPECT_EQ(pair.second.cache->lease(told)->steps().front().tier, Tier::kShared);
  for (auto& [name, object] : pair.engine.objects) object.pieces.clear();
  EXPECT_EQ(pair.second.check(told), 0U);
  EXPECT_EQ(pair.second.cache->stats().segments, 0U);
  EXPECT_EQ(pair.second.cache->stats().damaged, 0U) << "it promised nothing";
}

TEST(Seeking, AHungEngineCostsOneDeadline) {
  Pair pair;
  const Tokens told = conversation(1, 3000);  // ends of it lie at each node
  for (auto& node : pair.engine.nodes) node = share::FrailWorld::Node::kHung;
  const std::int64_t begin_ns = pair.clock.monotonic_ns();
  for (int i = 0; i < 20; ++i) (void)pair.second.seek(told);
  EXPECT_LE(os::elapsed_ms(begin_ns, pair.clock.monotonic_ns()), 51.0);
  EXPECT_FALSE(pair.second.cache->can_seek());
}

TEST(Seeking, RemembersAsManyAsItMayAndForgetsTheOldest) {
  sim::SimClock clock;
  share::FrailWorld engine{clock};
  World first{engine};
  World second{engine};
  second.most_shared = 50;
  for (World* server : {&first, &second}) server->open_without_disk();
  const auto talk = [](TokenId number) { return conversation(number * 100 + 1, 320); };
  for (TokenId number = 0; number < 4; ++number) first.grow(talk(number));
  first.publish();
  for (TokenId number = 0; number < 4; ++number) EXPECT_EQ(second.seek(talk(number)).found, Position{320});
  EXPECT_LE(second.cache->stats().segments, 50U);
  EXPECT_EQ(second.check(talk(3)), 320U);
  EXPECT_EQ(second.cache->lease(talk(0))->end(), Position{});
  const auto held = second.cache->lease(talk(2));
  EXPECT_EQ(held->end(), Position{320});
  for (TokenId number = 4; number < 6; ++number) first.grow(talk(number));
  first.publish();
  for (TokenId number = 4; number < 6; ++number) EXPECT_EQ(second.seek(talk(number)).found, Position{320});
  EXPECT_EQ(second.cache->lease(talk(2))->end(), Position{320}) << "a request holds it";
  EXPECT_EQ(second.check(talk(3)), 320U) << "it is in RAM by now";
}

TEST(Seeking, StateThatArrivedIsWrittenLikeCapturedState) {
  sim::SimClock clock;
  share::FrailWorld engine{clock};
  World first{engine};
  World second{engine};
  first.open_without_disk();
  ASSERT_TRUE(second.open());
  const Tokens told = conversation(1, 320);
  first.grow(told);
  first.publish();
  ASSERT_EQ(second.seek(told).found, Position{320});
  EXPECT_EQ(second.check(told), 320U);
  second.grow(told + conversation(50, 32));
  second.publish();
  engine.objects.clear();
  ASSERT_TRUE(second.restart());
  EXPECT_EQ(second.check(told + conversation(50, 40)), 352U) << "from its own disk";
}

// ---- loads side by side ----

// Two conversations of which another server published `small` and `large` tokens.
struct TwoLoads {
  TwoLoads(std::size_t large, std::size_t small, bool reads_ahead = false)
      : talks{conversation(1, large), conversation(5000, small)} {
    pair.second.reads_ahead = reads_ahead;
    pair.second.open_without_disk();
    for (std::size_t i = 0; i < talks.size(); ++i) {
      pair.first.grow(talks[i]);
      pair.first.publish();
      EXPECT_EQ(pair.second.seek(talks[i]).found, Position{} + talks[i].size());
      leases.push_back(pair.second.cache->lease(talks[i]));
    }
  }
  void load(std::size_t which) {
    pair.second.cache->load(leases[which], {Position{}, leases[which]->end()}, [this, which](LoadResult result) {
      outcomes[which] = std::move(result.status);
      ended_ns[which] = pair.clock.monotonic_ns();
    });
  }
  double ms_since(std::int64_t from_ns, std::size_t which) const { return os::elapsed_ms(from_ns, ended_ns[which]); }

  Pair pair;
  const std::array<Tokens, 2> talks;
  std::vector<std::shared_ptr<Lease>> leases;
  std::array<std::optional<Status>, 2> outcomes;
  std::array<std::int64_t, 2> ended_ns{};
};

TEST(LoadsOfTheSharedTier, ASmallOneDoesNotWaitForALargeOne) {
  TwoLoads loads(1'280, 320);  // 80 and 20 segments
  loads.pair.engine.answer_ms = 4;
  const std::int64_t from_ns = loads.pair.clock.monotonic_ns();
  loads.load(0);
  loads.load(1);
  loads.pair.second.wait_for_reader();
  for (const auto& outcome : loads.outcomes) EXPECT_TRUE(outcome && *outcome);
  EXPECT_GE(loads.ms_since(from_ns, 0), 400);
  EXPECT_LE(loads.ms_since(from_ns, 1), 165) << "they take turns";
}

// The 20 segments may take 50 ms each. Time in which others load counts from the beginning.
TEST(LoadsOfTheSharedTier, OneIsGivenUpIfOthersTakeTheTimeInWhichItIsPrefilled) {
  for (const std::int64_t others_ms : {900, 1'100}) {
    TwoLoads loads(640, 320);
    World& server = loads.pair.second;
    server.cache->note_prefill_rate(200);
    const std::uint64_t gets = loads.pair.engine.gets;
    loads.load(1);
    server.reader.run_all();
    loads.pair.clock.advance_ms(others_ms);
    server.wait_for_reader();
    ASSERT_TRUE(loads.outcomes[1].has_value());
    EXPECT_EQ(loads.outcomes[1]->ok(), others_ms < 1'000);
    EXPECT_EQ(loads.pair.engine.gets - gets, others_ms < 1'000 ? 20U : 0U);
  }
}

// ---- reading ahead ----

TEST(ReadingAhead, TheNextPortionComesWhileOneIsRestored) {
  Pair pair;
  pair.second.reads_ahead = true;
  pair.second.open_without_disk();
  const Tokens told = conversation(1, 320);  // 20 segments
  pair.first.grow(told);
  pair.first.publish();
  ASSERT_EQ(pair.second.seek(told).found, Position{320});
  const auto lease = pair.second.cache->lease(told);
  const auto read_after = [&](TokenRange range) {
    std::optional<LoadResult> result;
    pair.second.cache->load(lease, range, [&](LoadResult loaded) { result = std::move(loaded); });
    while (pair.second.reader.run_one() || pair.second.share_reader.run_one()) {}
    EXPECT_TRUE(result && result->status);
    return pair.engine.gets;
  };
  lease->aim_at(Position{160});
  EXPECT_EQ(read_after({Position{}, Position{64}}), 4U);
  pair.second.share_helper.run_all();
  EXPECT_EQ(pair.engine.gets, 10U) << "up to the goal";
  EXPECT_EQ(read_after({Position{64}, Position{160}}), 10U);
  EXPECT_EQ(read_after({Position{160}, Position{320}}), 20U);
  pair.second.share_helper.run_all();
  EXPECT_EQ(pair.engine.gets, 20U);
  EXPECT_TRUE(pair.second.loads(lease, told));
}

// One load does not take from another what that one expects, be it when it begins or when its request ends.
TEST(ReadingAhead, GoesOnForEachLoadUnderWay) {
  for (const bool abandons : {false, true}) {
    SCOPED_TRACE(abandons);
    TwoLoads loads(640, 320, true);
    World& server = loads.pair.second;
    const std::uint64_t before = loads.pair.engine.gets;
    loads.load(0);
    loads.load(1);
    while (server.reader.run_one()) {}
    for (int load = 0; load < 2; ++load) server.share_reader.run_one();  // a segment of each
    if (abandons) {
      loads.leases[1]->abandon();
      for (int load = 0; load < 2; ++load) server.share_reader.run_one();
    }
    server.share_helper.run_all();
    EXPECT_GE(loads.pair.engine.gets - before, abandons ? 40U : 60U);
    server.wait_for_reader();
    EXPECT_TRUE(loads.outcomes[0] && *loads.outcomes[0]);
    EXPECT_EQ(loads.outcomes[1] && *loads.outcomes[1], !abandons);
    EXPECT_LE(loads.pair.engine.gets - before, 60U) << "nothing twice";
  }
}

TEST(ReadingAhead, ALoadThatIsAbandonedEndsIt) {
  Pair pair;
  pair.second.reads_ahead = true;
  pair.second.open_without_disk();
  const Tokens told = conversation(1, 320);
  pair.first.grow(told);
  pair.first.publish();
  ASSERT_EQ(pair.second.seek(told).found, Position{320});
  const auto lease = pair.second.cache->lease(told);
  lease->aim_at(Position{320});
  lease->abandon();
  std::optional<LoadResult> result;
  pair.second.cache->load(lease, {Position{}, Position{64}}, [&](LoadResult loaded) { result = std::move(loaded); });
  pair.second.wait_for_reader();
  EXPECT_TRUE(result && !result->status);
  EXPECT_EQ(pair.engine.gets, 0U);
}

// ---- stories ----

// Two servers, a few conversations that wander between them, and an engine that loses, flips, swaps, hangs and fills
// up.
class SharedStory {
 public:
  SharedStory(const ModelClass& model, std::uint64_t seed) : random_(seed), pair_(model) {
    pair_.second.reads_ahead = seed % 2 == 0;
    pair_.second.open_without_disk();
    for (int talk = 0; talk < 3; ++talk) talks_.push_back(conversation(talk * 100 + 1, 260));
  }
  // check() and restorable() compare every byte.
  void turn() {
    Tokens& talk = talks_[random_() % talks_.size()];
    World& server = random_() % 2 == 0 ? pair_.first : pair_.second;
    if (server.cache->can_seek()) (void)server.seek(talk + conversation(7, 300), ending_at(talk.size()));
    (void)server.check(talk);
    if (server.model.shape.needs_points()) (void)server.restorable(talk);
    talk = talk + conversation(static_cast<TokenId>(random_() % 900), 20 + random_() % 90);
    (void)server.keep(talk, 16 + random_() % 48);
    random_() % 3 == 0 ? server.writer.run_all() : server.publish();
    server.cache->tick();
  }
  void harm() {
    pair_.engine.harm(random_);
    for (auto& node : pair_.engine.nodes)
      node = static_cast<share::FrailWorld::Node>(random_() % 8 < 4 ? random_() % 4 : 0);
    pair_.engine.full = random_() % 6 == 0;
    pair_.engine.reads_hang = random_() % 9 == 0;
    if (random_() % 5 == 0) pair_.engine.cut_put_at = 1 + random_() % 4;
    pair_.engine.puts_land_late = random_() % 6 == 0;
    pair_.engine.before_call = [this] {
      if (random_() % 64 == 0) pair_.engine.harm(random_);
      if (random_() % 32 == 0) pair_.engine.land(random_);
    };
    pair_.clock.advance_ms(static_cast<std::int64_t>(random_() % 20'000));
  }
  void heal() {
    for (auto& node : pair_.engine.nodes) node = share::FrailWorld::Node::kWell;
    pair_.engine.full = pair_.engine.reads_hang = pair_.engine.puts_land_late = false;
    pair_.engine.cut_put_at = 0;
    pair_.engine.before_call = [] {};
    pair_.engine.late.clear();
    for (int i = 0; i < 400; ++i) {
      pair_.clock.advance_ms(1'000);
      for (World* server : {&pair_.first, &pair_.second}) {
        server->cache->tick();
        server->publish();
      }
    }
  }
  // A new conversation of one server is found by the other.
  void expect_warm() {
    const Tokens talk = conversation(5000, 300);
    ASSERT_TRUE(pair_.first.keep(talk));
    pair_.first.publish();
    EXPECT_EQ(pair_.second.seek(talk + conversation(6000, 10), ending_at(talk.size())).found, Position{300});
    EXPECT_EQ(pair_.second.check(talk), 300U);
  }

 private:
  std::mt19937_64 random_;
  Pair pair_;
  std::vector<Tokens> talks_;
};

class SharedStories : public testing::TestWithParam<ModelClass> {};

TEST_P(SharedStories, GiveNoWrongByteAndEndWarm) {
  const std::uint64_t first_seed = test_seed();
  for (std::uint64_t seed = first_seed; seed < first_seed + 6; ++seed) {
    SCOPED_TRACE(seed);
    SharedStory story(GetParam(), seed);
    for (int i = 0; i < 25; ++i) {
      story.turn();
      if (i % 2 == 0) story.harm();
    }
    story.heal();
    story.expect_warm();
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(All, SharedStories, testing::ValuesIn(kClasses),
                         [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace kvkeep::cache
