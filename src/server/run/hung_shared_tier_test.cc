// A shared tier that hangs, is cut in the middle of a payload, or is gone costs the time to the first token one
// deadline for each time that its breaker opens, and else nothing at all, in virtual time: the same requests are sent
// to a server without a shared tier.

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

constexpr TokenId kRequests = 60;

// Publishes the state of all requests, so that each would be loaded.
void publish_all(share::FrailWorld& world) {
  HistoryWorld other(slow_server(true));
  for (TokenId request = 1; request <= kRequests; ++request) EXPECT_GE(first_token_ms(other, request), 1000);
  other.cache->flush();
  other.share_worker.run_all();
  world.objects = other.share_engine.objects;
  EXPECT_GE(world.objects.size(), static_cast<std::size_t>(kRequests));
}

struct Trouble {
  const char* name;
  void (*befalls)(share::FrailWorld&);
  double most_paid_ms;  // for each time that the breaker opened
};
void PrintTo(const Trouble& trouble, std::ostream* out) { *out << trouble.name; }

constexpr double kDeadlineMs = 50;
const Trouble kTroubles[] = {
    {"Hung", [](share::FrailWorld& world) { std::ranges::fill(world.nodes, share::FrailWorld::Node::kHung); },
     kDeadlineMs},
    {"Dead", [](share::FrailWorld& world) { std::ranges::fill(world.nodes, share::FrailWorld::Node::kRefusing); }, 0},
    {"HungAtPayloads", [](share::FrailWorld& world) { world.reads_hang = true; }, kDeadlineMs},
    // In the middle of the first one, which has 1,024 bytes.
    {"CutInPayloads", [](share::FrailWorld& world) { world.hang_after_bytes = 1010; }, kDeadlineMs},
};

// The requests to whose first token a shared tier added time, and how much it added.
struct Paid {
  double ms = 0;
  std::vector<TokenId> requests;
};

// Sends requests, a second apart, to a server without a shared tier and to one with it.
Paid compare(HistoryWorld& alone, HistoryWorld& shared) {
  Paid paid;
  for (TokenId request = 1; request <= kRequests; ++request) {
    const double plain_ms = first_token_ms(alone, request);
    EXPECT_GE(plain_ms, 1000);
    const double more_ms = first_token_ms(shared, request) - plain_ms;
    EXPECT_GE(more_ms, 0);
    EXPECT_LE(more_ms, kDeadlineMs);
    if (more_ms > 0) paid.requests.push_back(request);
    paid.ms += more_ms;
    // Next to requests: writing and publishing, and a tick with its probes.
    shared.writer.run_all();
    shared.cache->tick();
    shared.share_worker.run_all();
  }
  return paid;
}

TEST(HungSharedTier, CostsTheFirstTokenOneDeadline) {
  HistoryWorld alone(slow_server(false));
  HistoryWorld shared(slow_server(true));
  std::ranges::fill(shared.share_engine.nodes, share::FrailWorld::Node::kHung);
  const Paid paid = compare(alone, shared);
  const auto counters = shared.cache->share_counters();
  ASSERT_TRUE(counters.has_value());
  EXPECT_GT(counters->breaker_openings, 0U);
  EXPECT_GT(paid.ms, 0) << "it was asked";
  EXPECT_LE(paid.ms, kDeadlineMs);
  EXPECT_EQ(paid.requests, std::vector<TokenId>{1}) << "each later one got its first token exactly as without it";
}

class TroubledSharedTier : public testing::TestWithParam<Trouble> {};

TEST_P(TroubledSharedTier, CostsTheFirstTokenOneDeadlineForEachOpening) {
  HistoryWorld alone(slow_server(false));
  HistoryWorld shared(slow_server(true));
  publish_all(shared.share_engine);
  shared.share_engine.answer_ms = 0;
  GetParam().befalls(shared.share_engine);
  const Paid paid = compare(alone, shared);
  const auto counters = shared.cache->share_counters();
  ASSERT_TRUE(counters.has_value());
  EXPECT_GT(counters->breaker_openings, 0U);
  EXPECT_LE(paid.ms, GetParam().most_paid_ms * static_cast<double>(counters->breaker_openings));
  EXPECT_LE(paid.requests.size(), counters->breaker_openings) << "all others: exactly as without the tier";
  EXPECT_EQ(paid.ms > 0, GetParam().most_paid_ms > 0) << "it was asked";
}

INSTANTIATE_TEST_SUITE_P(All, TroubledSharedTier, testing::ValuesIn(kTroubles),
                         [](const auto& tested) { return std::string(tested.param.name); });

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
