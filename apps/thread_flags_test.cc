#include <gtest/gtest.h>

#include "serve_flags.h"

namespace kvkeep::cli {
namespace {

using Processors = std::vector<std::uint32_t>;
using engine::llama::ModelOptions;
using engine::llama::ThreadRules;

Result<ModelOptions> with_threads(std::vector<std::string> flags) {
  flags.insert(flags.begin(), "--model=m");
  auto parsed = parse_serve(flags, {});
  if (!parsed) return parsed.error();
  return std::move(parsed->options.model);
}

Result<Processors> processors(const std::vector<std::string>& flags) {
  TRY_ASSIGN(const ModelOptions model, with_threads(flags));
  return model.thread_rules.processors;
}

TEST(ThreadFlags, MasksAndRangesNameProcessorsTogether) {
  EXPECT_EQ(*processors({}), Processors{});
  EXPECT_EQ(*processors({"--cpu-mask", "0x15"}), (Processors{0, 2, 4}));
  EXPECT_EQ(*processors({"-C", "F0000000000000000"}), (Processors{64, 65, 66, 67}));
  EXPECT_EQ(*processors({"-Cr", "3-5"}), (Processors{3, 4, 5}));
  EXPECT_EQ(*processors({"--cpu-range", "-1"}), (Processors{0, 1}));
  EXPECT_EQ(processors({"--cpu-range", "510-"})->size(), 2U);
  EXPECT_EQ(*processors({"--cpu-range", "1-2", "--cpu-mask", "6", "--cpu-mask", "1"}), (Processors{0, 1, 2}));
}

TEST(ThreadFlags, WrongOnesAreRefused) {
  for (const char* mask : {"zz", "0x", "0", "-1", "1,2"}) EXPECT_FALSE(processors({"--cpu-mask", mask})) << mask;
  EXPECT_FALSE(processors({"--cpu-mask", std::string(129, 'f')}));
  EXPECT_EQ(processors({"--cpu-mask", std::string(128, 'f')})->size(), 512U);
  for (const char* range : {"5", "-", "5-3", "a-b", "0-512"}) EXPECT_FALSE(processors({"-Cr", range})) << range;
  for (const auto& [flag, value] : std::vector<std::pair<std::string, std::string>>{
           {"--prio", "4"}, {"--prio", "-2"}, {"--poll", "101"}, {"--poll", "-1"}, {"--cpu-strict", "2"}}) {
    EXPECT_FALSE(with_threads({flag, value})) << flag;
    EXPECT_FALSE(with_threads({flag + "-batch", value})) << flag;
  }
}

TEST(ThreadFlags, PromptsHaveTheSameRulesUnlessTheyHaveTheirOwn) {
  const auto batch = [](const std::vector<std::string>& flags) {
    const auto model = with_threads(flags);
    return model->thread_rules_batch.over(model->thread_rules);
  };
  const ThreadRules rules{.processors = {0}, .one_each = true, .priority = 2, .poll = 10};
  const std::vector<std::string> single = {"-C", "1", "--cpu-strict", "1", "--prio", "2", "--poll", "10"};
  EXPECT_EQ(batch(single), rules);
  std::vector<std::string> both = {"-Cb",          "4", "-Crb",         "3-3", "--cpu-strict-batch", "0",
                                   "--prio-batch", "1", "--poll-batch", "0"};
  both.insert(both.end(), single.begin(), single.end());
  EXPECT_EQ(batch(both), (ThreadRules{.processors = {2, 3}, .one_each = false, .priority = 1, .poll = 0}));
  EXPECT_EQ(with_threads(both)->thread_rules, rules);
}

}  // namespace
}  // namespace kvkeep::cli
