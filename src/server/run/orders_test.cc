// Orders about slots, carried out by a scheduler.

#include "server/run/orders.h"

#include <gtest/gtest.h>

#include <future>
#include <memory>

#include "server/run/scheduler_test_fixture.h"

namespace kvkeep::server {
namespace {

class SlotOrdersTest : public testing::Test {
 protected:
  SlotOrdersTest() { world_.start(); }

  Result<SlotOutcome> order(SlotOrder::Kind kind, std::size_t slot, const Tenant& tenant = kNoTenant) {
    class Sink final : public SlotSink {
     public:
      void on_outcome(Result<SlotOutcome> outcome) override { promise.set_value(std::move(outcome)); }
      std::promise<Result<SlotOutcome>> promise;
    };
    const auto sink = std::make_shared<Sink>();
    EXPECT_TRUE(server::order(world_.scheduler, {kind, slot, tenant}, sink).ok());
    return sink->promise.get_future().get();
  }
  Result<SlotOutcome> forget(std::size_t slot) { return order(SlotOrder::Kind::kForget, slot); }

  World world_;
  std::mt19937 random_{seed()};
};

TEST_F(SlotOrdersTest, AConversationIsKnownByItsSlotUntilItIsForgotten) {
  EXPECT_TRUE(order(SlotOrder::Kind::kKeep, 0).value().tokens.empty());
  const std::vector<TokenId> prompt = random_tokens(random_, 300);
  const Reply first = world_.ask(prompt, 8);
  const std::vector<TokenId> held = order(SlotOrder::Kind::kKeep, 0).value().tokens;
  EXPECT_EQ(held, prompt + std::vector<TokenId>(first.tokens.begin(), first.tokens.end() - 1));
  const SlotOutcome forgotten = forget(0).value();
  EXPECT_EQ(forgotten.tokens, held);
  EXPECT_EQ(forgotten.forgotten, held.size());
  EXPECT_EQ(world_.cache.stats().tokens, 0U);
  const Reply again = world_.ask(prompt, 8);
  EXPECT_EQ(again.stats.cached_tokens, 0U);
  EXPECT_EQ(again.tokens, first.tokens);
  EXPECT_EQ(forget(1).value().forgotten, 0U);
}

TEST_F(SlotOrdersTest, WhatOthersShareStays) {
  const std::vector<TokenId> shared = random_tokens(random_, 200);
  const std::vector<TokenId> one = shared + random_tokens(random_, 100);
  const std::vector<TokenId> other = shared + random_tokens(random_, 100);
  (void)world_.ask(one, 4);
  (void)world_.ask(other, 4);  // at slot 0 again
  EXPECT_EQ(forget(0).value().forgotten, 103U);
  EXPECT_EQ(world_.ask(other, 4).stats.cached_tokens, 200U);
  EXPECT_GE(world_.ask(one, 4).stats.cached_tokens, 299U);
}

TEST_F(SlotOrdersTest, OtherTenantsAndUncachedRequestsLeaveNothing) {
  Tenant tenant;
  tenant.bytes[0] = 7;
  const std::vector<TokenId> prompt = random_tokens(random_, 100);
  (void)world_.ask_as(tenant, prompt, 4);
  EXPECT_TRUE(order(SlotOrder::Kind::kKeep, 0).value().tokens.empty());
  EXPECT_TRUE(order(SlotOrder::Kind::kForget, 0).value().tokens.empty());
  EXPECT_EQ(order(SlotOrder::Kind::kKeep, 0, tenant).value().tokens.size(), 103U);
  (void)world_.ask(prompt, 4, /*cache_prompt=*/false);
  EXPECT_TRUE(order(SlotOrder::Kind::kKeep, 0).value().tokens.empty());
}

TEST_F(SlotOrdersTest, AStoppedServerSaysSo) {
  world_.stop();
  class Sink final : public SlotSink {
    void on_outcome(Result<SlotOutcome> /*outcome*/) override {}
  };
  EXPECT_EQ(server::order(world_.scheduler, {}, std::make_shared<Sink>()).error().kind, ErrorKind::kBusy);
}

TEST_F(SlotOrdersTest, ClearingForgetsTheScopeInEveryTier) {
  const auto cleared = [&](const cache::ClearScope& scope) {
    std::promise<Result<cache::Cleared>> promise;
    EXPECT_TRUE(clear(world_.scheduler, scope, [&](auto outcome) { promise.set_value(std::move(outcome)); }).ok());
    return promise.get_future().get();
  };
  const Tenant other = tenant_of({}, "other");
  const std::vector<TokenId> prompt = random_tokens(random_, 300);
  const Reply first = world_.ask(prompt, 8);
  EXPECT_EQ(cleared({.tenants = other}).value().tokens, 0U);
  EXPECT_EQ(cleared({.unused_ns = 3'600'000'000'000}).value().tokens, 0U);
  EXPECT_GT(world_.ask(prompt, 8).stats.memory_tokens, 250U) << "nothing was forgotten";
  EXPECT_EQ(cleared({.below = PrefixHash{}}).error().kind, ErrorKind::kNotFound);
  EXPECT_EQ(cleared({}).value().tokens, prompt.size() + 7);
  EXPECT_EQ(world_.cache.stats().tokens, 0U);
  EXPECT_TRUE(order(SlotOrder::Kind::kKeep, 0).value().tokens.empty()) << "nor is the conversation known by its slot";
  const Reply again = world_.ask(prompt, 8);
  EXPECT_EQ(again.stats.cached_tokens, 0U);
  EXPECT_EQ(again.tokens, first.tokens);
}

}  // namespace
}  // namespace kvkeep::server
