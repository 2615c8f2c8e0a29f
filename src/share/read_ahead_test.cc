// Reading ahead: the same answers as without it, never twice, never more than fits, and none that is out of date.

#include "share/read_ahead.h"

#include <gtest/gtest.h>

#include <chrono>
#include <future>

#include "os/threads.h"
#include "share/shared_world_fixture.h"

namespace kvkeep::share {
namespace {

class ReadAheadTest : public SharedStoreTest {
 protected:
  // Five segments of the prompt, as a server found them.
  ReadAheadTest() {
    ShareServer(world_).publish(prompt_, every(20, 100));
    const auto path = reader_.find(prompt_, every(20, 100));
    EXPECT_TRUE(path.has_value());
    for (const format::SharedHead& head : path->rows) reads_.push_back({head.segment, 1'000});
    EXPECT_EQ(reads_.size(), 5u);
  }
  ~ReadAheadTest() override {
    for (sim::SimExecutor& helper : helpers_) helper.forget_all();
  }
  ReadAhead make(ByteCount most = mebibytes(1)) {
    return {reader_.store(), clock_, {&helpers_[0], &helpers_[1]}, most};
  }
  void run_helpers() {
    while (helpers_[0].run_one() || helpers_[1].run_one()) {}
  }
  ByteCount bytes_of(std::size_t first, std::size_t count) const {
    ByteCount bytes;
    for (std::size_t i = first; i < first + count; ++i) bytes += ByteCount{format::payload_bytes(reads_[i].segment)};
    return bytes;
  }
  static bool is_right(const PatientRead& read, const ReadAhead::Payload& payload) {
    return payload.ok() && std::ranges::equal((*payload)->bytes(), right_bytes(read.segment.name));
  }

  const Tokens prompt_ = share_prompt(1, 100);
  ShareServer reader_{world_};
  std::vector<PatientRead> reads_;
  std::array<sim::SimExecutor, 2> helpers_;
};

TEST_F(ReadAheadTest, PayloadsComeBeforeTheyAreAskedForAndOnce) {
  ReadAhead ahead = make();
  ahead.expect(reads_);
  run_helpers();
  EXPECT_EQ(world_.gets, 5u);
  EXPECT_EQ(ahead.held(), bytes_of(0, 5));
  for (const PatientRead& read : reads_) EXPECT_TRUE(is_right(read, ahead.get(read)));
  EXPECT_EQ(world_.gets, 5u);
  EXPECT_EQ(ahead.held(), ByteCount{});
  EXPECT_TRUE(is_right(reads_[0], ahead.get(reads_[0]))) << "nothing was expected";
  EXPECT_EQ(world_.gets, 6u);
}

TEST_F(ReadAheadTest, ThatWhichWasNotBegunIsReadByWhoAsks) {
  ReadAhead ahead = make();
  ahead.expect(reads_);
  EXPECT_TRUE(is_right(reads_[0], ahead.get(reads_[0])));
  EXPECT_EQ(world_.gets, 1u);
  run_helpers();
  EXPECT_EQ(world_.gets, 5u) << "not the first one again";
}

TEST_F(ReadAheadTest, WithoutHelpersNothingIsReadAhead) {
  ReadAhead ahead(reader_.store(), clock_, {}, mebibytes(1));
  ahead.expect(reads_);
  for (const PatientRead& read : reads_) EXPECT_TRUE(is_right(read, ahead.get(read)));
  EXPECT_EQ(world_.gets, 5u);
}

TEST_F(ReadAheadTest, HoldsNoMoreThanItMay) {
  ReadAhead ahead = make(bytes_of(0, 2));
  ahead.expect(reads_);
  run_helpers();
  EXPECT_EQ(ahead.held(), bytes_of(0, 2));
  EXPECT_TRUE(is_right(reads_[0], ahead.get(reads_[0])));
  run_helpers();
  EXPECT_LE(ahead.held(), bytes_of(0, 2));
  for (std::size_t i = 1; i < reads_.size(); ++i) {
    EXPECT_TRUE(is_right(reads_[i], ahead.get(reads_[i])));
    run_helpers();
    EXPECT_LE(ahead.held(), bytes_of(0, 2));
  }
  EXPECT_EQ(world_.gets, 5u);
}

TEST_F(ReadAheadTest, AReadOfMoreThanFitsBeginsByItself) {
  ReadAhead ahead = make(ByteCount{1});
  ahead.expect(reads_);
  run_helpers();
  EXPECT_EQ(world_.gets, 1u);
  EXPECT_TRUE(is_right(reads_[0], ahead.get(reads_[0])));
  run_helpers();
  EXPECT_EQ(world_.gets, 2u);
}

TEST_F(ReadAheadTest, OthersThatAreExpectedTakeTheRoomOfThoseThatAreNotAnyMore) {
  ReadAhead ahead = make(bytes_of(0, 5));
  ahead.expect({reads_[0], reads_[1], reads_[2]});
  run_helpers();
  ahead.expect({reads_[3]});
  run_helpers();
  EXPECT_EQ(world_.gets, 4u);
  EXPECT_EQ(ahead.held(), bytes_of(0, 4)) << "there was room";
  ahead.expect({reads_[0], reads_[4]});
  run_helpers();
  EXPECT_EQ(world_.gets, 5u) << "the first one is there";
  ahead.expect({});
  EXPECT_EQ(ahead.held(), ByteCount{});

  ReadAhead small = make(bytes_of(0, 1) + bytes_of(3, 1));
  small.expect({reads_[0]});
  run_helpers();
  small.expect({reads_[3], reads_[4]});
  run_helpers();
  EXPECT_LE(small.held(), bytes_of(0, 1) + bytes_of(3, 1));
  EXPECT_TRUE(is_right(reads_[3], small.get(reads_[3])));
}

TEST_F(ReadAheadTest, DamageIsFoundAsWithoutIt) {
  auto& pieces = world_.objects.at(reader_.name_of(reads_[1].segment)).pieces;
  pieces.front().front() ^= std::byte{1};
  ReadAhead ahead = make();
  ahead.expect(reads_);
  run_helpers();
  EXPECT_TRUE(is_right(reads_[0], ahead.get(reads_[0])));
  const auto damaged = ahead.get(reads_[1]);
  ASSERT_FALSE(damaged.ok());
  EXPECT_EQ(damaged.error().kind, ErrorKind::kDamaged);
  EXPECT_EQ(reader_.store().counters().damaged, 1u);
}

TEST_F(ReadAheadTest, AReadThatFailedIsTriedAgainIfItIsExpectedAgain) {
  ReadAhead ahead = make();
  const FrailObject whole = world_.objects.at(reader_.name_of(reads_[0].segment));
  world_.objects.at(reader_.name_of(reads_[0].segment)).pieces.clear();
  ahead.expect({reads_[0]});
  run_helpers();
  EXPECT_EQ(world_.gets, 1u);
  world_.objects.at(reader_.name_of(reads_[0].segment)) = whole;
  ahead.expect({reads_[0]});
  EXPECT_TRUE(is_right(reads_[0], ahead.get(reads_[0])));
}

// Three share the network: each may take three times as long.
TEST_F(ReadAheadTest, PatienceGrowsWithTheReadsThatGoOnAtOnce) {
  for (PatientRead& read : reads_) read.patience_ms = 1;
  world_.answer_ms = 2.5;
  ReadAhead ahead = make();
  EXPECT_FALSE(ahead.get(reads_[0]).ok()) << "by itself";
  clock_.advance_ms(1000);
  reader_.store().tick();
  reader_.run_all();
  ahead.expect(reads_);
  EXPECT_TRUE(is_right(reads_[1], ahead.get(reads_[1])));
}

// Requests that load the same prefix at once read it once.
TEST_F(ReadAheadTest, AReadOfAnotherCallerIsWaitedFor) {
  const auto thread = os::make_thread_executor("test");
  ReadAhead ahead(reader_.store(), clock_, {}, mebibytes(1));
  std::promise<void> begun;
  world_.before_call = [&, first = true]() mutable {
    if (!std::exchange(first, false)) return;
    begun.set_value();
    os::pause(std::chrono::milliseconds(30));
  };
  thread->post([&] { EXPECT_TRUE(is_right(reads_[0], ahead.get(reads_[0]))); });
  begun.get_future().wait();
  EXPECT_TRUE(is_right(reads_[0], ahead.get(reads_[0])));
  thread->drain();
  EXPECT_EQ(world_.gets, 1u);
  EXPECT_TRUE(is_right(reads_[0], ahead.get(reads_[0])));
  EXPECT_EQ(world_.gets, 2u) << "it is not kept";
}

TEST_F(ReadAheadTest, NoReadTakesLongerThanItsLoadMay) {
  ReadAhead ahead = make();
  world_.answer_ms = 4;
  EXPECT_FALSE(ahead.get(reads_[0], 1).ok());
}

TEST_F(ReadAheadTest, AReadThatIsUnderWayIsWaitedFor) {
  const auto thread = os::make_thread_executor("test");
  ReadAhead ahead(reader_.store(), clock_, {thread.get()}, mebibytes(1));
  std::promise<void> begun;
  world_.before_call = [&, first = true]() mutable {
    if (!std::exchange(first, false)) return;
    begun.set_value();
    os::pause(std::chrono::milliseconds(30));
  };
  ahead.expect({reads_[0]});
  begun.get_future().wait();
  EXPECT_TRUE(is_right(reads_[0], ahead.get(reads_[0])));
  EXPECT_EQ(world_.gets, 1u);
  thread->drain();
}

}  // namespace
}  // namespace kvkeep::share
