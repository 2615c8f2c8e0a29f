// Cases in which libllama silently goes wrong if state is more than rows of full attention; the engine prevents each.

#include <gtest/gtest.h>

#include <cstdlib>

#include "engine/llama/model_params.h"
#include "engine/llama/state_parts.h"
#include "engine/llama/windowed_memory.h"
#include "testing/models/recorded_run.h"

namespace kvkeep::engine::llama {
namespace {

constexpr std::size_t kTextEnd = 8 * kSlice;
constexpr std::size_t kTextMiddle = 4 * kSlice;
constexpr std::uint32_t kManyTokens = 1000;  // more than the cells of windowed layers in these contexts

constexpr ClassModel kWindowedModel{"gemma3", kTestWindow, MemoryClass::kWindowed};
constexpr ClassModel kHybridModel{"qwen35", 0, MemoryClass::kHybrid};
constexpr ClassModel kWindowedHybrid{"lfm2", kTestWindow, MemoryClass::kHybrid};
constexpr ClassModel kRecurrentModel{"mamba2", 0, MemoryClass::kRecurrent};
constexpr ClassModel kOpaqueModel{"deepseek4", kTestWindow, MemoryClass::kOpaque};

DecodeStatus decode_one(LlamaEngine& engine, SeqId seq) {
  const BatchToken next{seq, 1000, engine.memory().length(seq), true};
  return engine.decode(std::span(&next, 1));
}

std::vector<TokenId> text() { return make_prompt(kTextEnd, 1); }

// --- a range copy ends the process on some architectures

void copy_a_range_of_an_opaque_model() {
  ggml_set_abort_callback([](const char* message) {
    std::fprintf(stderr, "%s\n", message);
    std::_Exit(3);
  });
  const auto engine = load_or_die(class_options(kOpaqueModel));
  static_cast<void>(prefill(*engine, kFirst, text(), kSlice));
  llama_memory_seq_cp(llama_get_memory(&engine->context()), 0, 1, 10, 20);
}

TEST(MemoryTrapDeathTest, ARangeCopyEndsTheProcess) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(copy_a_range_of_an_opaque_model(), ::testing::ExitedWithCode(3), "GGML_ASSERT");
}

TEST(MemoryTrapTest, AnOpaqueModelIsForkedOnlyAtItsEnd) {
  const auto engine = load_or_die(class_options(kOpaqueModel));
  const RecordedRun run(*engine, kFirst, text());
  ASSERT_TRUE(engine->memory().fork(kFirst, kSecond, Position{kTextMiddle}).ok());
  EXPECT_EQ(engine->memory().length(kSecond), Position{kTextMiddle});
  EXPECT_EQ(decode_one(*engine, kSecond), DecodeStatus::kFailed);
  ASSERT_TRUE(run.restore_last_leaf(kSecond).ok());
  EXPECT_EQ(decode_one(*engine, kSecond), DecodeStatus::kOk);
}

// This is why --parallel is part of their fingerprint.
TEST(MemoryTrapTest, AnOpaqueStateIsOfContextsWithAsManySequences) {
  const ModelOptions options = class_options(kOpaqueModel);
  const auto engine = load_or_die(options);
  const auto context_of = [&](std::uint32_t sequences) {
    auto* model = const_cast<llama_model*>(llama_get_model(&engine->context()));
    return ContextHandle(llama_init_from_model(model, *make_context_params(options, sequences)));
  };
  const ContextHandle one = context_of(1);
  const ContextHandle four = context_of(4);
  for (const auto& [from, to] : {std::pair(&one, &four), std::pair(&four, &one)}) {
    std::vector<llama_token> tokens{10, 11, 12, 13, 14};
    ASSERT_EQ(llama_decode(from->get(), llama_batch_get_one(tokens.data(), 5)), 0);
    const auto state = get_state(**from, 0, StatePart::kWhole);
    EXPECT_FALSE(set_state(**to, 0, StatePart::kWhole, *state).ok());
    EXPECT_TRUE(set_state(**from, 0, StatePart::kWhole, *state).ok());
  }
}

// --- window cells that forks share run out

// Returns for how many tokens, up to `most`, a fork can be decoded.
std::size_t decodable(LlamaEngine& engine, std::size_t most) {
  for (std::size_t done = 0; done < most; ++done) {
    if (decode_one(engine, kSecond) != DecodeStatus::kOk || decode_one(engine, kFirst) != DecodeStatus::kOk)
      return done;
  }
  return most;
}

class SharedWindowTest : public ::testing::TestWithParam<ClassModel> {};

TEST_P(SharedWindowTest, AForkHasWindowCellsOfItsOwn) {
  const auto engine = load_or_die(class_options(GetParam()));
  const auto all_sequences = static_cast<std::int32_t>(engine->memory().sequence_count());
  ASSERT_EQ(prefill(*engine, kFirst, make_prompt(kManyTokens, 1), kSlice), DecodeStatus::kOk);
  for (std::int32_t i = 1; i < all_sequences; ++i) {
    ASSERT_TRUE(engine->memory().fork(kFirst, SeqId{i}, Position{kManyTokens}).ok());
  }
  EXPECT_EQ(decodable(*engine, 300), 300U);
}

INSTANTIATE_TEST_SUITE_P(Models, SharedWindowTest, ::testing::Values(kWindowedModel, kWindowedHybrid),
                         class_model_name);

// The trap itself: cells that stay shared are never reused.
TEST(MemoryTrapTest, SharedWindowCellsRunOut) {
  const auto engine = load_or_die(class_options(kWindowedModel));
  llama_memory_t memory = llama_get_memory(&engine->context());
  ASSERT_EQ(prefill(*engine, kFirst, make_prompt(kManyTokens, 1), kSlice), DecodeStatus::kOk);
  llama_memory_seq_cp(memory, 0, 1, -1, -1);
  DecodeStatus status = DecodeStatus::kOk;
  for (int i = 0; i < 300 && status == DecodeStatus::kOk; ++i) status = decode_one(*engine, kFirst);
  EXPECT_EQ(status, DecodeStatus::kNoCells);
}

// --- rows are read without the window

class DroppedWindowTest : public ::testing::TestWithParam<ClassModel> {};

// Rows and the windows of other sequences stay, and no cell is taken that others might need.
TEST_P(DroppedWindowTest, LeavesTheRest) {
  const auto engine = load_or_die(class_options(GetParam()));
  llama_context& context = engine->context();
  llama_memory_t memory = llama_get_memory(&context);
  ASSERT_EQ(prefill(*engine, kFirst, make_prompt(kManyTokens, 1), kSlice), DecodeStatus::kOk);
  const auto before = get_state(context, 0, StatePart::kWhole);
  const Position complete_from = engine->memory().complete_from(kFirst);
  const std::size_t rows = state_size(context, 0, StatePart::kWhole) - state_size(context, 0, StatePart::kPartial);
  const auto empty = get_state(context, 1, StatePart::kPartial);
  llama_memory_seq_cp(memory, 0, 1, -1, -1);
  ASSERT_TRUE(set_state(context, 1, StatePart::kPartial, *empty).ok());  // drops recurrent state, but no window
  ASSERT_GT(state_size(context, 1, StatePart::kPartial), empty->size());
  drop_window(context, 1);
  EXPECT_EQ(state_size(context, 1, StatePart::kPartial), empty->size());
  EXPECT_EQ(state_size(context, 1, StatePart::kWhole), rows + empty->size());
  llama_memory_seq_rm(memory, 1, -1, -1);
  EXPECT_EQ(*get_state(context, 0, StatePart::kWhole), *before);
  EXPECT_EQ(engine->memory().complete_from(kFirst), complete_from);
  EXPECT_EQ(decode_one(*engine, kFirst), DecodeStatus::kOk);
}

INSTANTIATE_TEST_SUITE_P(Models, DroppedWindowTest, ::testing::Values(kWindowedModel, kWindowedHybrid),
                         class_model_name);

// --- a cut that libllama grants although the window there is gone

TEST(MemoryTrapTest, ACutBeforeTheWindowIsGrantedAndDoesNotStand) {
  const auto engine = load_or_die(class_options(kWindowedModel));
  ASSERT_EQ(prefill(*engine, kFirst, make_prompt(kManyTokens, 1), kSlice), DecodeStatus::kOk);
  const Position least = engine->memory().complete_from(kFirst);
  ASSERT_GT(least, Position{kTestWindow});
  ASSERT_TRUE(engine->memory().truncate(kFirst, Position{least.value() - 1}));
  EXPECT_EQ(engine->memory().length(kFirst), Position{least.value() - 1});
  EXPECT_EQ(decode_one(*engine, kFirst), DecodeStatus::kFailed);
}

TEST(MemoryTrapTest, WindowRowsThatHaveSlidOffAreNotFound) {
  const auto engine = load_or_die(class_options(kWindowedModel));
  ASSERT_EQ(prefill(*engine, kFirst, make_prompt(kManyTokens, 1), kSlice), DecodeStatus::kOk);
  const std::uint32_t window = engine->memory().shape().window_tokens;
  const std::uint32_t first = engine->memory().complete_from(kFirst).value() - window;
  std::vector<std::byte> bytes(engine->memory().window_bytes(window));
  EXPECT_TRUE(engine->memory().save_window(kFirst, token_range(first, first + window), bytes).ok());
  const auto gone = engine->memory().save_window(kFirst, token_range(first - 1, first + 10), bytes);
  ASSERT_FALSE(gone.ok());
  EXPECT_EQ(gone.error().kind, ErrorKind::kNotFound);
  EXPECT_EQ(decode_one(*engine, kFirst), DecodeStatus::kOk);
}

// Other sequences may take cells that lie before a window, but never those within it.
TEST(MemoryTrapTest, AnIdleSequenceStaysCompleteWhileOthersAreDecoded) {
  const auto engine = load_or_die(class_options(kWindowedModel));
  ASSERT_EQ(prefill(*engine, kFirst, text(), kSlice), DecodeStatus::kOk);
  ASSERT_EQ(prefill(*engine, kSecond, make_prompt(1200, 2), kSlice), DecodeStatus::kOk);
  EXPECT_LE(engine->memory().complete_from(kFirst), Position{kTextEnd});
  EXPECT_EQ(decode_one(*engine, kFirst), DecodeStatus::kOk);
}

// --- recurrent state is of one position

class RecurrentTest : public ::testing::TestWithParam<ClassModel> {};

TEST_P(RecurrentTest, NoStepBackIsComplete) {
  const auto engine = load_or_die(class_options(GetParam()));
  EXPECT_EQ(llama_n_rs_seq(&engine->context()), 0U) << "libllama's rollback can leave a wrong state";
  ASSERT_EQ(prefill(*engine, kFirst, text(), kSlice), DecodeStatus::kOk);
  EXPECT_EQ(engine->memory().complete_from(kFirst), Position{kTextEnd});
  ASSERT_TRUE(engine->memory().truncate(kFirst, Position{kTextEnd - 1}));
  EXPECT_EQ(engine->memory().length(kFirst), Position{kTextEnd - 1});
  EXPECT_EQ(decode_one(*engine, kFirst), DecodeStatus::kFailed);
}

TEST_P(RecurrentTest, APointOfAnotherPositionIsRefused) {
  const auto engine = load_or_die(class_options(GetParam()));
  const RecordedRun run(*engine, kFirst, text());
  const auto before = save_point(*engine, kFirst);
  ASSERT_TRUE(run.restore_rows(kSecond, kTextMiddle).ok());
  for (const std::size_t other : {kTextMiddle - kSlice, kTextMiddle + kSlice}) {
    engine->memory().clear(kSecond);
    ASSERT_TRUE(run.restore_rows(kSecond, kTextMiddle).ok());
    cache::RowPiece wrong = run.point(other);
    wrong.stored = wrong.wanted = token_range(kTextMiddle, kTextMiddle);
    EXPECT_EQ(engine->memory().restore_point(kSecond, std::span(&wrong, 1)).error().kind, ErrorKind::kDamaged);
    EXPECT_EQ(engine->memory().length(kSecond), Position{0});
  }
  EXPECT_EQ(save_point(*engine, kFirst), before);
}

// After a 0 from libllama the sequence is damaged, differently in each kind of memory.
TEST_P(RecurrentTest, ADamagedPointEmptiesTheSequenceAndNoOther) {
  const auto engine = load_or_die(class_options(GetParam()));
  const RecordedRun run(*engine, kFirst, text());
  const auto before = save_point(*engine, kFirst);
  const auto point = run.point(kTextMiddle);
  std::vector<std::byte> other_magic(point.bytes.begin(), point.bytes.end());
  other_magic[0] ^= std::byte{1};
  for (const ByteSpan bytes :
       {point.bytes.first(point.bytes.size() / 2), point.bytes.first(4), ByteSpan(other_magic)}) {
    ASSERT_TRUE(run.restore_rows(kSecond, kTextMiddle).ok());
    const cache::RowPiece damaged{point.stored, point.wanted, bytes};
    EXPECT_EQ(engine->memory().restore_point(kSecond, std::span(&damaged, 1)).error().kind, ErrorKind::kDamaged);
    EXPECT_EQ(engine->memory().length(kSecond), Position{0});
  }
  EXPECT_EQ(save_point(*engine, kFirst), before);
  ASSERT_TRUE(run.restore(kSecond, kTextMiddle).ok());
  EXPECT_EQ(decode_one(*engine, kSecond), DecodeStatus::kOk);
}

TEST_P(RecurrentTest, RowsAfterAPointTakeItAway) {
  const auto engine = load_or_die(class_options(GetParam()));
  const RecordedRun run(*engine, kFirst, text());
  ASSERT_TRUE(run.restore(kSecond, kTextMiddle).ok());
  ASSERT_TRUE(run.restore_rows(kSecond, kTextEnd).ok());
  EXPECT_EQ(decode_one(*engine, kSecond), DecodeStatus::kFailed);
  ASSERT_TRUE(run.restore_last_leaf(kSecond).ok());
  EXPECT_EQ(decode_one(*engine, kSecond), DecodeStatus::kOk);
}

// A fork shares recurrent state with its source until one of them is decoded.
TEST_P(RecurrentTest, AForkThatIsDecodedDoesNotChangeItsSource) {
  const auto engine = load_or_die(class_options(GetParam()));
  ASSERT_EQ(prefill(*engine, kFirst, text(), kSlice), DecodeStatus::kOk);
  const auto before = save_point(*engine, kFirst);
  ASSERT_TRUE(engine->memory().fork(kFirst, kSecond, Position{kTextEnd}).ok());
  ASSERT_EQ(prefill(*engine, kSecond, make_prompt(100, 3), kSlice), DecodeStatus::kOk);
  EXPECT_EQ(save_point(*engine, kFirst), before);
}

INSTANTIATE_TEST_SUITE_P(Models, RecurrentTest, ::testing::Values(kHybridModel, kRecurrentModel, kOpaqueModel),
                         class_model_name);

// --- damaged windows

TEST(MemoryTrapTest, DamagedWindowRowsAreRefusedAndTheSequenceIsEmpty) {
  const auto engine = load_or_die(class_options(kWindowedModel));
  const RecordedRun run(*engine, kFirst, text());
  const std::uint32_t window = engine->memory().shape().window_tokens;
  auto pieces = run.windows(token_range(kTextMiddle - window, kTextMiddle));
  ASSERT_TRUE(run.restore_rows(kSecond, kTextMiddle).ok());
  pieces.back().bytes = pieces.back().bytes.first(pieces.back().bytes.size() - 1);
  EXPECT_EQ(engine->memory().restore_point(kSecond, pieces).error().kind, ErrorKind::kDamaged);
  EXPECT_EQ(engine->memory().length(kSecond), Position{0});
  ASSERT_TRUE(run.restore(kSecond, kTextMiddle).ok());
  EXPECT_EQ(decode_one(*engine, kSecond), DecodeStatus::kOk);
}

// --- a decode that is stopped half-way

TEST_P(RecurrentTest, ACancelledDecodeLeavesNoHalfState) {
  const auto engine = load_or_die(class_options(GetParam()));
  ASSERT_EQ(prefill(*engine, kFirst, text(), kSlice), DecodeStatus::kOk);
  engine->cancel();
  EXPECT_EQ(decode_one(*engine, kFirst), DecodeStatus::kAborted);
  engine->reset_cancel();
  EXPECT_EQ(decode_one(*engine, kFirst), DecodeStatus::kOk) << "stopped before it began: nothing happened";
}

// --- numbers that are none stay in freed cells

// Restores a point of the sequence that ends in NaN.
void spoil(LlamaEngine& engine, SeqId seq) {
  std::vector<std::byte> point = save_point(engine, seq);
  std::fill(point.end() - 4096, point.end(), std::byte{0xff});
  const Position end = engine.memory().length(seq);
  const cache::RowPiece piece{{end, end}, {end, end}, point};
  ASSERT_TRUE(engine.memory().restore_point(seq, {&piece, 1}).ok());
  EXPECT_EQ(decode_one(engine, seq), DecodeStatus::kOk);
  EXPECT_FALSE(engine.has_finite_logits(0));
}

class BadLogitsTest : public ::testing::TestWithParam<ClassModel> {};

TEST_P(BadLogitsTest, ThePlaceOfASequenceIsUsableAfterAWipe) {
  const auto engine = load_or_die(class_options(GetParam()));
  ASSERT_EQ(prefill(*engine, kFirst, text()), DecodeStatus::kOk);
  EXPECT_TRUE(engine->has_finite_logits(last_index(text().size())));
  const std::vector<TokenId> expected = generate_greedily(*engine, kFirst, last_index(text().size()), 8);
  spoil(*engine, kFirst);
  engine->memory().clear(kFirst);
  ASSERT_EQ(prefill(*engine, kFirst, text()), DecodeStatus::kOk);
  EXPECT_FALSE(engine->has_finite_logits(last_index(text().size()))) << "libllama has mended this: wipe() may go";
  engine->memory().clear(kFirst);
  engine->wipe();
  ASSERT_EQ(prefill(*engine, kFirst, text()), DecodeStatus::kOk);
  EXPECT_TRUE(engine->has_finite_logits(last_index(text().size())));
  EXPECT_EQ(generate_greedily(*engine, kFirst, last_index(text().size()), 8), expected);
}

INSTANTIATE_TEST_SUITE_P(Llama, BadLogitsTest,
                         ::testing::Values(ClassModel{"mamba", 0, MemoryClass::kRecurrent}, kRecurrentModel,
                                           kHybridModel),
                         class_model_name);

}  // namespace
}  // namespace kvkeep::engine::llama
