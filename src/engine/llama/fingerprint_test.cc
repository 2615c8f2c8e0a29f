#include "engine/llama/fingerprint.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <set>

#include "testing/models/test_model.h"

namespace kvkeep::engine::llama {
namespace {

FingerprintHash hash_with(const std::function<void(ModelOptions&)>& change) {
  ModelOptions options = tiny_options();
  change(options);
  return load_or_die(options)->description().fingerprint;
}

TEST(FingerprintTest, IsTheSameForTheSameLoad) {
  EXPECT_EQ(hash_with([](ModelOptions&) {}), hash_with([](ModelOptions&) {}));
}

// One of them is the context's size: this model has one set of RoPE factors. See rope_factors_test.cc.
TEST(FingerprintTest, DoesNotDependOnWhatDoesNotChangeValues) {
  const auto plain = hash_with([](ModelOptions&) {});
  EXPECT_EQ(hash_with([](ModelOptions& o) {
              o.n_ctx = 2048;
              o.n_batch = 128;
              o.n_ubatch = 64;
              o.threads = 2;
              o.parallel = 1;
              o.idle_sequences = 5;
              o.load_mode = LoadMode::kNone;
              o.no_host = true;
              o.check_tensors = true;
            }),
            plain);
}

TEST(FingerprintTest, DoesNotDependOnTheNameOfTheFile) {
  const std::string link = ::testing::TempDir() + "linked.gguf";
  std::filesystem::remove(link);
  std::filesystem::create_symlink(tiny_model_path(), link);
  EXPECT_EQ(hash_with([&](ModelOptions& o) { o.path = link; }), hash_with([](ModelOptions&) {}));
  std::filesystem::remove(link);
}

TEST(FingerprintTest, DependsOnWhatChangesValues) {
  const std::vector<std::function<void(ModelOptions&)>> changes{
      [](ModelOptions&) {},
      [](ModelOptions& o) { o.salt = "tenant"; },
      [](ModelOptions& o) { o.type_k = KvType::kQ8_0; },
      [](ModelOptions& o) { o.type_v = KvType::kQ8_0; },
      [](ModelOptions& o) { o.flash_attention = false; },
      [](ModelOptions& o) { o.repack = false; },
      [](ModelOptions& o) { o.rope_frequency_base = 1000; },
      [](ModelOptions& o) { o.rope_frequency_scale = 0.5F; },
      [](ModelOptions& o) { o.rope_scaling = RopeScaling::kYarn; },
      [](ModelOptions& o) { o.yarn_original_context = 128; },
      [](ModelOptions& o) { o.kv_overrides = {{"llama.rope.freq_base", 9.0}}; },
      [](ModelOptions& o) { o.path = small_model_path(); },
      [](ModelOptions& o) { o.full_model_hash = true; },
  };
  std::set<FingerprintHash> seen;
  for (std::size_t i = 0; i < changes.size(); ++i) {
    EXPECT_TRUE(seen.insert(hash_with(changes[i])).second) << "change " << i;
  }
}

// Other settings that their states depend on.
TEST(FingerprintTest, NamesTheStatesOfOtherMemoryClasses) {
  const auto hash_of = [](const char* architecture, std::uint32_t window, std::uint32_t parallel) {
    return hash_with([&](ModelOptions& o) {
      o.path = tiny_model_path(architecture, window);
      o.parallel = parallel;
      o.class_test_program = "/proc/self/exe";
    });
  };
  EXPECT_EQ(hash_of("qwen35", 0, 1), hash_of("qwen35", 0, 2));
  EXPECT_EQ(hash_of("mamba2", 0, 1), hash_of("mamba2", 0, 2));
  EXPECT_EQ(hash_of("gemma3", 64, 1), hash_of("gemma3", 64, 2));
  EXPECT_NE(hash_of("gemma3", 64, 1), hash_of("gemma3", 128, 1));
  EXPECT_NE(hash_of("deepseek4", 64, 1), hash_of("deepseek4", 64, 2)) << "it can only be read by as many sequences";
}

TEST(FingerprintTest, TextIsSortedLinesAndCannotBeForged) {
  EXPECT_EQ(fingerprint_text({{"b", "2"}, {"a", "1"}}), "a=1\nb=2\n");
  EXPECT_EQ(fingerprint_text({{"salt", "x\nb=2\\"}}), "salt=x\\nb=2\\\\\n");
}

TEST(FingerprintTest, UnknownVersionsAreTheirOwnGroup) {
  EXPECT_EQ(compatible_llama_version("0.7.0"), "0.7.0");
  EXPECT_EQ(compatible_llama_version("9.9.9"), "9.9.9");
  EXPECT_NE(compatible_ggml_version("9.9.8"), compatible_ggml_version("9.9.9"));
}

}  // namespace
}  // namespace kvkeep::engine::llama
