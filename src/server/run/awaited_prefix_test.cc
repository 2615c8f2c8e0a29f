// Requests that wait for a prefix which another one computes, without a scheduler.

#include "server/run/awaited_prefix.h"

#include "server/run/parts_fixture.h"
#include "server/run/scheduler_test_fixture.h"

namespace kvkeep::server {
namespace {

class AwaitedPrefixTest : public PartsTest {
 protected:
  static std::unique_ptr<Request> request_of(std::vector<TokenId> prompt, std::uint64_t number) {
    Job job{.id = "test", .kind = "test", .prompt = std::move(prompt), .sampling = {}};
    auto request = make_request({.job = std::move(job), .replies = {std::make_shared<CollectingSink>()}});
    request->number = number;
    return request;
  }
  // A request that has computed `held` tokens of its prompt.
  void add_prefilling(std::vector<TokenId> prompt, std::size_t held) {
    active.push_back(request_of(prompt, active.size() + 1));
    active.back()->phase = Request::Phase::kPrefill;
    active.back()->seq = sequences.place({});
    prompt.resize(held);
    sequences.occupy(*active.back()->seq, {.id = "test", .cached = true}, {});
    sequences.begin_capture(*active.back()->seq);
    if (held > 0) decode(sequences, *active.back()->seq, prompt);
  }
  static policy::CachedPrefix reused(std::uint32_t from_memory, std::uint32_t to) {
    policy::CachedPrefix prefix;
    prefix.from_memory = Position{from_memory};
    prefix.to = Position{to};
    return prefix;
  }
  // One that could reuse `to` tokens now, and some of them without a restore.
  std::optional<Position> awaited_by(const Request& request, std::uint32_t to, std::uint32_t from_memory = 0) {
    const auto found = find_awaited(request, reused(from_memory, to), active, sequences);
    return found ? std::optional(found->until) : std::nullopt;
  }

