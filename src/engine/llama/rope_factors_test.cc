// libllama does not report which factors it took, so that the tests compare rows.

#include <gtest/gtest.h>

#include <cstdio>
#include <functional>

#include "engine/llama/model_file.h"
#include "testing/models/test_model.h"

namespace kvkeep::engine::llama {
namespace {

struct State {
  FingerprintHash fingerprint;
  std::string text;
  std::vector<std::byte> rows;
};

class RopeFactorsTest : public ::testing::Test {
 protected:
  ~RopeFactorsTest() override { std::remove(path_.c_str()); }

  State state_with(std::uint32_t n_ctx, const std::function<void(ModelOptions&)>& change = [](ModelOptions&) {}) const {
    ModelOptions options = tiny_options();
    options.path = path_;
    options.n_ctx = n_ctx;
    change(options);
    const auto engine = load_or_die(options);
    EXPECT_EQ(engine->description().context_tokens, n_ctx);
    constexpr SeqId kOnly{0};
    EXPECT_EQ(prefill(*engine, kOnly, make_prompt(20, 1)), DecodeStatus::kOk);
    return {engine->description().fingerprint, engine->description().fingerprint_text,
            save(*engine, kOnly, token_range(0, 20))};
  }

  const std::string path_ = ::testing::TempDir() + "longrope.gguf";
};

bool has(const State& state, const char* line) { return state.text.find(line) != std::string::npos; }

// Rows and fingerprints change together: with the context, at the original length.
TEST_F(RopeFactorsTest, AContextAboveTheOriginalOneIsAnotherFingerprint) {
  make_longrope_model(path_, 1024);
  const State below = state_with(512);
  const State at = state_with(1024);
  const State above = state_with(1280);
  const State far_above = state_with(2048);
  EXPECT_TRUE(has(at, "\nrope_factors=short\n")) << at.text;
  EXPECT_TRUE(has(above, "\nrope_factors=long\n")) << above.text;
  EXPECT_EQ(below.fingerprint, at.fingerprint);
  EXPECT_EQ(below.rows, at.rows);
  EXPECT_NE(at.fingerprint, above.fingerprint);
  EXPECT_NE(at.rows, above.rows);
  EXPECT_EQ(above.fingerprint, far_above.fingerprint);
  EXPECT_EQ(above.rows, far_above.rows);
}

// --yarn-orig-ctx applies only to YaRN; metadata overrides do change the length.
TEST_F(RopeFactorsTest, TheOriginalLengthIsTheOneThatLibllamaCompares) {
  make_longrope_model(path_, 1024);
  const State plain_short = state_with(1024);
  const State plain_long = state_with(2048);
  const auto yarn = [](ModelOptions& options) { options.yarn_original_context = 512; };
  EXPECT_TRUE(has(state_with(1024, yarn), "\nrope_factors=short\n"));
  EXPECT_EQ(state_with(1024, yarn).rows, plain_short.rows);
  const auto moved = [](ModelOptions& options) {
    options.kv_overrides = {{"llama.rope.scaling.original_context_length", std::int64_t{512}},
                            {"llama.rope.scaling.original_context_length", std::int64_t{4096}}};
  };
  EXPECT_TRUE(has(state_with(1024, moved), "\nrope_factors=long\n"));
  EXPECT_EQ(state_with(1024, moved).rows, plain_long.rows);
}

TEST_F(RopeFactorsTest, WithoutAnOriginalLengthItIsTheTrainedOne) {
  make_longrope_model(path_, 0);
  const auto trained_for_512 = [](ModelOptions& options) {
    options.kv_overrides = {{"llama.context_length", std::int64_t{512}}};
  };
  const State trained_longer = state_with(1024);
  const State trained_shorter = state_with(1024, trained_for_512);
  EXPECT_TRUE(has(trained_longer, "\nrope_factors=short\n"));
  EXPECT_TRUE(has(trained_shorter, "\nrope_factors=long\n"));
  EXPECT_NE(trained_longer.rows, trained_shorter.rows);
}

// In cells of its own a sequence is shorter, and would have other rows.
TEST_F(RopeFactorsTest, TheLayoutChangesOnlyWhereTheFactorsStay) {
  make_longrope_model(path_, 1024);
  const auto can_change = [&](std::uint32_t n_ctx) {
    ModelOptions options = tiny_options();
    options.path = path_;
    options.n_ctx = n_ctx;
    options.parallel = 2;
    options.choose_cells = true;
    return load_or_die(options)->description().can_lay_out;
  };
  EXPECT_TRUE(can_change(1024)) << "short in both";
  EXPECT_FALSE(can_change(2048)) << "long, and short with 1,024 cells of its own";
  EXPECT_TRUE(can_change(4096)) << "long in both";
}

TEST_F(RopeFactorsTest, ModelsWithoutThemHaveNoSuchLine) {
  EXPECT_FALSE(has({{}, load_or_die(tiny_options())->description().fingerprint_text, {}}, "rope_factors"));
}

}  // namespace
}  // namespace kvkeep::engine::llama
