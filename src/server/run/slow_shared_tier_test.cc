// Eight requests come at once whose state another server computed, and the shared tier answers each call after 100 ms,
// in virtual time: all of them find it, and requests whose state is here take exactly as long as if there were neither.

#include <gtest/gtest.h>

#include <cmath>
#include <future>

#include "server/run/history_world_fixture.h"

namespace kvkeep::server {
namespace {

constexpr std::size_t kPromptTokens = 1000;
constexpr std::size_t kColdRequests = 8;
constexpr std::size_t kWarmRequests = 3;

HistoryWorld::Options options_with(bool shared) {
  HistoryWorld::Options options;
  options.fake.cells = 16'384;
  options.fake.sequences = 16;
  options.scheduler.parallel = 12;
  options.disk = false;
  options.prefill_ms_per_token = 1;
  options.shared = shared;
  return options;
}

Tokens prompt_of(std::size_t number) {
  Tokens prompt(kPromptTokens);
  for (std::size_t i = 0; i < prompt.size(); ++i) prompt[i] = static_cast<TokenId>(10 + (i * 7 + number * 131) % 900);
  return prompt;
}
std::vector<Ask> cold_requests() {
  std::vector<Ask> asked;
  for (std::size_t i = 0; i < kColdRequests; ++i) asked.push_back({.prompt = prompt_of(100 + i), .reply_tokens = 4});
  return asked;
}
// The n-th turn of a conversation: little is new in it.
Ask warm_request(std::size_t conversation, std::size_t turn) {
  Ask asked{.prompt = prompt_of(conversation), .reply_tokens = 4};
  for (std::size_t i = 0; i < 10 * turn; ++i)
    asked.prompt.push_back(static_cast<TokenId>(10 + (i + conversation) % 900));
  return asked;
}

// In whole milliseconds: each reading of the clock takes a nanosecond.
std::pair<double, double> times_of(const Reply& reply) {
  return {std::round(reply.stats.queue_ms + reply.stats.prompt_ms), std::round(reply.stats.predicted_ms)};
}

class SlowSharedTier : public testing::Test {
 protected:
  SlowSharedTier() : alone_(options_with(false)), server_(slow_options()) {
    HistoryWorld other(options_with(true));
    EXPECT_EQ(other.ask(cold_requests()).size(), kColdRequests);
    other.cache->flush();
    other.writer.run_all();
    other.share_worker.run_all();
    server_.share_engine.objects = other.share_engine.objects;
  }
  static HistoryWorld::Options slow_options(double answer_ms = 100) {
    HistoryWorld::Options options = options_with(true);
    options.shared_beside = true;
    options.shared_answer_ms = answer_ms;
    options.shared_most_deadline_ms = 300;
    return options;
  }
  // No time passes but that of the engine's calls.
  static Reply ask(HistoryWorld& server, const Ask& asked) {
    auto reply = server.submit(asked).value();
    if (reply.wait_for(std::chrono::seconds(20)) != std::future_status::ready) {
      ADD_FAILURE() << "it waits for others";
      return {};
    }
    server.wait_until_none_runs();
    return reply.get();
  }
  static Reply let_answer(HistoryWorld& server, std::future<Reply>& reply) {
    while (reply.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready) server.time.pass_to_next();
    return reply.get();
  }
  static void warm_up(HistoryWorld& server) {
    for (std::size_t i = 0; i < kWarmRequests; ++i) {
      auto reply = server.submit(warm_request(i, 0)).value();
      EXPECT_GE(times_of(let_answer(server, reply)).first, kPromptTokens);
      server.wait_until_none_runs();
    }
  }
  HistoryWorld alone_;
  HistoryWorld server_;
};

TEST_F(SlowSharedTier, EightColdRequestsAtOnceAllHitAndHoldNoWarmOneUp) {
  warm_up(alone_);
  warm_up(server_);
  std::vector<std::future<Reply>> cold;
  for (const Ask& asked : cold_requests()) cold.push_back(server_.submit(asked).value());
  // Look-ups of the first four take 200 ms.
  const std::int64_t begin_ns = server_.clock.monotonic_ns();
  std::size_t warm = 0;
  for (std::size_t turn = 1; turn < 20 && server_.clock.monotonic_ns() < begin_ns + 100'000'000; ++turn) {
    for (std::size_t i = 0; i < kWarmRequests; ++i, ++warm) {
      EXPECT_EQ(server_.scheduler->stats().waiting, kColdRequests);
      const Reply reply = ask(server_, warm_request(i, turn));
      EXPECT_EQ(times_of(reply), times_of(ask(alone_, warm_request(i, turn))));
      ASSERT_LT(times_of(reply).first, 50);
      if (HasFailure()) return;
    }
  }
  EXPECT_GE(warm, 6U);
  EXPECT_GE(server_.clock.monotonic_ns(), begin_ns + 100'000'000) << "the first answers came meanwhile";
  EXPECT_LT(server_.clock.monotonic_ns(), begin_ns + 200'000'000);
  for (std::size_t i = 0; i < cold.size(); ++i) {
    const Reply reply = let_answer(server_, cold[i]);
    EXPECT_EQ(reply.tokens, server_.expected(cold_requests()[i])) << i;
    EXPECT_GE(reply.stats.shared_tokens, kPromptTokens * 9 / 10) << i;
    EXPECT_EQ(std::round(reply.stats.search_ms), 200) << i;
  }
  const auto counters = server_.cache->share_counters();
  ASSERT_TRUE(counters.has_value());
  EXPECT_EQ(counters->hits, kColdRequests);
  EXPECT_EQ(counters->failures, 0U);
}

// The second answer comes after 500 ms, and docs/sharing.md says that nobody waits longer than 400.
TEST_F(SlowSharedTier, NoRequestWaitsForAnswersThatComeLate) {
  HistoryWorld slower(slow_options(250));
  slower.share_engine.objects = server_.share_engine.objects;
  auto reply = slower.submit(cold_requests().front()).value();
  slower.pass_ms(399);
  EXPECT_EQ(slower.scheduler->stats().waiting, 1U);
  slower.pass_ms(2);
  ASSERT_EQ(reply.wait_for(std::chrono::seconds(20)), std::future_status::ready);
  EXPECT_EQ(std::round(reply.get().stats.search_ms), 401);
}

}  // namespace
}  // namespace kvkeep::server
