// State bytes of every memory class with the KV types and layouts that servers use: state that is restored elsewhere
// and saved again has the same bytes.

#include "engine/llama/state_parts.h"

#include <gtest/gtest.h>

#include "engine/llama/sequence_memory.h"
#include "testing/models/recorded_run.h"

namespace kvkeep::engine::llama {
namespace {

constexpr std::size_t kSaved = 4 * kSlice;

using StateCase = std::tuple<ClassModel, KvType, bool>;

std::string case_name(const ::testing::TestParamInfo<StateCase>& parameter) {
  const auto& [model, type, flash] = parameter.param;
  return class_model_name({model, 0}) + "_" + std::string(to_string(type)) + (flash ? "" : "_transposed");
}

class StateBytesTest : public ::testing::TestWithParam<StateCase> {
 protected:
  static ModelOptions options() {
    const auto& [model, type, flash] = GetParam();
    ModelOptions options = class_options(model);
    options.type_k = options.type_v = type;
    options.flash_attention = flash;
    return options;
  }
  // Sorted by position: cells of windows lie in any order.
  static std::vector<std::byte> sorted(ByteSpan rows, TokenRange range) {
    const auto layout = learn_layout(rows);
    EXPECT_TRUE(layout.ok());
    std::vector<cache::RowPiece> pieces;
    for (Position at = range.begin; at < range.end; at = at + 1) pieces.push_back({range, {at, at + 1}, rows});
    std::vector<std::byte> out(rows.size());
    EXPECT_EQ(join_rows(*layout, pieces, 0, out), rows.size());
    return out;
  }
};

TEST_P(StateBytesTest, ComeBackElsewhere) {
  const auto engine = load_or_die(options());
  const RecordedRun run(*engine, kFirst, make_prompt(kSaved, 1));
  ASSERT_TRUE(run.restore(kSecond, kSaved).ok());
  for (const cache::RowPiece& piece : run.rows(token_range(0, kSaved))) {
    if (piece.bytes.empty()) continue;  // the class has no rows
    EXPECT_EQ(sorted(save(*engine, kSecond, piece.stored), piece.stored), sorted(piece.bytes, piece.stored));
  }
  const cache::StateShape shape = engine->memory().shape();
  for (const cache::RowPiece& piece : run.windows(token_range(kSaved - shape.window_tokens, kSaved))) {
    const auto again = save_window(*engine, kSecond, piece.wanted);
    const auto before = save_window(*engine, kFirst, piece.wanted);
    EXPECT_EQ(sorted(again, piece.wanted), sorted(before, piece.wanted));
  }
  if (!shape.points) return;
  // A point contains the sequence's number, so that it is compared in the sequence that it was saved from.
  const auto from_second = save_point(*engine, kSecond);
  engine->memory().clear(kFirst);
  engine->memory().clear(kSecond);
  ASSERT_TRUE(run.restore_rows(kFirst, kSaved).ok());
  const cache::RowPiece moved{token_range(kSaved, kSaved), token_range(kSaved, kSaved), from_second};
  ASSERT_TRUE(engine->memory().restore_point(kFirst, std::span(&moved, 1)).ok());
  const ByteSpan saved = run.point(kSaved).bytes;
  EXPECT_EQ(save_point(*engine, kFirst), std::vector<std::byte>(saved.begin(), saved.end()));
}

TEST_P(StateBytesTest, HaveTheReportedSizes) {
  const auto engine = load_or_die(options());
  const Description& description = engine->description();
  const std::uint64_t unused_point_bytes = engine->memory().point_bytes(kSecond);
  ASSERT_EQ(prefill(*engine, kFirst, make_prompt(kSaved, 1), kSlice), DecodeStatus::kOk);
  if (description.row_bytes_per_token > 0) {
    const std::uint64_t grown = engine->memory().rows_bytes(100) - engine->memory().rows_bytes(50);
    EXPECT_EQ(grown, 50 * description.row_bytes_per_token);
    EXPECT_LE(save(*engine, kFirst, token_range(10, 60)).size(), engine->memory().rows_bytes(50));
  }
  if (description.window_bytes_per_token > 0) {
    EXPECT_EQ(engine->memory().window_bytes(20) - engine->memory().window_bytes(10),
              10 * description.window_bytes_per_token);
  }
  if (description.point_bytes > 0) {
    EXPECT_GE(save_point(*engine, kFirst).size(), description.point_bytes);
    EXPECT_GE(unused_point_bytes, description.point_bytes) << "buffers can be made before there is a state";
  }
}

constexpr ClassModel kStateModels[] = {{"gemma3", kTestWindow, MemoryClass::kWindowed},
                                       {"qwen35", 0, MemoryClass::kHybrid},
                                       {"jamba", 0, MemoryClass::kHybrid},
                                       {"mamba", 0, MemoryClass::kRecurrent},
                                       {"deepseek4", kTestWindow, MemoryClass::kOpaque}};
INSTANTIATE_TEST_SUITE_P(FlashAttention, StateBytesTest,
                         ::testing::Combine(::testing::ValuesIn(kStateModels),
                                            ::testing::Values(KvType::kF16, KvType::kQ8_0), ::testing::Values(true)),
                         case_name);
INSTANTIATE_TEST_SUITE_P(Transposed, StateBytesTest,
                         ::testing::Combine(::testing::ValuesIn(kStateModels), ::testing::Values(KvType::kF16),
                                            ::testing::Values(false)),
                         case_name);

TEST(SequenceCostsTest, IdleSequencesFitTheirMemory) {
  EXPECT_EQ(affordable_idle_sequences(8, 0), 8U);
  EXPECT_EQ(affordable_idle_sequences(8, 1), 8U);
  EXPECT_EQ(affordable_idle_sequences(8, kIdleStateBytes / 8), 8U);
  EXPECT_EQ(affordable_idle_sequences(8, kIdleStateBytes / 8 + 1), 7U);
  EXPECT_EQ(affordable_idle_sequences(8, kIdleStateBytes), 1U);
  EXPECT_EQ(affordable_idle_sequences(8, kIdleStateBytes + 1), 0U);
  EXPECT_EQ(affordable_idle_sequences(0, 1), 0U);
}

// A model without a clone, of which nothing was tried: whole states are tried in the model's own context.
TEST(UntriedModelTest, IsOpaqueAndGoesOnAfterARestore) {
  ModelOptions options = class_options({"llama", 0, MemoryClass::kOpaque});
  options.class_test_program = "/bin/false";
  const auto engine = load_or_die(options);
  EXPECT_EQ(engine->description().memory_class, MemoryClass::kOpaque);
  EXPECT_EQ(engine->memory().shape(), (cache::StateShape{.cacheable = true, .points = true, .whole_points = true}));
  EXPECT_EQ(engine->memory().cells_total(), 2048U);
  const auto prompt = make_prompt(300, 1);
  const RecordedRun run(*engine, kFirst, TokenSpan(prompt).first(kSaved));
  const auto expected = go_on(*engine, kFirst, prompt, 20);
  engine->memory().clear(kFirst);
  ASSERT_TRUE(run.restore(kSecond, kSaved).ok());
  EXPECT_EQ(largest_difference(expected, go_on(*engine, kSecond, prompt, 20)), 0);
}

// All sequences of such a model take from one pool of cells.
TEST(UntriedModelTest, AStateThatDoesNotFitIsNoDamage) {
  ModelOptions options = class_options({"llama", 0, MemoryClass::kOpaque});
  options.class_test_program = "/bin/false";
  options.n_ctx = 512;
  const auto engine = load_or_die(options);
  const RecordedRun run(*engine, kFirst, make_prompt(384, 1));
  EXPECT_EQ(engine->memory().restore_rows(kSecond, run.rows(token_range(0, 384))).error().kind, ErrorKind::kNoSpace);
  EXPECT_EQ(engine->memory().length(kSecond), Position{0});
  EXPECT_EQ(engine->memory().cells_used(), 384U);
}

TEST(WholeStateTest, RecurrentSequencesNeverWaitForCells) {
  const auto engine = load_or_die(class_options({"mamba2", 0, MemoryClass::kRecurrent}));
  EXPECT_EQ(engine->memory().cells_total(), 2048U * engine->memory().sequence_count());
  ASSERT_EQ(prefill(*engine, kFirst, make_prompt(1900, 1)), DecodeStatus::kOk);
  EXPECT_EQ(prefill(*engine, kSecond, make_prompt(1900, 2)), DecodeStatus::kOk);
}

TEST(UncachedMemoryTest, SequencesGrowAndAreCleared) {
  const auto engine = load_or_die(tiny_options());
  const auto memory =
      make_memory(engine->context(), 2, StateParts{}, ClassFinding{.memory_class = MemoryClass::kUncached});
  EXPECT_EQ(memory->shape(), cache::StateShape{});
  memory->note_appended(kFirst, 10);
  EXPECT_EQ(memory->cells_used(), 10U);
  EXPECT_EQ(memory->rows_bytes(1), 0U);
  std::vector<std::byte> bytes(1000);
  EXPECT_EQ(memory->save_rows(kFirst, token_range(0, 10), bytes).error().kind, ErrorKind::kUnsupported);
  EXPECT_EQ(memory->fork(kFirst, kSecond, Position{5}).error().kind, ErrorKind::kUnsupported);
  EXPECT_TRUE(memory->truncate(kFirst, Position{10}));
  EXPECT_FALSE(memory->truncate(kFirst, Position{5}));
  EXPECT_EQ(memory->length(kFirst), Position{0});
  EXPECT_EQ(memory->cells_used(), 0U);
}

TEST(StateBytesErrorTest, ASmallBufferIsAnErrorAndChangesNothing) {
  const auto engine = load_or_die(class_options({"mamba2", 0, MemoryClass::kRecurrent}));
  ASSERT_EQ(prefill(*engine, kFirst, make_prompt(100, 1)), DecodeStatus::kOk);
  const auto before = save_point(*engine, kFirst);
  std::vector<std::byte> small(before.size() - 1);
  EXPECT_EQ(get_state(engine->context(), 0, StatePart::kWhole, small).error().kind, ErrorKind::kIo);
  EXPECT_EQ(save_point(*engine, kFirst), before);
}

}  // namespace
}  // namespace kvkeep::engine::llama