  Sequences sequences = make_sequences();
  std::vector<std::unique_ptr<Request>> active;
};

TEST_F(AwaitedPrefixTest, AwaitsThePartThatIsNotThereYet) {
  add_prefilling(counting(100), 40);
  auto prompt = counting(80);
  prompt.push_back(1);
  prompt.push_back(2);
  const auto request = request_of(prompt, 9);
  EXPECT_EQ(awaited_by(*request, 0), Position{80});
  EXPECT_EQ(awaited_by(*request, 79), Position{80});
  EXPECT_EQ(awaited_by(*request, 80), std::nullopt) << "the cache has as much";
  EXPECT_EQ(awaited_by(*request_of(counting(40), 9), 0), std::nullopt) << "it is computed";
  EXPECT_EQ(awaited_by(*request_of(counting(100), 9), 0), Position{99}) << "the last token is computed in any case";
  EXPECT_EQ(awaited_by(*request_of(counting(80, 500), 9), 0), std::nullopt) << "nothing in common";
}

TEST_F(AwaitedPrefixTest, AwaitsTheLongestOfSeveral) {
  add_prefilling(counting(60), 0);
  add_prefilling(counting(90), 0);
  const auto request = request_of(counting(100), 9);
  const auto found = find_awaited(*request, {}, active, sequences);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->number, 2U);
  EXPECT_EQ(found->until, Position{90});
}

TEST_F(AwaitedPrefixTest, OnlyOfRequestsThatShareStateAndStillCompute) {
  add_prefilling(counting(100), 0);
  const auto request = request_of(counting(80), 9);
  ASSERT_TRUE(awaited_by(*request, 0).has_value());
  request->job.tenant = Tenant{.bytes = {7}};
  EXPECT_FALSE(awaited_by(*request, 0).has_value());
  request->job.tenant = kNoTenant;
  request->job.cache_prompt = false;
  EXPECT_FALSE(awaited_by(*request, 0).has_value());
  request->job.cache_prompt = true;
  request->awaited = kMostAwaited;
  EXPECT_FALSE(awaited_by(*request, 0).has_value()) << "it waited often enough";
  request->awaited = 0;
  active[0]->phase = Request::Phase::kDecode;
  EXPECT_FALSE(awaited_by(*request, 0).has_value());
  active[0]->phase = Request::Phase::kPrefill;
  active[0]->sink = nullptr;
  EXPECT_FALSE(awaited_by(*request, 0).has_value()) << "its client left";
}

TEST_F(AwaitedPrefixTest, GoesOnWhenThePrefixIsComputedAndNotBefore) {
  add_prefilling(counting(100), 40);
  RequestQueue queue;
  auto request = request_of(counting(80), 0);
  ASSERT_TRUE(await_prefix(*request, {}, active, sequences, os::real_clock()));
  EXPECT_EQ(request->awaited, 1U);
  queue.put_back(std::move(request));
  EXPECT_FALSE(release_awaiting(queue, active, sequences, 0));
  decode(sequences, *active[0]->seq, counting(78));
  EXPECT_FALSE(release_awaiting(queue, active, sequences, 0));
  decode(sequences, *active[0]->seq, counting(79));
  EXPECT_TRUE(release_awaiting(queue, active, sequences, 0));
  EXPECT_FALSE(queue.facts()[0].awaits);
}

TEST_F(AwaitedPrefixTest, GoesOnWhenNobodyComputesItAnyMore) {
  add_prefilling(counting(100), 40);
  add_prefilling(counting(50, 500), 0);
  ASSERT_TRUE(await_prefix(*active[1], {}, active, sequences, os::real_clock()) == false);
  active[1]->phase = Request::Phase::kWaiting;
  active[1]->awaits = AwaitedPrefix{.number = 1, .seq = *active[0]->seq, .until = Position{80}};
  RequestQueue queue;
  EXPECT_FALSE(release_awaiting(queue, active, sequences, 0));
  active[0]->number = 77;  // the one that computed it is gone
  EXPECT_TRUE(release_awaiting(queue, active, sequences, 0));
  EXPECT_FALSE(active[1]->awaits.has_value());
}

TEST_F(AwaitedPrefixTest, AnotherReplyToTheSamePromptIsNotTheOneThatComputes) {
  add_prefilling(counting(100), 100);  // it decodes
  active[0]->phase = Request::Phase::kDecode;
  add_prefilling(counting(100), 40);
  active[1]->number = active[0]->number;
  RequestQueue queue;
  auto request = request_of(counting(80), 9);
  ASSERT_TRUE(await_prefix(*request, {}, active, sequences, os::real_clock()));
  queue.put_back(std::move(request));
  EXPECT_FALSE(release_awaiting(queue, active, sequences, 0));
}

TEST_F(AwaitedPrefixTest, NoLookUpIsNeededWhereTheOneThatComputesKnewNothing) {
  add_prefilling(counting(100), 40);
  active[0]->known.end = Position{50};
  const auto waits = [&](std::size_t shared) {
    auto prompt = counting(shared);
    prompt.push_back(1);
    prompt.push_back(2);
    return await_unknown(*request_of(prompt, 9), active, sequences, os::real_clock());
  };
  EXPECT_TRUE(waits(80));
  EXPECT_TRUE(waits(51));
  EXPECT_FALSE(waits(50)) << "all of it was known: more may be known of the other prompt";
  EXPECT_FALSE(waits(40)) << "it is computed";
  active[0]->job.scored_prompt = 0;
  EXPECT_FALSE(waits(80)) << "the one that computes left the cache out";
  active[0]->job.scored_prompt.reset();
  active[0]->from_beginning = true;
  EXPECT_FALSE(waits(80)) << "so it did";
}

// A request that restores [0, 90) has the first 20 tokens in the model's memory.
class AwaitedRestoreTest : public AwaitedPrefixTest {
 protected:
  AwaitedRestoreTest() {
    add_prefilling(counting(100), 20);
    active[0]->phase = Request::Phase::kRestoring;
    active[0]->restore.begin(nullptr, Position{90}, false);
  }
  std::optional<Position> awaited_by_one_that_shares(std::size_t shared, std::uint32_t to, std::uint32_t from_memory) {
    auto prompt = counting(shared);
    prompt.push_back(1);
    return awaited_by(*request_of(prompt, 9), to, from_memory);
  }
};

TEST_F(AwaitedRestoreTest, RowsAreRestoredOnce) {
  EXPECT_EQ(awaited_by_one_that_shares(80, 80, 0), Position{80});
  active[0]->phase = Request::Phase::kLoading;
  EXPECT_EQ(awaited_by_one_that_shares(80, 80, 0), Position{80}) << "they are being read first";
  EXPECT_EQ(awaited_by_one_that_shares(95, 90, 0), Position{95}) << "the rest is computed then";
}

TEST_F(AwaitedRestoreTest, NobodyWaitsForLittle) {
  EXPECT_FALSE(awaited_by_one_that_shares(80, 80, 80)) << "all is in memory";
  EXPECT_FALSE(awaited_by_one_that_shares(35, 35, 10)) << "70 tokens are restored for 25";
  EXPECT_TRUE(awaited_by_one_that_shares(45, 45, 10));
  EXPECT_FALSE(awaited_by_one_that_shares(40, 80, 10)) << "most of what it would restore is not among them";
}

TEST_F(AwaitedRestoreTest, GoesOnWhenAllRowsAreThereOrWillNotBe) {
  for (const Request::Phase phase : {Request::Phase::kPrefill, Request::Phase::kWaiting}) {
    active[0]->phase = Request::Phase::kRestoring;
    RequestQueue queue;
    auto request = request_of(counting(81), 9);
    ASSERT_TRUE(await_prefix(*request, reused(0, 80), active, sequences, os::real_clock()));
    queue.put_back(std::move(request));
    EXPECT_FALSE(release_awaiting(queue, active, sequences, 0));
    active[0]->phase = phase;
    EXPECT_TRUE(release_awaiting(queue, active, sequences, 0));
  }
}

TEST_F(AwaitedPrefixTest, OneThatGoesBackTakesThoseAlongThatWouldBeChosenInVain) {
  add_prefilling(counting(100), 40);
  RequestQueue queue;
  queue.add(request_of(counting(80), 0));
  queue.add(request_of(counting(90, 500), 0));
  queue.add(request_of(counting(60), 0));
  active.push_back(request_of(counting(70), 0));
  ASSERT_TRUE(await_unknown(*active.back(), active, sequences, os::real_clock()));
  active.back()->number = 4;
  EXPECT_EQ(leave_place(active, queue, sequences, os::real_clock()), 2U);
  EXPECT_EQ(active.size(), 1U);
  std::vector<bool> awaits;
  for (const auto& facts : queue.facts()) awaits.push_back(facts.awaits);
  EXPECT_EQ(awaits, (std::vector<bool>{true, false, true, true}));
  ASSERT_EQ(queue.awaited().size(), 1U);
  EXPECT_EQ(queue.awaited()[0].first.until, Position{59});
}

}  // namespace
}  // namespace kvkeep::server
