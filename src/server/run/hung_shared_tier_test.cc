// A shared tier that hangs costs the time to the first token one deadline, of the first request that asks it, and else
// nothing at all, in virtual time: the same requests are sent to a server without a shared tier.

#include <gtest/gtest.h>

#include <cmath>

#include "server/run/history_world_fixture.h"

namespace kvkeep::server {
namespace {

HistoryWorld::Options slow_server(bool shared) {
  HistoryWorld::Options options;
  options.fake.cells = 4096;
  options.disk = false;
  options.prefill_ms_per_token = 1;
  options.shared = shared;
  return options;
}

// In whole milliseconds: each reading of the clock takes a nanosecond, and how often threads read it is nobody's time.
double first_token_ms(HistoryWorld& server, TokenId number) {
  Tokens prompt(1000);
  for (std::size_t i = 0; i < prompt.size(); ++i) prompt[i] = static_cast<TokenId>(10 + (i * 7 + number * 131) % 900);
  const std::vector<Reply> replies = server.ask({{.prompt = prompt, .reply_tokens = 1}});
  EXPECT_EQ(replies.size(), 1U);
  if (replies.size() != 1) return -1;
  EXPECT_EQ(replies.front().finish, Finish::kLength);
  return std::round(replies.front().stats.queue_ms + replies.front().stats.prompt_ms);
}

TEST(HungSharedTier, CostsTheFirstTokenOneDeadline) {
  constexpr double kDeadlineMs = 50;
  HistoryWorld alone(slow_server(false));
  HistoryWorld shared(slow_server(true));
  std::ranges::fill(shared.share_engine.nodes, share::FrailWorld::Node::kHung);
  double paid_ms = 0;
  TokenId last_that_paid = 0;
  for (TokenId request = 1; request <= 60; ++request) {
    const double plain_ms = first_token_ms(alone, request);
    EXPECT_GE(plain_ms, 1000);
    const double more_ms = first_token_ms(shared, request) - plain_ms;
    EXPECT_GE(more_ms, 0);
    EXPECT_LE(more_ms, kDeadlineMs);
    if (more_ms > 0) last_that_paid = request;
    paid_ms += more_ms;
    // Next to requests: writing and publishing, and a tick with its probes.
    shared.writer.run_all();
    shared.cache->tick();
    shared.share_worker.run_all();
  }
  const auto counters = shared.cache->share_counters();
  ASSERT_TRUE(counters.has_value());
  EXPECT_GT(counters->breaker_openings, 0U);
  EXPECT_GT(paid_ms, 0) << "it was asked";
  EXPECT_LE(paid_ms, kDeadlineMs);
  EXPECT_EQ(last_that_paid, 1) << "each later one got its first token exactly as without a shared tier";
}

// Others' look-ups take long.
TEST(HungSharedTier, ARequestWhoseStateIsAllHereWaitsForNoLookUp) {
  HistoryWorld alone(slow_server(false));
  HistoryWorld shared(slow_server(true));
  for (TokenId request = 1; request <= 3; ++request) {
    EXPECT_GE(first_token_ms(alone, request), 1000);
    EXPECT_GE(first_token_ms(shared, request), 1000);
  }
  shared.searches_wait = true;
  for (TokenId request = 1; request <= 3; ++request) {
    const double plain_ms = first_token_ms(alone, request);
    EXPECT_LT(plain_ms, 100);
    ASSERT_EQ(first_token_ms(shared, request), plain_ms);
  }
}

}  // namespace
}  // namespace kvkeep::server
