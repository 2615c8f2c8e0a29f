// Rows that move to other positions: exactly what libllama's own calls make of them, and nothing else moves.

#include <gtest/gtest.h>

#include "testing/models/test_model.h"

namespace kvkeep::engine::llama {
namespace {

constexpr std::size_t kTokens = 200;
constexpr std::size_t kAfterShift = 12;

class ShiftTest : public ::testing::Test {
 protected:
  static std::unique_ptr<LlamaEngine> filled() {
    auto engine = load_or_die(tiny_options());
    EXPECT_EQ(prefill(*engine, kFirst, make_prompt(kTokens, 1)), DecodeStatus::kOk);
    return engine;
  }
  // Decodes one more token and goes on from it; also saves the rows, which libllama moves in that decode.
  struct After {
    std::vector<TokenId> text;
    std::vector<std::byte> rows;
    bool operator==(const After&) const = default;
  };
  static After go_on(LlamaEngine& engine, std::size_t length) {
    const BatchToken next{kFirst, 1000, Position{static_cast<std::uint32_t>(length)}, true};
    EXPECT_EQ(engine.decode(std::span(&next, 1)), DecodeStatus::kOk);
    After after{generate_greedily(engine, kFirst, 0, kAfterShift), {}};
    after.rows = save(engine, kFirst, token_range(0, length));
    return after;
  }
};

TEST_F(ShiftTest, RowsAndTextAreThoseOfLibllamasOwnCalls) {
  const auto engine = filled();
  ASSERT_TRUE(engine->memory().can_shift());
  ASSERT_TRUE(engine->memory().shift(kFirst, token_range(20, 110)).ok());
  EXPECT_EQ(engine->memory().length(kFirst), Position{110});
  EXPECT_EQ(engine->memory().cells_used(), 110U);
  const After shifted = go_on(*engine, 110);

  const auto plain = filled();
  const llama_memory_t memory = llama_get_memory(&plain->context());
  ASSERT_TRUE(llama_memory_seq_rm(memory, 0, 20, 110));
  llama_memory_seq_add(memory, 0, 110, 200, -90);
  // The engine counts the cells of a sequence: one of this length stands for them.
  plain->memory().truncate(SeqId{0}, Position{110});
  EXPECT_EQ(shifted, go_on(*plain, 110));
}

TEST_F(ShiftTest, ASequenceNextToItIsUnchanged) {
  const auto other = make_prompt(150, 2);
  const auto engine = filled();
  ASSERT_EQ(prefill(*engine, kSecond, other), DecodeStatus::kOk);
  const auto before = save(*engine, kSecond, token_range(0, 150));
  ASSERT_TRUE(engine->memory().shift(kFirst, token_range(0, 90)).ok());
  go_on(*engine, 110);
  EXPECT_EQ(save(*engine, kSecond, token_range(0, 150)), before);
}

TEST_F(ShiftTest, AForkOfTheRowsThatStayIsUnchanged) {
  const auto engine = filled();
  const auto before = save(*engine, kFirst, token_range(0, 60));
  ASSERT_TRUE(engine->memory().fork(kFirst, kSecond, Position{60}).ok());
  ASSERT_TRUE(engine->memory().shift(kFirst, token_range(40, 100)).ok());
  EXPECT_EQ(engine->memory().cells_used(), 160U);
  go_on(*engine, 140);
  EXPECT_EQ(save(*engine, kSecond, token_range(0, 60)), before);
}

TEST_F(ShiftTest, ModelsThatNeedMoreThanRowsRefuse) {
  for (const char* name : {"gemma3", "qwen35", "mamba"}) {
    ModelOptions options = tiny_options();
    options.path = tiny_model_path(name);
    const auto engine = load_or_die(options);
    EXPECT_FALSE(engine->memory().can_shift()) << name;
    ASSERT_EQ(prefill(*engine, kFirst, make_prompt(50, 1)), DecodeStatus::kOk);
    EXPECT_FALSE(engine->memory().shift(kFirst, token_range(5, 20)).ok()) << name;
    EXPECT_EQ(engine->memory().length(kFirst), Position{50}) << name;
  }
}

}  // namespace
}  // namespace kvkeep::engine::llama
