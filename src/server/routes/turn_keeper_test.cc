// Sampled turns over the simulated file system: across restarts, full disks and damage.

#include "server/routes/turn_keeper.h"

#include <gtest/gtest.h>

#include <limits>

#include "share/frail_engine_fixture.h"
#include "testing/sim/sim_clock.h"
#include "testing/sim/sim_executor.h"
#include "testing/sim/sim_file_system.h"

namespace kvkeep::server {
namespace {

constexpr std::size_t kVocabulary = 2000;

PrefixHash name(int number) {
  PrefixHash hash;
  hash.bytes[0] = static_cast<std::uint8_t>(number);
  hash.bytes[1] = static_cast<std::uint8_t>(number >> 8);
  return hash;
}

chat::SampledTurn turn(int number) { return {std::vector<TokenId>(50, number), {"call_" + std::to_string(number)}}; }

class TurnKeeperTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(files_.make_directories("/cache")); }
  std::unique_ptr<TurnKeeper> open(ByteCount memory = mebibytes(1)) {
    return std::make_unique<TurnKeeper>(TurnKeeperOptions{memory, kVocabulary, kPath}, files_, executor_);
  }
  static bool knows(TurnKeeper& keeper, int number) {
    const auto found = keeper.find(name(number));
    return found.size() == 1 && *found[0] == turn(number);
  }

  // Plants one record as another server, or another vocabulary, may have written it.
  void write(const PrefixHash& before, const std::vector<TokenId>& ids) {
    const auto record = format::encode_sampled_turn({before, ids, {}});
    ASSERT_TRUE(store::RecordLog::rewrite(files_, kPath, format::kSampledTurnRecords, {record}));
  }

  static inline const std::string kPath = "/cache/turns";
  sim::SimFileSystem files_;
  sim::SimExecutor executor_;
};

TEST_F(TurnKeeperTest, KnowsItsTurnsAfterEveryRestart) {
  for (int start = 0; start < 5; ++start) {
    const auto keeper = open();
    for (int i = 0; i < start * 10; ++i) EXPECT_TRUE(knows(*keeper, i));
    for (int i = start * 10; i < start * 10 + 10; ++i) keeper->remember(name(i), turn(i));
  }
}

TEST_F(TurnKeeperTest, WrittenTurnsSurviveTheProcess) {
  auto keeper = open();
  for (int i = 0; i < 10; ++i) keeper->remember(name(i), turn(i));
  executor_.run_all();
  keeper->remember(name(10), turn(10));
  executor_.forget_all();
  files_.kill();
  keeper.reset();
  keeper = open();
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(knows(*keeper, i));
  EXPECT_FALSE(knows(*keeper, 10));
}

