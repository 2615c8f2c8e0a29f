#include "engine/llama/model_params.h"

#include <gtest/gtest.h>

namespace kvkeep::engine::llama {
namespace {

constexpr std::uint64_t kGibibyte = std::uint64_t{1} << 30;

TEST(LayersThatFitTest, CountsFromTheOutputBackwards) {
  const std::vector<std::uint64_t> layers(10, kGibibyte);
  const auto fit = [&](std::uint64_t free_gibibytes) {
    const std::uint64_t free = free_gibibytes * kGibibyte;
    return layers_that_fit(layers, kGibibyte, device_room({}, std::span(&free, 1)));
  };
  EXPECT_EQ(fit(0), 0);
  EXPECT_EQ(fit(1), 0);  // all of it is the reserve
  EXPECT_EQ(fit(2), 0);  // only the output
  EXPECT_EQ(fit(3), 2);  // and one layer
  EXPECT_EQ(fit(11), 10);
  EXPECT_EQ(fit(12), 11);  // all layers and the output
  EXPECT_EQ(fit(100), 11);
}

TEST(LayersThatFitTest, SeveralDevicesAddUpButEachKeepsItsReserve) {
  const std::vector<std::uint64_t> free{2 * kGibibyte, 3 * kGibibyte, kGibibyte / 2};
  EXPECT_EQ(device_room({}, free), 3 * kGibibyte);
  EXPECT_EQ(device_room({.reserve_bytes = {0, 2 * kGibibyte}}, free), 3 * kGibibyte);
  EXPECT_EQ(device_room({.reserve_bytes = {0}}, free), 11 * kGibibyte / 2);
  EXPECT_EQ(layers_that_fit(std::vector<std::uint64_t>(4, kGibibyte), kGibibyte, 3 * kGibibyte), 3);
}

// 32 layers of 1,024 values for K and V each: 128 KiB per token under f16.
ModelShape shape_of_8b() {
  ModelShape shape;
  shape.context_train_tokens = 131072;
  shape.layer_bytes.assign(32, 200 << 20);
  shape.k_elements.assign(32, 1024);
  shape.v_elements.assign(32, 1024);
  return shape;
}

KvRoom on_host(std::uint64_t free_bytes) { return {.host_bytes = free_bytes}; }

TEST(ChooseContextTest, TakesWhatTheModelWasTrainedForIfItFits) {
  EXPECT_EQ(*choose_context({}, shape_of_8b(), on_host(64 * kGibibyte)), 131072U);
  EXPECT_EQ(*choose_context({}, shape_of_8b(), on_host(0)), 131072U);  // not known
}

TEST(ChooseContextTest, TakesHalfOfTheMemoryAtMost) {
  EXPECT_EQ(*choose_context({}, shape_of_8b(), on_host(8 * kGibibyte)), 32768U);
  EXPECT_EQ(*choose_context({}, shape_of_8b(), on_host(kGibibyte / 8)), kLeastChosenContext);
}

TEST(ChooseContextTest, IsNoShorterThanAsked) {
  ModelOptions options;
  options.fit.least_context = 40'000;
  EXPECT_EQ(*choose_context(options, shape_of_8b(), on_host(8 * kGibibyte)), 40'000U);
  options.fit.least_context = 200'000;
  EXPECT_EQ(*choose_context(options, shape_of_8b(), on_host(8 * kGibibyte)), 131072U);
  options.fit.enabled = false;
  EXPECT_EQ(*choose_context(options, shape_of_8b(), on_host(8 * kGibibyte)), 131072U);
}

TEST(ChooseContextTest, OnDevicesItIsShortenedOnlyIfAsked) {
  const std::uint64_t weights = 32 * (200ULL << 20);
  const KvRoom room{.device_bytes = weights + 2 * kGibibyte};
  EXPECT_EQ(*choose_context({}, shape_of_8b(), room), 131072U) << "layers leave the devices instead";
  ModelOptions options;
  options.fit.least_context = 4'096;
  EXPECT_EQ(*choose_context(options, shape_of_8b(), room), 16384U);
  EXPECT_EQ(*choose_context(options, shape_of_8b(), {.device_bytes = weights / 2}), 4'096U);
  EXPECT_EQ(*choose_context(options, shape_of_8b(), {.device_bytes = weights + 16 * kGibibyte}), 131072U);
  ModelOptions by_hand = options;
  by_hand.cpu_moe_layers = 3;
  EXPECT_EQ(*choose_context(by_hand, shape_of_8b(), room), 131072U) << "not all weights lie there";
  options.n_ctx = 50'000;
  EXPECT_EQ(*choose_context(options, shape_of_8b(), room), 50'000U);
}

TEST(ChooseContextTest, SmallerTypesMakeItLonger) {
  ModelOptions options;
  options.type_k = options.type_v = KvType::kQ8_0;
  EXPECT_GT(*choose_context(options, shape_of_8b(), on_host(8 * kGibibyte)), 60000U);
}

TEST(ChooseContextTest, AGivenOneIsTakenOrRefused) {
  ModelOptions options;
  options.n_ctx = 60000;
  EXPECT_EQ(*choose_context(options, shape_of_8b(), on_host(8 * kGibibyte)), 60000U);
  const auto refused = choose_context(options, shape_of_8b(), on_host(7 * kGibibyte));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::kNoSpace);
}

TEST(ComputingTest, IsToldInWords) {
  EXPECT_EQ(to_string(Computing{}), "the CPU with 1 thread");
  EXPECT_EQ(to_string(Computing{.threads = 2, .threads_batch = 4}), "the CPU with 2 threads (4 for prompts)");
  EXPECT_EQ(to_string(Computing{.devices = {"CUDA0 (NVIDIA H200)", "CUDA1 (NVIDIA H200)"},
                                .gpu_layers = 12,
                                .all_layers = 29,
                                .threads = 8,
                                .threads_batch = 8}),
            "CUDA0 (NVIDIA H200), CUDA1 (NVIDIA H200) with 12 of 29 layers, and the CPU with 8 threads");
}

}  // namespace
}  // namespace kvkeep::engine::llama
