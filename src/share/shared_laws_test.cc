// Laws of the shared tier over random histories of several servers, prompts that branch, and an engine that harms what
// it keeps: no wrong byte, a bounded queue, bounded time, and warm again once the harm ends.

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include "share/read_ahead.h"
#include "share/shared_world_fixture.h"

namespace kvkeep::share {
namespace {

using format::PartKind;

std::uint64_t share_seed() {
  const char* given = std::getenv("KVKEEP_TEST_SEED");
  const std::uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : 20261124;
  std::printf("KVKEEP_TEST_SEED=%llu\n", static_cast<unsigned long long>(seed));
  return seed;
}

// One history: two writers that cut elsewhere and a reader, over one engine.
class ShareHistory {
 public:
  ShareHistory(std::uint64_t seed, bool encrypt)
      : random_(seed), options_{.key = "secret", .encrypt = encrypt, .queue_limit = ByteCount{100'000}} {
    for (int i = 0; i < 3; ++i) servers_.push_back(std::make_unique<ShareServer>(world_, options_, i == 2 ? 8 : 512));
    for (std::uint32_t i = 0; i < kPrompts; ++i) prompts_.push_back(share_prompt(i, kTokens, 40 * (i % 4)));
    world_.before_call = [this] {
      if (random_() % 16 == 0) world_.harm(random_);
      if (random_() % 16 == 0) world_.land(random_);
    };
  }

  void run(int steps) {
    for (int i = 0; i < steps; ++i) {
      step();
      for (const auto& server : servers_) ASSERT_LE(server->store().queued(), options_.queue_limit);
    }
  }

  // The harm ends: what is published from then on is found by everybody.
  void heal_and_check() {
    std::ranges::fill(world_.nodes, FrailWorld::Node::kWell);
    world_.full = world_.reads_hang = world_.puts_land_late = false;
    world_.cut_put_at = 0;
    world_.answer_ms = 0.3;
    world_.before_call = [] {};
    world_.late.clear();
    world_.objects.clear();
    clock_.advance_ms(301'000);  // the longest pause of a breaker, or after a full engine
    tick();
    for (std::size_t i = 0; i < kPrompts; ++i)
      servers_[i % 2]->publish(prompts_[i], every(20, kTokens), PartKind::kPoint);
    clock_.advance_ms(4000);  // absences are remembered
    for (const auto& server : servers_) {
      for (const Tokens& prompt : prompts_) {
        EXPECT_EQ(server->restorable(prompt, every(20, kTokens)), Position{kTokens}) << figures(*server);
        EXPECT_EQ(server->restorable(prompt, every(20, kTokens), PartKind::kPoint), Position{kTokens});
      }
    }
  }

 private:
  static constexpr std::uint32_t kTokens = 200;
  static constexpr std::uint32_t kPrompts = 8;

  static std::string figures(ShareServer& server) {
    const ShareCounters counters = server.store().counters();
    return "readable " + std::to_string(server.store().readable()) + ", failures " + std::to_string(counters.failures) +
           ", damaged " + std::to_string(counters.damaged) + ", load misses " + std::to_string(counters.load_misses) +
           ", orphans " + std::to_string(counters.orphans) + ", refused " + std::to_string(counters.refused) +
           ", latency " + std::to_string(server.store().latency_ms()) + " ms";
  }
  void step() {
    ShareServer& server = *servers_[random_() % servers_.size()];
    const Tokens& prompt = prompts_[random_() % kPrompts];
    switch (random_() % 10) {
      case 0:
      case 1:
      case 2:
        server.offer(prompt, every(20 + 20 * static_cast<std::uint32_t>(random_() % 2), kTokens),
                     random_() % 2 == 0 ? std::optional(PartKind::kPoint) : std::nullopt);
        break;
      case 3: server.executor().run_one(); break;
      case 4: server.run_all(); break;
      case 5:
      case 6: look(server, prompt); break;
      case 7: world_.harm(random_); break;
      case 8: change_engine(); break;
      default: clock_.advance_ms(static_cast<std::int64_t>(random_() % 3000)); tick();
    }
  }
  void look(ShareServer& server, const Tokens& prompt) {
    const std::int64_t from_ns = clock_.monotonic_ns();
    const PartKind kind = random_() % 2 == 0 ? PartKind::kRows : PartKind::kPoint;
    const std::uint64_t calls = world_.calls;
    (void)server.find(prompt, every(20, kTokens), kind);
    const double answered_ms = world_.answer_ms * static_cast<double>(world_.calls - calls);
    EXPECT_LE(os::elapsed_ms(from_ns, clock_.monotonic_ns()), 50.1 + answered_ms)
        << "what is not answered takes one deadline at most";
    (void)server.restorable(prompt, every(20, kTokens), kind);
    read_ahead(server, prompt);
  }
  // As a reader with helpers does, that fall behind or not.
  void read_ahead(ShareServer& server, const Tokens& prompt) {
    const auto path = server.find(prompt, every(20, kTokens));
    if (!path) return;
    sim::SimExecutor helper;
    ReadAhead ahead(server.store(), clock_, {&helper}, ByteCount{random_() % 10'000});
    std::vector<PatientRead> reads;
    for (const format::SharedHead& head : path->rows) reads.push_back({head.segment, 1'000});
    ahead.expect(reads);
    for (const PatientRead& read : reads) {
      if (random_() % 2 == 0) helper.run_all();
      const auto payload = ahead.get(read);
      EXPECT_TRUE(!payload.ok() || std::ranges::equal((*payload)->bytes(), right_bytes(read.segment.name)));
    }
    ahead.expect({});
    helper.run_all();
  }
  void change_engine() {
    using Node = FrailWorld::Node;
    constexpr std::array<Node, 6> kStates{Node::kWell, Node::kWell,     Node::kWell,
                                          Node::kHung, Node::kRefusing, Node::kLoading};
    world_.nodes[random_() % world_.nodes.size()] = kStates[random_() % kStates.size()];
    world_.full = random_() % 10 == 0;
    world_.reads_hang = random_() % 10 == 0;
    world_.cut_put_at = random_() % 4 == 0 ? 1 + random_() % 5 : 0;
    world_.puts_land_late = random_() % 6 == 0;
    world_.answer_ms = random_() % 5 == 0 ? 20 : 0.3;
  }
  void tick() {
    for (const auto& server : servers_) {
      server->store().tick();
      server->run_all();
    }
  }

  std::mt19937_64 random_;
  sim::SimClock clock_;
  FrailWorld world_{clock_};
  const ShareOptions options_;
  std::vector<std::unique_ptr<ShareServer>> servers_;
  std::vector<Tokens> prompts_;
};

TEST(ShareLaws, HoldOverRandomHistories) {
  const std::uint64_t seed = share_seed();
  const char* given = std::getenv("KVKEEP_SHARE_HISTORIES");
  const int histories = given != nullptr ? std::atoi(given) : 60;
  for (int i = 0; i < histories && !::testing::Test::HasFailure(); ++i) {
    SCOPED_TRACE(seed + static_cast<std::uint64_t>(i));
    ShareHistory history(seed + static_cast<std::uint64_t>(i), i % 3 == 0);
    history.run(150);
    history.heal_and_check();
  }
}

}  // namespace
}  // namespace kvkeep::share