TEST_F(TurnKeeperTest, MemoryAndFileStayWithinTheirLimits) {
  const ByteCount limit{50'000};
  auto keeper = open(limit);
  for (int i = 0; i < 2000; ++i) {
    keeper->remember(name(i), turn(i));
    executor_.run_all();
    ASSERT_LE(keeper->bytes(), limit);
    ASSERT_LE(files_.contents(kPath)->size(), 2 * limit.value() + 1000);
  }
  const std::size_t known = keeper->size();
  EXPECT_GT(known, 50U);
  keeper.reset();
  keeper = open(limit);
  EXPECT_TRUE(knows(*keeper, 1999));
  EXPECT_EQ(keeper->size(), known);
}

TEST_F(TurnKeeperTest, ADamagedFileCostsWhatFollowsTheDamage) {
  auto keeper = open();
  for (int i = 0; i < 10; ++i) keeper->remember(name(i), turn(i));
  keeper.reset();
  auto bytes = *files_.contents(kPath);
  bytes[bytes.size() / 2] ^= std::byte{1};
  files_.plant(kPath, bytes);
  keeper = open();
  EXPECT_TRUE(knows(*keeper, 0));
  EXPECT_FALSE(knows(*keeper, 9));
  keeper->remember(name(20), turn(20));
  keeper.reset();
  keeper = open();
  EXPECT_TRUE(knows(*keeper, 0));
  EXPECT_TRUE(knows(*keeper, 20)) << "the damage is written over";
}

TEST_F(TurnKeeperTest, IdsOfAnotherVocabularyInTheFileAreNoTurn) {
  for (const TokenId id : {TokenId{-1}, std::numeric_limits<TokenId>::min(), std::numeric_limits<TokenId>::max(),
                           static_cast<TokenId>(kVocabulary)}) {
    write(name(1), {1, id, 2});
    EXPECT_EQ(open()->size(), 0U) << id;
  }
  write(name(1), {0, static_cast<TokenId>(kVocabulary) - 1});
  EXPECT_EQ(open()->size(), 1U);
}

TEST_F(TurnKeeperTest, AForeignFileIsNoReasonToFail) {
  for (const std::size_t size : {0U, 1U, 15U, 16U, 17U, 5000U}) {
    files_.plant(kPath, std::vector<std::byte>(size, std::byte{0x5A}));
    const auto keeper = open();
    EXPECT_EQ(keeper->size(), 0U);
    keeper->remember(name(1), turn(1));
    EXPECT_TRUE(knows(*keeper, 1));
  }
}

// Each operation of a short life fails in turn, once or from then on; the process continues, and the next one starts.
TEST_F(TurnKeeperTest, AFailingDiskCostsNoMoreThanWhatARestartKnows) {
  const std::uint64_t operations = [&] {
    sim::SimFileSystem files;
    EXPECT_TRUE(files.make_directories("/cache"));
    files.set_plan({});
    TurnKeeper keeper({mebibytes(1), kVocabulary, kPath}, files, executor_);
    for (int i = 0; i < 5; ++i) keeper.remember(name(i), turn(i));
    executor_.run_all();
    return files.operations();
  }();
  ASSERT_GE(operations, 8U);
  for (const auto kind : {sim::FaultKind::kFailOnce, sim::FaultKind::kFailForever, sim::FaultKind::kCrash}) {
    for (std::uint64_t at = 1; at <= operations; ++at) {
      sim::SimFileSystem files(at);
      ASSERT_TRUE(files.make_directories("/cache"));
      files.set_plan({kind, at});
      {
        TurnKeeper keeper({mebibytes(1), kVocabulary, kPath}, files, executor_);
        for (int i = 0; i < 5; ++i) keeper.remember(name(i), turn(i));
        executor_.run_all();
        for (int i = 0; i < 5; ++i) EXPECT_TRUE(knows(keeper, i));
        EXPECT_EQ(keeper.unwritten() > 0 || kind != sim::FaultKind::kFailForever, true) << at;
      }
      files.heal();
      files.kill();
      TurnKeeper again({mebibytes(1), kVocabulary, kPath}, files, executor_);
      for (int i = 0; i < 5; ++i) {
        const auto found = again.find(name(i));
        EXPECT_TRUE(found.empty() || *found[0] == turn(i)) << "never another turn";
      }
    }
  }
}

TEST_F(TurnKeeperTest, WithARecoveredDiskTurnsAreWrittenAgain) {
  auto keeper = open();
  executor_.run_all();
  files_.set_plan({sim::FaultKind::kFailForever, 1});
  for (int i = 0; i < 3; ++i) keeper->remember(name(i), turn(i));
  executor_.run_all();
  EXPECT_GT(keeper->unwritten(), 0U);
  files_.heal();
  for (int i = 3; i < 40; ++i) keeper->remember(name(i), turn(i));
  keeper.reset();
  keeper = open();
  for (int i = 0; i < 40; ++i) EXPECT_TRUE(knows(*keeper, i)) << i;
}

TEST_F(TurnKeeperTest, AWriterThatLagsLosesTheNewest) {
  auto keeper = open();
  for (int i = 0; i < 1000; ++i) keeper->remember(name(i), turn(i));
  EXPECT_GT(keeper->unwritten(), 0U);
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(knows(*keeper, i));
  keeper.reset();
  EXPECT_TRUE(knows(*open(), 0));
}

// ---- shared turns ----

// Two keepers over one engine, without files.
class SharedTurnsTest : public ::testing::Test {
 protected:
  std::unique_ptr<share::SharedStore> open_store() {
    auto store = share::SharedStore::make(std::make_unique<share::FrailEngine>(engine_),
                                          {.fingerprint = {}, .device = {}, .key = "secret"}, clock_, worker_);
    EXPECT_TRUE(store.ok());
    worker_.run_all();
    return std::move(*store);
  }
  static bool knows(TurnKeeper& keeper, int number) {
    const auto found = keeper.find(name(number));
    return found.size() == 1 && *found[0] == turn(number);
  }
  // The numbers of the turns that a keeper knows at a place, newest first.
  static std::vector<int> replies(TurnKeeper& keeper, int place) {
    std::vector<int> numbers;
    for (const auto& known : keeper.find(name(place))) numbers.push_back(known->ids.front());
    return numbers;
  }
  std::unique_ptr<TurnKeeper> open(share::SharedStore& store) {
    return std::make_unique<TurnKeeper>(
        TurnKeeperOptions{.memory = mebibytes(1), .vocabulary_size = kVocabulary, .shared = &store, .clock = &clock_},
        files_, executor_);
  }

  sim::SimClock clock_;
  sim::SimExecutor worker_;
  sim::SimExecutor executor_;
  sim::SimFileSystem files_;
  share::FrailWorld engine_{clock_};
  std::unique_ptr<share::SharedStore> first_store_ = open_store();
  std::unique_ptr<share::SharedStore> second_store_ = open_store();
  TurnKeeper first_{
      {.memory = mebibytes(1), .vocabulary_size = kVocabulary, .shared = first_store_.get(), .clock = &clock_},
      files_,
      executor_};
  TurnKeeper second_{
      {.memory = mebibytes(1), .vocabulary_size = kVocabulary, .shared = second_store_.get(), .clock = &clock_},
      files_,
      executor_};
};

TEST_F(SharedTurnsTest, OneKeeperLearnsWhatAnotherPublished) {
  for (int i = 0; i < 5; ++i) first_.remember(name(i), turn(i));
  worker_.run_all();
  EXPECT_FALSE(knows(second_, 3));
  EXPECT_TRUE(second_.learn({name(3), name(4), name(77)}));
  EXPECT_TRUE(knows(second_, 3));
  EXPECT_TRUE(knows(second_, 4));
  EXPECT_FALSE(knows(second_, 2)) << "nobody asked";
}

// A conversation may last longer than records live in the engine.
TEST_F(SharedTurnsTest, UsesOfKnownTurnsAreReported) {
  first_.remember(name(1), turn(1));
  worker_.run_all();
  EXPECT_TRUE(second_.learn({name(1)}));
  EXPECT_FALSE(second_.learn({name(1), name(77)}));
  worker_.run_all();
  ASSERT_EQ(engine_.touches.size(), 1U) << "nobody knows a turn at the other place";
  int& touches = engine_.touches.begin()->second;
  EXPECT_EQ(touches, 1);
  EXPECT_EQ(engine_.touches.begin()->first, engine_.objects.begin()->first);
  // The server that sampled it goes on with it, and may not read there.
  const auto writes = share::SharedStore::make(std::make_unique<share::FrailEngine>(engine_),
                                               {.key = "secret", .mode = share::ShareMode::kWrite}, clock_, worker_);
  ASSERT_TRUE(writes.ok());
  const auto writer = open(**writes);
  writer->remember(name(1), turn(1));
  EXPECT_FALSE(writer->learn({name(1)}));
  worker_.run_all();
  EXPECT_EQ(touches, 2);
  clock_.advance_ms(601'000);
  EXPECT_FALSE(second_.learn({name(1)}));
  worker_.run_all();
  EXPECT_EQ(touches, 3);
}

// The client may come to the second server before the first one has published its reply.
TEST_F(SharedTurnsTest, APlaceWithoutATurnIsAskedAboutAgainSecondsLater) {
  EXPECT_FALSE(second_.learn({name(1)}));
  const std::uint64_t calls = engine_.calls;
  EXPECT_FALSE(second_.learn({name(1)}));
  EXPECT_EQ(engine_.calls, calls);
  first_.remember(name(1), turn(1));
  worker_.run_all();
  clock_.advance_ms(4'000);
  EXPECT_TRUE(second_.learn({name(1)}));
}

TEST_F(SharedTurnsTest, PlacesThatNeverHaveATurnAreAskedAboutLessAndLess) {
  const std::uint64_t calls = engine_.calls;
  for (int second = 0; second < 600; ++second) {
    EXPECT_FALSE(second_.learn({name(1)}));
    clock_.advance_ms(1'000);
  }
  EXPECT_GE(engine_.calls - calls, 10U) << "once a minute";
  EXPECT_LE(engine_.calls - calls, 16U);
}

TEST_F(SharedTurnsTest, AnEngineInTroubleSaysNothingOfAPlace) {
  first_.remember(name(1), turn(1));
  worker_.run_all();
  for (auto& node : engine_.nodes) node = share::FrailWorld::Node::kLoading;
  EXPECT_FALSE(second_.learn({name(1)}));
  for (auto& node : engine_.nodes) node = share::FrailWorld::Node::kWell;
  EXPECT_TRUE(second_.learn({name(1)}));
}

TEST_F(SharedTurnsTest, PlacesBeforeThoseThatAreAskedAboutAreAskedAboutLater) {
  first_.remember(name(0), turn(0));
  worker_.run_all();
  std::vector<PrefixHash> places;
  for (int i = 0; i < 300; ++i) places.push_back(name(i));
  EXPECT_FALSE(second_.learn(places));
  EXPECT_TRUE(second_.learn(places));
  EXPECT_TRUE(knows(second_, 0));
}

TEST_F(SharedTurnsTest, KnownTurnsAreNotAskedFor) {
  second_.remember(name(1), turn(1));
  worker_.run_all();
  const std::uint64_t calls = engine_.calls;
  EXPECT_FALSE(second_.learn({name(1)}));
  EXPECT_EQ(engine_.calls, calls);
}

// Without a share key, or with it, anybody who can write to the engine can write such records.
TEST_F(SharedTurnsTest, RecordsWithIdsOfAnotherVocabularyAreAMiss) {
  int number = 0;
  for (const TokenId id : {TokenId{-1}, std::numeric_limits<TokenId>::min(), std::numeric_limits<TokenId>::max(),
                           static_cast<TokenId>(kVocabulary)}) {
    ++number;
    ASSERT_TRUE(first_store_->offer_record(name(number), format::encode_sampled_turn({name(number), {1, id, 2}, {}})));
    worker_.run_all();
    EXPECT_FALSE(second_.learn({name(number)})) << id;
    EXPECT_TRUE(second_.find(name(number)).empty()) << id;
  }
}

TEST_F(SharedTurnsTest, RepliesOfSeveralServersToOnePromptAreAllLearnt) {
  first_.remember(name(1), turn(10));
  first_.remember(name(1), turn(11));
  worker_.run_all();
  second_.remember(name(1), turn(20));
  worker_.run_all();
  const auto third = open(*second_store_);
  EXPECT_TRUE(third->learn({name(1)}));
  EXPECT_EQ(replies(*third, 1), (std::vector<int>{20, 11, 10}));
}

TEST_F(SharedTurnsTest, OfManyRepliesTheNewestFourAreShared) {
  for (int reply = 10; reply < 15; ++reply) first_.remember(name(1), turn(reply));
  worker_.run_all();
  second_.remember(name(1), turn(20));
  worker_.run_all();
  first_.remember(name(1), turn(12));
  worker_.run_all();
  const auto third = open(*second_store_);
  EXPECT_TRUE(third->learn({name(1)}));
  EXPECT_EQ(replies(*third, 1), (std::vector<int>{12, 14, 13, 11}));
}

TEST_F(SharedTurnsTest, RepliesThatTheEngineLostArePublishedWithTheNextOne) {
  first_.remember(name(1), turn(10));
  worker_.run_all();
  engine_.objects.clear();
  first_.remember(name(1), turn(11));
  worker_.run_all();
  EXPECT_TRUE(second_.learn({name(1)}));
  EXPECT_EQ(replies(second_, 1), (std::vector<int>{11, 10}));
}

TEST_F(SharedTurnsTest, RecordsOfFormerServersAreReadAndKept) {
  ASSERT_TRUE(
      first_store_->offer_record(name(1), format::encode_sampled_turn({name(1), turn(10).ids, turn(10).call_ids})));
  worker_.run_all();
  const auto third = open(*first_store_);
  EXPECT_TRUE(third->learn({name(1)}));
  EXPECT_TRUE(third->find(name(1)).size() == 1 && *third->find(name(1))[0] == turn(10));
  first_.remember(name(1), turn(11));
  worker_.run_all();
  EXPECT_TRUE(second_.learn({name(1)}));
  EXPECT_EQ(replies(second_, 1), (std::vector<int>{11, 10}));
}

TEST_F(SharedTurnsTest, ForeignTurnsLeaveARecordWhenItIsMerged) {
  const auto foreign = static_cast<TokenId>(kVocabulary);
  ASSERT_TRUE(first_store_->offer_record(
      name(1), format::encode_shared_turns({{name(1), {foreign}, {}}, {name(1), turn(10).ids, turn(10).call_ids}})));
  ASSERT_TRUE(first_store_->offer_record(name(2), format::encode_sampled_turn({name(3), {1}, {}})));
  worker_.run_all();
  const auto third = open(*first_store_);
  EXPECT_TRUE(third->learn({name(1)}));
  EXPECT_EQ(replies(*third, 1), (std::vector<int>{10})) << "the others of the record are known";
  for (int place = 1; place <= 2; ++place) first_.remember(name(place), turn(11));
  worker_.run_all();
  std::vector<PrefixHash> places{name(1), name(2)};
  const auto records = second_store_->records(places, clock_.monotonic_ns() + 1'000'000'000);
  const auto merged = format::decode_shared_turns(*records[0]);
  ASSERT_TRUE(merged.ok());
  ASSERT_EQ(merged->size(), 2U);
  EXPECT_EQ(merged->front().ids, turn(10).ids);
  EXPECT_EQ(*records[1], format::encode_sampled_turn({name(2), turn(11).ids, turn(11).call_ids}));
}

// A record that could not be read must not be written over.
TEST_F(SharedTurnsTest, AnEngineInTroubleKeepsItsReplies) {
  first_.remember(name(1), turn(10));
  worker_.run_all();
  for (auto& node : engine_.nodes) node = share::FrailWorld::Node::kHung;
  second_.remember(name(1), turn(11));
  worker_.run_all();
  for (auto& node : engine_.nodes) node = share::FrailWorld::Node::kWell;
  for (int second = 0; second < 10; ++second) {
    clock_.advance_ms(1'000);
    second_store_->tick();
    worker_.run_all();
  }
  const auto third = open(*first_store_);
  EXPECT_TRUE(third->learn({name(1)}));
  EXPECT_EQ(replies(*third, 1), (std::vector<int>{11, 10}));
}

// It would take the new reply at once, as it would if it had no record.
TEST_F(SharedTurnsTest, AnEngineThatReadsLateKeepsItsReplies) {
  first_.remember(name(1), turn(10));
  worker_.run_all();
  engine_.names_in_time = 0;
  second_.remember(name(1), turn(11));
  worker_.run_all();
  engine_.names_in_time = SIZE_MAX;
  for (int second = 0; second < 10; ++second) {
    clock_.advance_ms(1'000);
    second_store_->tick();
    worker_.run_all();
  }
  const auto third = open(*first_store_);
  EXPECT_TRUE(third->learn({name(1)}));
  EXPECT_EQ(replies(*third, 1), (std::vector<int>{11, 10}));
}

TEST_F(SharedTurnsTest, DamagedRecordsAreReplaced) {
  first_.remember(name(1), turn(1));
  worker_.run_all();
  std::mt19937_64 random(1);
  for (auto& [id, object] : engine_.objects) share::FrailWorld::flip(object.head, random);
  second_.remember(name(1), turn(2));
  worker_.run_all();
  const auto third = open(*first_store_);
  EXPECT_TRUE(third->learn({name(1)}));
  EXPECT_EQ(replies(*third, 1), (std::vector<int>{2}));
}

TEST_F(SharedTurnsTest, DamagedRecordsAreAMiss) {
  first_.remember(name(1), turn(1));
  worker_.run_all();
  std::mt19937_64 random(1);
  for (auto& [id, object] : engine_.objects) share::FrailWorld::flip(object.head, random);
  EXPECT_FALSE(second_.learn({name(1)}));
  EXPECT_TRUE(second_.find(name(1)).empty());
}

}  // namespace
}  // namespace kvkeep::server
