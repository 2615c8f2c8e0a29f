// Tenants on the scheduler: no state of one of them, in whatever tier, is reused for or shown to another.

#include <array>
#include <future>
#include <set>

#include "server/run/scheduler_test_fixture.h"
#include "testing/sim/temporary_directory.h"

namespace kvkeep::server {
namespace {

using engine::MemoryClass;

const std::array<Tenant, 3> kTenants{kNoTenant, tenant_of({}, "one"), tenant_of({}, "other")};

class Tenants : public testing::TestWithParam<MemoryClass> {
 protected:
  WorldOptions options() const {
    return {.fake = {.sequences = 8, .memory_class = GetParam(), .window_tokens = 16}, .scheduler = {.parallel = 4}};
  }
};

INSTANTIATE_TEST_SUITE_P(Classes, Tenants,
                         testing::Values(MemoryClass::kSliceable, MemoryClass::kWindowed, MemoryClass::kHybrid,
                                         MemoryClass::kOpaque),
                         [](const auto& memory_class) { return std::string(to_string(memory_class.param)); });

TEST_P(Tenants, ReuseOnlyTheirOwnState) {
  const sim::TemporaryDirectory directory;
  std::mt19937 random(seed());
  const std::vector<TokenId> prompt = random_tokens(random, 100);
  WorldOptions made = options();
  made.disk_directory = directory.path();
  for (int process = 0; process < 2; ++process) {
    World world(made);
    world.start();
    for (int turn = 0; turn < 2; ++turn) {
      for (const Tenant& tenant : kTenants) {
        const bool known = process + turn > 0;
        const Reply reply = world.ask_as(tenant, prompt, 8);
        EXPECT_EQ(reply.tokens, world.expected(prompt, 8));
        EXPECT_EQ(reply.stats.cached_tokens > 0, known) << process << turn;
        EXPECT_EQ(reply.stats.known_tokens > 0, known) << process << turn;
      }
    }
    world.stop();
    world.cache.flush();
  }
}

// In one batch, and side by side in the model's memory: cells are shared only within a tenant.
TEST_P(Tenants, ThatAskAtTheSameTimeComputeEachTheirOwn) {
  std::mt19937 random(seed());
  const std::vector<TokenId> prompt = random_tokens(random, 100);
  World world(options());
  std::vector<std::future<Reply>> replies;
  for (int twice = 0; twice < 2; ++twice) {
    for (const Tenant& tenant : kTenants) replies.push_back(world.submit(prompt, 20, true, SIZE_MAX, tenant));
  }
  world.start();
  for (std::size_t i = 0; i < replies.size(); ++i) {
    const Reply reply = replies[i].get();
    EXPECT_EQ(reply.tokens, world.expected(prompt, 20));
    EXPECT_EQ(reply.stats.cached_tokens > 0, i >= kTenants.size()) << i;
  }
}

// Scales of adapters make tenants: state that was computed with others would change the text.
class ScalesOfAdapters : public Tenants {
 protected:
  WorldOptions options() const {
    WorldOptions options = Tenants::options();
    options.fake.adapters = 2;
    return options;
  }
  static std::future<Reply> ask(World& world, const std::vector<TokenId>& prompt, const engine::AdapterScales& scales) {
    const FingerprintHash& model = world.engine.description().fingerprint;
    const Tenant tenant = scales.empty() ? kNoTenant : with_adapters(model, kNoTenant, scales);
    return world.submit(prompt, 20, true, SIZE_MAX, tenant, scales);
  }
  const std::vector<engine::AdapterScales> scales_{{}, {0.5F, 0}, {0, 1}, {0.5F, 1}};
};

INSTANTIATE_TEST_SUITE_P(Classes, ScalesOfAdapters,
                         testing::Values(MemoryClass::kSliceable, MemoryClass::kWindowed, MemoryClass::kHybrid,
                                         MemoryClass::kOpaque),
                         [](const auto& memory_class) { return std::string(to_string(memory_class.param)); });

TEST_P(ScalesOfAdapters, ReuseTheirOwnStateInEveryTier) {
  const sim::TemporaryDirectory directory;
  std::mt19937 random(seed());
  const std::vector<TokenId> prompt = random_tokens(random, 100);
  WorldOptions made = options();
  made.disk_directory = directory.path();
  for (int process = 0; process < 2; ++process) {
    World world(made);
    world.start();
    for (int turn = 0; turn < 2; ++turn) {
      for (const engine::AdapterScales& scales : scales_) {
        const Reply reply = ask(world, prompt, scales).get();
        EXPECT_EQ(reply.tokens, world.expected(prompt, 20, scales));
        EXPECT_EQ(reply.stats.cached_tokens > 0, process + turn > 0) << process << turn;
      }
    }
    world.stop();
    world.cache.flush();
  }
}

TEST_P(ScalesOfAdapters, ComputeEachTheirOwnAtTheSameTime) {
  std::mt19937 random(seed());
  const std::vector<TokenId> prompt = random_tokens(random, 100);
  World world(options());
  std::set<std::vector<TokenId>> texts;
  std::vector<std::future<Reply>> replies;
  for (int twice = 0; twice < 2; ++twice) {
    for (const engine::AdapterScales& scales : scales_) replies.push_back(ask(world, prompt, scales));
  }
  world.start();
  for (std::size_t i = 0; i < replies.size(); ++i) {
    const Reply reply = replies[i].get();
    EXPECT_EQ(reply.tokens, world.expected(prompt, 20, scales_[i % scales_.size()])) << i;
    EXPECT_EQ(reply.stats.cached_tokens > 0, i >= scales_.size()) << i;
    texts.insert(reply.tokens);
  }
  EXPECT_EQ(texts.size(), scales_.size());
}

// Cells run short while replies with different scales grow: those that give theirs up come back with the right rows.
TEST_P(ScalesOfAdapters, SurviveALackOfCells) {
  std::mt19937 random(seed());
  WorldOptions made = options();
  made.fake.cells = 256;
  World world(made);
  world.start();
  std::vector<std::vector<TokenId>> prompts;
  std::vector<std::future<Reply>> replies;
  for (const engine::AdapterScales& scales : scales_) {
    prompts.push_back(random_tokens(random, 70));
    replies.push_back(ask(world, prompts.back(), scales));
  }
  for (std::size_t i = 0; i < replies.size(); ++i) {
    EXPECT_EQ(replies[i].get().tokens, world.expected(prompts[i], 20, scales_[i])) << i;
  }
}

class CollectedAnswer final : public InspectionSink {
 public:
  void on_answer(Result<Inspection> answer) override { promise_.set_value(std::move(answer)); }
  bool gone() const override { return false; }
  Inspection wait() { return promise_.get_future().get().value(); }

