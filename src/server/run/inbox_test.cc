// The inbox without a scheduler: which requests it accepts, and in which order it hands them over.

#include "server/run/inbox.h"

#include <gtest/gtest.h>

#include "policy/next_call.h"
#include "server/run/queue_room.h"
#include "server/run/request.h"
#include "server/run/scheduler_stats.h"

namespace kvkeep::server {
namespace {

constexpr std::chrono::milliseconds kNoWait{0};

std::vector<std::unique_ptr<Request>> request(const std::string& id, bool ahead = false) {
  std::vector<std::unique_ptr<Request>> made;
  made.push_back(std::make_unique<Request>());
  made.front()->job.id = id;
  made.front()->job.ahead = ahead;
  return made;
}

TEST(Inbox, HandsOverInOrderAndCounts) {
  Inbox inbox({.queue = 10});
  EXPECT_TRUE(inbox.idle());
  ASSERT_TRUE(inbox.submit(request("a")).ok());
  ASSERT_TRUE(inbox.submit(request("b")).ok());
  EXPECT_EQ(inbox.stats(0).waiting, 2U);
  const Inbox::Arrived arrived = inbox.collect(kNoWait);
  ASSERT_EQ(arrived.requests.size(), 2U);
  EXPECT_EQ(arrived.requests[0]->job.id, "a");
  EXPECT_EQ(inbox.stats(0).waiting, 2U) << "collected, but not started";
  ASSERT_TRUE(inbox.submit(request("c")).ok());
  inbox.note_now({.running = 1, .waiting = 1});
  EXPECT_EQ(inbox.stats(0).running, 1U);
  EXPECT_EQ(inbox.stats(0).waiting, 2U);
  EXPECT_TRUE(inbox.collect(kNoWait).any());
  inbox.note_ended({});
  EXPECT_FALSE(inbox.collect(kNoWait).any());
  inbox.note_ended({});
  EXPECT_FALSE(inbox.idle());
  inbox.note_ended({});
  EXPECT_TRUE(inbox.idle());
}

TEST(Inbox, RefusesMoreThanMayBeOpen) {
  Inbox inbox({.queue = 2});
  ASSERT_TRUE(inbox.submit(request("a")).ok());
  ASSERT_TRUE(inbox.submit(request("b")).ok());
  EXPECT_EQ(inbox.submit(request("c")).error().kind, ErrorKind::kBusy);
  (void)inbox.collect(kNoWait);
  inbox.note_now({.running = 1, .waiting = 1});
  EXPECT_FALSE(inbox.submit(request("d")).ok()) << "one runs and one waits";
  inbox.note_ended({});
  EXPECT_TRUE(inbox.submit(request("e")).ok());
}

TEST(Inbox, RefusesForEverWhatNeverFits) {
  Inbox inbox({.queue = 2});
  auto three = request("a");
  three.front()->branches.push_back(std::make_unique<Request>());
  three.front()->branches.push_back(std::make_unique<Request>());
  EXPECT_EQ(inbox.submit(std::move(three)).error().kind, ErrorKind::kInvalid) << "trying again would not help";
}

TEST(Inbox, AKeyHasALimitOfItsOwn) {
  const auto of_key = [](std::uint64_t key) {
    auto made = request("a");
    made.front()->job.key = made.front()->job.owner = key;
    return made;
  };
  Inbox inbox({.queue = 20, .of_key = 2});
  ASSERT_TRUE(inbox.submit(of_key(7)).ok());
  ASSERT_TRUE(inbox.submit(of_key(7)).ok());
  EXPECT_EQ(inbox.submit(of_key(7)).error().kind, ErrorKind::kBusy);
  EXPECT_TRUE(inbox.submit(of_key(8)).ok()) << "another key has its own";
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(inbox.submit(request("nobody's")).ok());
  inbox.note_ended({.owner = 8});
  EXPECT_FALSE(inbox.submit(of_key(7)).ok());
  inbox.note_ended({.owner = 7});
  EXPECT_TRUE(inbox.submit(of_key(7)).ok());
  auto three = of_key(9);
  for (int i = 0; i < 2; ++i) three.front()->branches.push_back(std::make_unique<Request>());
  EXPECT_EQ(inbox.submit(std::move(three)).error().kind, ErrorKind::kInvalid) << "trying again would not help";
}

TEST(Inbox, CountsTheWaitsOfThoseThatEnded) {
  Inbox inbox({.queue = 10});
  ASSERT_TRUE(inbox.submit(request("a")).ok());
  Inbox::Ended ended{.how = Finish::kLength};
  ended.stats.waits.begin(WaitCause::kDisk, 0);
  ended.stats.waits.end(12'000'000);
  inbox.note_ended(ended);
  EXPECT_EQ(inbox.stats(0).waited[WaitCause::kDisk], 12);
  EXPECT_EQ(inbox.stats(0).figures.ends[static_cast<std::size_t>(Finish::kLength)], 1U);
}

TEST(Inbox, OneOwnerLeavesRoomInTheQueueToOthers) {
  const auto of_owner = [](std::uint64_t owner, std::size_t replies = 1) {
    auto made = request("a");
    made.front()->job.owner = owner;
    for (std::size_t i = 1; i < replies; ++i) made.front()->branches.push_back(std::make_unique<Request>());
    return made;
  };
  const auto fill = [&](Inbox& inbox, std::uint64_t owner) {
    std::size_t taken = 0;
    while (inbox.submit(of_owner(owner)).ok()) ++taken;
    return taken;
  };
  const QueueLimits limits{.places = 4, .queue = 60};
  Inbox inbox(limits);
  EXPECT_EQ(fill(inbox, 7), 4U + 56U) << "alone, all but a sixteenth";
  EXPECT_NE(inbox.submit(of_owner(7)).error().message.find("of one client"), std::string::npos);
  EXPECT_EQ(fill(inbox, 8), 4U) << "until all is full";
  EXPECT_EQ(inbox.submit(of_owner(8)).error().kind, ErrorKind::kBusy);
  for (int i = 0; i < 10; ++i) inbox.note_ended({.owner = 7});
  EXPECT_FALSE(inbox.submit(of_owner(7)).ok()) << "it still has more than its part";
  EXPECT_EQ(fill(inbox, 8), 10U);
  for (int i = 0; i < 30; ++i) inbox.note_ended({.owner = 7});
  EXPECT_EQ(fill(inbox, 8), 4U + 28U - 14U) << "half, next to another one";
  EXPECT_EQ(fill(inbox, 9), 12U) << "until all is full";
  for (int i = 0; i < 20; ++i) inbox.note_ended({.owner = 7});
  for (int i = 0; i < 32; ++i) inbox.note_ended({.owner = 8});
  EXPECT_EQ(fill(inbox, 9), 60U - 12U) << "the others are gone";
  for (int i = 0; i < 60; ++i) inbox.note_ended({.owner = 9});
  EXPECT_TRUE(inbox.idle());
  EXPECT_TRUE(inbox.submit(of_owner(7, 60)).ok()) << "one request with many replies could never be cut to its part";
  EXPECT_TRUE(inbox.submit(of_owner(8)).ok());
}

std::vector<std::unique_ptr<Request>> long_request(std::size_t tokens, std::uint64_t owner = policy::kNoKey) {
  auto made = request("a");
  made.front()->stats.sent_tokens = tokens;
  made.front()->job.owner = owner;
  return made;
}

Inbox::Ended ended_prompt(std::size_t tokens, std::uint64_t owner = policy::kNoKey) {
  Inbox::Ended ended{.owner = owner};
  ended.stats.sent_tokens = tokens;
  return ended;
}

TEST(Inbox, RefusesMoreTokensThanMayWait) {
  Inbox inbox({.places = 1, .queue = 100, .tokens = 1'000});
  ASSERT_TRUE(inbox.submit(long_request(600)).ok());
  ASSERT_TRUE(inbox.submit(long_request(400)).ok());
  EXPECT_EQ(inbox.stats(0).open_tokens, 1'000U);
  const Status refused = inbox.submit(long_request(1));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::kBusy);
  EXPECT_NE(refused.error().message.find("1000 tokens"), std::string::npos) << refused.error().message;
  (void)inbox.collect(kNoWait);
  inbox.note_now({.running = 1, .waiting = 1});
  EXPECT_FALSE(inbox.submit(long_request(1)).ok()) << "prompts of those that run lie in memory as well";
  inbox.note_ended(ended_prompt(600));
  EXPECT_TRUE(inbox.submit(long_request(600)).ok());
  inbox.note_ended(ended_prompt(400));
  inbox.note_ended(ended_prompt(600));
  EXPECT_EQ(inbox.stats(0).open_tokens, 0U);
}

// Else a server with a low bound would never serve it.
TEST(Inbox, TakesAPromptOfAnyLengthIfNoneWaits) {
  Inbox inbox({.places = 1, .queue = 100, .tokens = 1'000});
  ASSERT_TRUE(inbox.submit(long_request(5'000, 7)).ok());
  EXPECT_FALSE(inbox.submit(long_request(5'000, 7)).ok());
  (void)inbox.collect(kNoWait);
  inbox.note_now({.running = 1});
  EXPECT_TRUE(inbox.submit(long_request(5'000, 7)).ok()) << "the other one runs, and this client may have more";
  EXPECT_FALSE(inbox.submit(long_request(1, 8)).ok());
}

// The pace is that of replies which had a place.
TEST(Inbox, TellsWhenThoseThatWaitWillHaveBeenServed) {
  constexpr std::int64_t kSecond = 1'000'000'000;
  Inbox inbox({.queue = 100});
  const auto come = [&](std::int64_t now_ns) {
    auto made = request("a");
    made.front()->submitted_ns = now_ns;
    ASSERT_TRUE(inbox.submit(std::move(made)).ok());
  };
  for (int i = 0; i < 10; ++i) come(100 * kSecond);
  EXPECT_EQ(inbox.stats(100 * kSecond).retry_after_s, 1);
  (void)inbox.collect(kNoWait);
  inbox.note_ended({.now_ns = 101 * kSecond});
  inbox.note_now({.waiting = 8});
  EXPECT_EQ(inbox.stats(102 * kSecond).retry_after_s, 16) << "one left the queue, none was served in two seconds";
  Inbox::Ended ended{.now_ns = 102 * kSecond};
  ended.stats.place = 0;
  inbox.note_ended(ended);
  inbox.note_ended(ended);
  inbox.note_now({.waiting = 7});
  EXPECT_EQ(inbox.stats(102 * kSecond).retry_after_s, 7);
  for (int i = 0; i < 7; ++i) inbox.note_ended({.now_ns = 102 * kSecond});
  EXPECT_TRUE(inbox.idle());
  inbox.note_now({});
  for (int i = 0; i < 7; ++i) come(9'000 * kSecond);
  EXPECT_EQ(inbox.stats(9'000 * kSecond).retry_after_s, 7) << "nobody asked for hours";
}

TEST(Inbox, APrefillAheadTakesNobodysPlace) {
  Inbox inbox({.queue = 1});
  ASSERT_TRUE(inbox.submit(request("ahead", true)).ok());
  EXPECT_TRUE(inbox.submit(request("a")).ok());
  inbox.note_ended({.ahead = true});
  EXPECT_EQ(inbox.submit(request("b")).error().kind, ErrorKind::kBusy);
  inbox.note_ended({});
  EXPECT_TRUE(inbox.idle());
}

TEST(Inbox, TakesNothingMoreOnceItIsClosed) {
  Inbox inbox({.queue = 2});
  ASSERT_TRUE(inbox.submit(request("a")).ok());
  EXPECT_FALSE(inbox.stats(0).closed);
  inbox.close();
  EXPECT_TRUE(inbox.stats(0).closed);
  EXPECT_EQ(inbox.submit(request("b")).error().kind, ErrorKind::kBusy);
  EXPECT_FALSE(inbox.stopping());
  EXPECT_EQ(inbox.collect(kNoWait).requests.size(), 1U) << "those that were taken go on";
}

TEST(Inbox, TakesAllOrNoneAndCountsEachReply) {
  Inbox inbox({.queue = 4});
  auto many = request("a");
  many.push_back(std::move(request("b").front()));
  many.front()->branches.push_back(std::make_unique<Request>());
  many.front()->branches.push_back(std::make_unique<Request>());
  ASSERT_TRUE(inbox.submit(std::move(many)).ok());
  EXPECT_EQ(inbox.stats(0).waiting, 4U);
  EXPECT_EQ(inbox.stats(0).waiting_for[WaitCause::kPlace], 4U);
  EXPECT_EQ(inbox.stats(0).requests, 2U);
  EXPECT_EQ(inbox.submit(request("c")).error().kind, ErrorKind::kBusy);
  inbox.note_now({});
  EXPECT_EQ(inbox.stats(0).waiting, 4U);
  EXPECT_EQ(inbox.stats(0).waiting_for[WaitCause::kPlace], 4U) << "they were not collected";
  Inbox::Arrived arrived = inbox.collect(kNoWait);
  EXPECT_EQ(arrived.requests.size(), 2U);
  std::vector<std::unique_ptr<Request>> waiting;
  for (auto& one : arrived.requests) waiting.push_back(std::move(one));
  inbox.note_now({.waiting = waiting.size() + branches_of(waiting)});
  EXPECT_EQ(inbox.stats(0).waiting, 4U);
  for (int i = 0; i < 4; ++i) {
    EXPECT_FALSE(inbox.idle());
    inbox.note_ended({});
  }
  EXPECT_TRUE(inbox.idle());
}

TEST(Inbox, TakesWhatIsForLaterOnlyIfNothingElseIsThere) {
  Inbox inbox({.queue = 10});
  ASSERT_TRUE(inbox.submit(request("later", true)).ok());
  EXPECT_FALSE(inbox.submit(request("later still", true)).ok());
}

TEST(Inbox, AfterAStopTakesNothingAndWaitsForNothing) {
  Inbox inbox({.queue = 10});
  inbox.stop();
  EXPECT_FALSE(inbox.submit(request("a")).ok());
  EXPECT_FALSE(inbox.ask([](const Error*) {}).ok());
  EXPECT_FALSE(inbox.collect(std::chrono::hours(1)).any());
}

TEST(Inbox, QuestionsAreTakenAFewAtATime) {
  Inbox inbox({.queue = 10});
  std::size_t asked = 0;
  std::size_t called = 0;
  while (inbox.ask([&called, asked](const Error*) { called = asked; }).ok()) ++asked;
  EXPECT_EQ(asked, 64U);
  inbox.take_questions(4).back()(nullptr);
  EXPECT_EQ(called, 3U);
  EXPECT_EQ(inbox.take_questions(SIZE_MAX).size(), 60U);
}

TEST(Inbox, ReadsThatAreDoneAreNotWaitedFor) {
  Inbox inbox({.queue = 10});
  inbox.deliver({nullptr, {}});
  inbox.await_loaded(std::chrono::hours(1));
  EXPECT_EQ(inbox.collect(std::chrono::hours(1)).loaded.size(), 1U);
}

}  // namespace
}  // namespace kvkeep::server
