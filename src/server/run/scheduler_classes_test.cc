// Models that need more than rows, from the first prompt to the last: whatever is restored, the text is what an
// undisturbed engine writes, and computed state is not computed again where a point or window is kept.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/run/class_talk_fixture.h"
#include "testing/sim/temporary_directory.h"

namespace kvkeep::server {
namespace {

class Classes : public testing::TestWithParam<MemoryClass> {
 protected:
  WorldOptions options() const { return class_world(GetParam()); }
  // Returns a text of `count` tokens that occurs nowhere else.
  Tokens text(std::size_t count) {
    Tokens tokens(count);
    for (TokenId& token : tokens) token = static_cast<TokenId>(10 + random_() % 900);
    return tokens;
  }
  std::mt19937 random_{seed()};
};

TEST_P(Classes, AGrowingConversationPrefillsOnlyWhatIsNew) {
  World world(options());
  world.start();
  ClassTalk talk;
  talk.tokens = text(200);
  std::size_t known = 0;
  for (int turn = 0; turn < 6; ++turn) {
    talk.user(text(30));
    const Reply reply = ask(world, talk);
    EXPECT_EQ(reply.stats.cached_tokens, known) << "turn " << turn;
    known = decoded(reply);
    talk.assistant(reply.tokens);
  }
}

TEST_P(Classes, AnIdenticalResendPrefillsOnlyTheLastToken) {
  World world(options());
  world.start();
  ClassTalk talk;
  talk.tokens = text(150);
  talk.user(text(40));
  const Reply first = ask(world, talk);
  const Reply again = ask(world, talk);
  EXPECT_EQ(again.stats.cached_tokens + 1, again.stats.prompt_tokens);
  EXPECT_EQ(again.stats.prefilled_tokens, 1U);
}

TEST_P(Classes, SessionsThatShareASystemPromptShareItsState) {
  World world(options());
  world.start();
  const Tokens system = text(300);
  for (int session = 0; session < 12; ++session) {
    ClassTalk talk;
    talk.tokens = system;
    talk.user(text(20));
    const Reply reply = ask(world, talk);
    if (session > 0) {
      EXPECT_GE(reply.stats.cached_tokens, system.size()) << "session " << session;
    }
  }
}

TEST_P(Classes, GoingBackToAnAbandonedBranchFindsItsState) {
  World world(options());
  world.start();
  ClassTalk trunk;
  trunk.tokens = text(120);
  trunk.user(text(30));
  trunk.assistant(ask(world, trunk).tokens);
  ClassTalk left = trunk;
  ClassTalk right = trunk;
  left.user(text(35));
  right.user(text(45));
  std::size_t left_known = decoded(ask(world, left));
  std::size_t right_known = decoded(ask(world, right));
  for (int round = 0; round < 4; ++round) {
    // The sampled reply is not echoed: each branch continues its prompt.
    ClassTalk& branch = round % 2 == 0 ? left : right;
    std::size_t& known = round % 2 == 0 ? left_known : right_known;
    const std::size_t prompt = branch.tokens.size();
    branch.assistant(text(10));
    branch.user(text(15));
    const Reply reply = ask(world, branch);
    EXPECT_GE(reply.stats.cached_tokens, prompt) << "round " << round << " of " << known;
    known = decoded(reply);
  }
}

TEST_P(Classes, ARestartFindsOnDiskWhatWasComputed) {
  const sim::TemporaryDirectory directory;
  ClassTalk talk;
  talk.tokens = text(200);
  std::size_t known = 0;
  for (int turn = 0; turn < 4; ++turn) {
    WorldOptions with_disk = options();
    with_disk.disk_directory = directory.path();
    World world(with_disk);
    world.start();
    talk.user(text(30));
    const Reply reply = ask(world, talk);
    EXPECT_EQ(reply.stats.cached_tokens, known) << "turn " << turn;
    if (turn > 0) {
      EXPECT_EQ(reply.stats.source, CacheSource::kDiskToken);
    }
    known = decoded(reply);
    talk.assistant(reply.tokens);
    world.stop();
    world.cache.flush();
  }
}

// The rows are in memory, but the point at the branch is on disk: tokens and point are reported separately.
TEST_P(Classes, ABranchAfterARestartTellsWhereItsRowsAndItsPointCameFrom) {
  const sim::TemporaryDirectory directory;
  WorldOptions with_disk = options();
  with_disk.disk_directory = directory.path();
  ClassTalk talk;
  talk.tokens = text(200);
  ClassTalk early;
  {
    World world(with_disk);
    world.start();
    for (int turn = 0; turn < 4; ++turn) {
      talk.user(text(60));
      if (turn == 1) early = talk;
      talk.assistant(ask(world, talk).tokens);
    }
    world.stop();
    world.cache.flush();
  }
  World world(with_disk);
  world.start();
  talk.user(text(30));
  EXPECT_EQ(ask(world, talk).stats.source, CacheSource::kDiskToken);
  early.assistant(text(20));
  early.user(text(20));
  const JobStats branch = ask(world, early).stats;
  EXPECT_GT(branch.cached_tokens, 300U);
  const MemoryClass memory_class = GetParam();
  EXPECT_EQ(branch.point, memory_class == MemoryClass::kSliceable ? CachePoint::kNone : CachePoint::kDisk);
  const bool has_rows = memory_class != MemoryClass::kRecurrent && memory_class != MemoryClass::kOpaque;
  EXPECT_EQ(branch.source, has_rows ? CacheSource::kMemoryToken : CacheSource::kDiskToken);
  EXPECT_EQ(has_rows ? branch.memory_tokens : branch.disk_tokens, branch.cached_tokens);
}

class ClassesWithPoints : public Classes {};

// The limit works as in llama-server.
TEST_P(ClassesWithPoints, ALimitOfPointsHoldsOnEachPath) {
  WorldOptions limited = options();
  limited.scheduler.cuts.most_points = 3;
  World world(limited);
  world.start();
  ClassTalk talk;
  talk.tokens = text(100);
  for (int turn = 0; turn < 16; ++turn) {
    talk.user(text(60));
    talk.assistant(ask(world, talk).tokens);
    // Whole states that kept ones are built on stay, however few the limit allows.
    const std::size_t built_on = GetParam() == MemoryClass::kOpaque ? cache::kMaxBuiltStates : 0;
    EXPECT_LE(world.cache.stats().points, 4U + built_on) << "the limit, and the end of the last reply";
  }
  world.stop();
}

// Without a point the end of the conversation could not be restored.
TEST_P(ClassesWithPoints, ASequenceWithoutAPointAtItsEndStaysInMemory) {
  WorldOptions without = options();
  without.scheduler.cuts.most_points = 0;
  World world(without);
  world.start();
  std::vector<ClassTalk> talks(3);
  std::size_t known = 0;
  for (ClassTalk& talk : talks) {
    talk.tokens = text(400);
    const Reply reply = ask(world, talk);
    known = decoded(reply);
    talk.assistant(reply.tokens);
  }
  for (ClassTalk& talk : talks) {
    talk.user(text(10));
    EXPECT_EQ(ask(world, talk).stats.memory_tokens, known);
  }
}

TEST_P(ClassesWithPoints, PrefixesOnlyInTheModelsMemoryAreKnownToo) {
  WorldOptions without = options();
  without.ram = ByteCount{0};
  World world(without);
  world.start();
  ClassTalk talk;
  talk.tokens = text(200);
  ask(world, talk);
  talk.tokens.resize(150);
  talk.user(text(30));
  const Reply branch = ask(world, talk);
  EXPECT_EQ(branch.stats.cached_tokens, 0U);
  EXPECT_EQ(branch.stats.miss, MissReason::kNoPoint);
}

// Frontiers before a restored point are not caught up on after it.
TEST_P(ClassesWithPoints, ARestoredPointIsTheLastOneOfItsSequence) {
  WorldOptions frontiers = options();
  frontiers.fake.cells = 700;
  frontiers.scheduler.cuts.continued_interval_tokens = 64;
  frontiers.scheduler.cuts.boundary_align_tokens = 64;
  World world(frontiers);
  world.start();
  const Tokens prompt = text(110);
  (void)world.ask(prompt, 1);
  (void)world.ask(text(600), 1);  // pushes the first prompt out of the model's memory
  const Reply again = world.ask(prompt, 4);
  EXPECT_EQ(again.tokens, world.expected(prompt, 4));
  EXPECT_EQ(again.stats.cached_tokens, 109U);
  world.stop();
  std::vector<std::size_t> points;
  const auto lease = world.cache.lease(prompt + again.tokens);
  for (const cache::LeasedPoint& point : lease->points()) points.push_back(point.range.end.value());
  EXPECT_EQ(points, (std::vector<std::size_t>{64, 109, 110, 113}));
}

TEST_P(Classes, AnotherEndOfTheSameLengthIsKeptToo) {
  WorldOptions small = options();
  small.fake.cells = 700;
  World world(small);
  world.start();
  const Tokens prompt = text(100);
  Tokens other = prompt + world.ask(prompt, 7).tokens;
  other.back() = other.back() == 10 ? 11 : 10;
  (void)world.ask(prompt, 8);  // of the same length
  (void)world.ask(other, 1);
  (void)world.ask(text(600), 1);  // pushes the prompts out of the model's memory
  const Tokens longer = other + text(10);
  const Reply reply = world.ask(longer, 4);
  EXPECT_EQ(reply.tokens, world.expected(longer, 4));
  EXPECT_EQ(reply.stats.cached_tokens, other.size());
}

// Requests run side by side in a memory that is too small for all of them: state is set aside, restored and shared in
// every order.
TEST_P(Classes, ManySessionsInAMemoryTooSmallForThemGiveTheRightText) {
  WorldOptions small = options();
  small.fake.cells = 700;
  small.scheduler.parallel = 3;
  World world(small);
  world.start();
  std::vector<ClassTalk> talks(5);
  const Tokens system = text(100);
  for (ClassTalk& talk : talks) talk.tokens = system;
  for (int round = 0; round < 5; ++round) {
    std::vector<std::pair<Tokens, std::future<Reply>>> replies;
    for (ClassTalk& talk : talks) {
      talk.user(text(5 + random_() % 30));
      Job job = talk.job();
      Tokens expected = world.expected(job.prompt, kTalkTokens);
      auto sink = std::make_shared<CollectingSink>();
      replies.emplace_back(std::move(expected), sink->future());
      ASSERT_TRUE(world.scheduler.submit(std::move(job), sink).ok());
    }
    for (std::size_t i = 0; i < talks.size(); ++i) {
      const Reply reply = replies[i].second.get();
      ASSERT_EQ(reply.finish, Finish::kLength);
      ASSERT_EQ(reply.tokens, replies[i].first) << "round " << round << " session " << i;
      talks[i].assistant(reply.tokens);
    }
  }
}

TEST_P(Classes, APointThatTheModelRefusesIsPrefilledInstead) {
  World world(options());
  world.start();
  ClassTalk talk;
  talk.tokens = text(200);
  talk.user(text(30));
  ask(world, talk);
  ClassTalk other;
  other.tokens = text(220);
  other.user(text(30));
  ask(world, other);
  engine::fake::FakeFaults faults;
  faults.fail_point = 1;
  faults.fail_restore = 1;
  world.engine.set_faults(faults);
  ClassTalk branch;
  branch.tokens = talk.tokens;
  branch.tokens.resize(150);
  branch.user(text(30));
  ask(world, branch);
  ask(world, talk);
}

// ---- logits that are not finite

TEST_P(Classes, ARequestWithBadLogitsIsComputedOnceMoreAndOthersGoOn) {
  for (std::uint32_t nth = 1; nth <= 20; ++nth) {
    World world(options());
    world.start();
    const Tokens idle = text(100);
    world.ask(idle, 4);
    const Tokens first = text(300);
    const Tokens second = text(200);
    world.engine.set_faults({.bad_logits = nth});
    std::future<Reply> one = world.submit(first, 8);
    std::future<Reply> other = world.submit(second, 8);
    const Reply replies[] = {one.get(), other.get()};
    EXPECT_EQ(replies[0].tokens, world.expected(first, 8)) << nth;
    EXPECT_EQ(replies[1].tokens, world.expected(second, 8)) << nth;
    EXPECT_LE(replies[0].stats.failed_calls + replies[1].stats.failed_calls, 1U) << nth;
  }
}

TEST_P(Classes, NothingOfARequestWithBadLogitsIsKept) {
  World world(options());
  const auto fails_now = [&](auto) { world.engine.set_faults({.bad_logits = 1}); };
  world.engine.set_on_decode(fails_now);
  world.start();
  const Tokens prompt = text(300);
  const Reply failed = world.ask(prompt, 8);
  EXPECT_EQ(failed.finish, Finish::kError);
  ASSERT_TRUE(failed.error);
  EXPECT_THAT(failed.error->message, testing::HasSubstr("NaN or infinite"));
  EXPECT_EQ(failed.stats.failed_calls, 2U);
  EXPECT_TRUE(failed.tokens.empty());
  world.engine.set_on_decode({});
  world.engine.set_faults({});
  const Reply again = world.ask(prompt, 8);
  EXPECT_EQ(world.engine.wipes(), 2U);
  EXPECT_EQ(again.stats.cached_tokens, 0U);
  EXPECT_EQ(again.tokens, world.expected(prompt, 8));
}

// State that was stored before, by another request, may be what is wrong.
TEST_P(Classes, ARequestWithBadLogitsReusesNothingTheSecondTime) {
  World world(options());
  world.start();
  const Tokens shared = text(200);
  world.ask(shared + text(20), 4);
  world.ask(shared + text(30), 4);
  world.engine.set_faults({.bad_logits = 1});
  const Tokens prompt = shared + text(40);
  const Reply reply = world.ask(prompt, 8);
  EXPECT_EQ(reply.tokens, world.expected(prompt, 8));
  EXPECT_EQ(reply.stats.failed_calls, 1U);
  EXPECT_GE(reply.stats.prefilled_tokens, prompt.size());
}

INSTANTIATE_TEST_SUITE_P(All, Classes,
                         testing::Values(MemoryClass::kSliceable, MemoryClass::kWindowed, MemoryClass::kHybrid,
                                         MemoryClass::kRecurrent, MemoryClass::kOpaque),
                         class_name);
INSTANTIATE_TEST_SUITE_P(All, ClassesWithPoints,
                         testing::Values(MemoryClass::kHybrid, MemoryClass::kRecurrent, MemoryClass::kOpaque),
                         class_name);

}  // namespace
}  // namespace kvkeep::server
