#include "engine/llama/thread_pools.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kvkeep::engine::llama {
namespace {

using Processors = std::vector<std::uint32_t>;
const Processors kAllowed{2, 3, 5};

TEST(ThreadRules, ProcessorsAreThoseThatAreAllowed) {
  ModelOptions options;
  EXPECT_EQ(complete_rules(options, kAllowed)->single.processors, Processors{});
  options.thread_rules.processors = {1, 2, 5, 7};
  EXPECT_EQ(complete_rules(options, kAllowed)->single.processors, (Processors{2, 5}));
  EXPECT_EQ(complete_rules(options, kAllowed)->batch.processors, (Processors{2, 5}));
  options.thread_rules.processors = {4};
  EXPECT_THAT(complete_rules(options, kAllowed).error().message, testing::HasSubstr("2 to 5, 3 of them"));
}

TEST(ThreadRules, OneProcessorEachNeedsProcessors) {
  ModelOptions options;
  options.thread_rules.one_each = true;
  EXPECT_EQ(complete_rules(options, kAllowed)->single.processors, kAllowed);
}

// The library leaves threads where they are if a rule names no processors.
TEST(ThreadRules, ThreadsComeBackFromThePlaceOfPrompts) {
  ModelOptions options;
  options.thread_rules_batch.processors = Processors{3};
  const auto rules = complete_rules(options, kAllowed);
  EXPECT_EQ(rules->single.processors, kAllowed);
  EXPECT_EQ(rules->batch.processors, Processors{3});
}

TEST(ThreadRules, APriorityIsForBothOrForNone) {
  ModelOptions options;
  options.thread_rules.priority = 1;
  EXPECT_EQ(complete_rules(options, kAllowed)->batch.priority, 1);
  options.thread_rules_batch.priority = 3;
  EXPECT_EQ(complete_rules(options, kAllowed)->batch.priority, 3);
  options.thread_rules_batch.priority = 0;
  EXPECT_THAT(complete_rules(options, kAllowed).error().message, testing::HasSubstr("--prio 1 and --prio-batch 0"));
}

TEST(ThreadPools, ThereAreNoneWithoutRules) {
  start_library();
  EXPECT_EQ(*ThreadPools::make({}), nullptr);
  ModelOptions options;
  options.thread_rules.poll = 0;
  const auto pools = ThreadPools::make(options);
  ASSERT_TRUE(pools.ok()) << pools.error().message;
  EXPECT_NE(*pools, nullptr);
}

TEST(Waiting, TheDefaultNeedsNothing) {
  EXPECT_EQ(*check_waiting({}, ""), Waiting::kAsAsked);
  EXPECT_EQ(*check_waiting({}, "17"), Waiting::kAsAsked);
  ModelOptions options;
  options.thread_rules.poll = 100;
  EXPECT_EQ(spin_count(options), "600000");
}

}  // namespace
}  // namespace kvkeep::engine::llama