 private:
  std::promise<Result<Inspection>> promise_;
};

// A lookup shows where the prompt parts from known ones, but only from the asker's own.
TEST_P(Tenants, LearnNothingOfOthers) {
  std::mt19937 random(seed());
  const std::vector<TokenId> head = random_tokens(random, 60);
  World world(options());
  world.start();
  const std::vector<TokenId> own = head + random_tokens(random, 40);
  (void)world.ask_as(kTenants[1], own, 8);
  for (const Tenant& tenant : kTenants) {
    for (const std::vector<TokenId>& prompt : {head + random_tokens(random, 40), random_tokens(random, 20)}) {
      auto sink = std::make_shared<CollectedAnswer>();
      ASSERT_TRUE(world.scheduler.inspect({prompt, true, tenant}, sink).ok());
      const Inspection told = sink->wait();
      const bool is_owner = tenant == kTenants[1];
      EXPECT_EQ(told.explanation.difference.has_value(), is_owner);
      EXPECT_EQ(told.explanation.candidates.empty(), !is_owner);
      EXPECT_EQ(told.stats.known_tokens, 0U);
      if (is_owner) continue;
      EXPECT_EQ(told.explanation.known, Position{});
      EXPECT_EQ(told.stats.cached_tokens, 0U);
      EXPECT_EQ(told.stats.miss, MissReason::kNothingCached);
    }
  }
}

// Many tenants that come once: the budget bounds the state that they leave, whatever their number.
TEST(TenantsWithoutEnd, AreBoundedByTheBudget) {
  std::mt19937 random(seed());
  const std::vector<TokenId> prompt = random_tokens(random, 64);
  World world({.fake = {.sequences = 4}, .ram = ByteCount{200'000}});
  world.start();
  std::uint64_t most_segments = 0;
  for (int i = 0; i < 300; ++i) {
    const Reply reply = world.ask_as(tenant_of({}, std::to_string(i)), prompt, 2);
    ASSERT_EQ(reply.stats.cached_tokens, 0U);
    ASSERT_EQ(reply.tokens, world.expected(prompt, 2));
    most_segments = std::max(most_segments, world.cache.stats().segments);
    ASSERT_LE(world.cache.stats().ram_used, ByteCount{200'000});
  }
  EXPECT_LT(most_segments, 350U) << "each of 300 stores three";
}

}  // namespace
}  // namespace kvkeep::server
