// Sequences with cells of their own on real models: state goes from each layout into the other byte by byte, and what
// is computed afterwards has the same bits in whatever stream, and however the sequence came there.

#include "engine/llama/stream_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "testing/models/recorded_run.h"

namespace kvkeep::engine::llama {
namespace {

constexpr SeqId kThird{2};
constexpr std::size_t kSingle = 20;
constexpr std::size_t kText = 400 + kSingle;
constexpr std::size_t kEnd = 8 * kSlice;
constexpr std::size_t kMiddle = 4 * kSlice + 10;

ModelOptions options_with(const ClassModel& model, bool own_cells) {
  ModelOptions options = class_options(model);
  options.type_k = options.type_v = KvType::kQ8_0;
  options.flash_attention = true;
  options.swa_full = true;  // else window rows lie in another order after a restore
  options.parallel = 3;
  options.n_ctx = 3 * 768;
  options.own_cells = own_cells;
  return options;
}

struct BothLayouts {
  std::unique_ptr<LlamaEngine> pool;
  std::unique_ptr<LlamaEngine> own;
};
BothLayouts& loaded(const ClassModel& model) {
  static std::map<std::string, BothLayouts> engines;
  BothLayouts& found = engines[model.architecture];
  if (!found.own) {
    found.pool = load_or_die(options_with(model, false));
    found.own = load_or_die(options_with(model, true));
  }
  return found;
}

void clear_all(LlamaEngine& engine) {
  for (std::uint32_t i = 0; i < engine.memory().sequence_count(); ++i) {
    engine.memory().clear(SeqId{static_cast<std::int32_t>(i)});
  }
}

class StreamMemoryTest : public ::testing::TestWithParam<ClassModel> {
 protected:
  StreamMemoryTest() {
    clear_all(pool_);
    clear_all(own_);
  }
  // The logits of the text's last tokens, computed alone in a memory that was empty.
  std::vector<Logits> undisturbed() {
    clear_all(own_);
    auto logits = go_on(own_, kFirst, text_, kSingle);
    clear_all(own_);
    return logits;
  }
  bool needs_leaves() { return own_.memory().shape().needs_points(); }

  LlamaEngine& pool_ = *loaded(GetParam()).pool;
  LlamaEngine& own_ = *loaded(GetParam()).own;
  std::vector<TokenId> text_ = make_prompt(kText, 1);
};

// The state that a sequence gives: rows of all tokens and its last leaf.
std::vector<std::vector<std::byte>> state_of(LlamaEngine& engine, SeqId seq) {
  const std::size_t end = engine.memory().length(seq).value();
  std::vector<std::vector<std::byte>> state{save(engine, seq, token_range(0, end))};
  const cache::StateShape shape = engine.memory().shape();
  if (shape.points) {
    state.push_back(save_point(engine, seq));
    std::ranges::fill(MutableByteSpan(state.back()).subspan(4, 4), std::byte{0});  // the sequence that it was saved of
  }
  if (shape.window_tokens > 0) state.push_back(save_window(engine, seq, token_range(end - shape.window_tokens, end)));
  return state;
}

TEST_P(StreamMemoryTest, TheLayoutIsDescribed) {
  EXPECT_TRUE(own_.description().own_cells) << own_.description().no_own_cells;
  EXPECT_TRUE(own_.memory().own_cells());
  EXPECT_FALSE(pool_.description().can_lay_out) << "nobody asked for a choice";
  EXPECT_FALSE(pool_.memory().own_cells());
  EXPECT_EQ(own_.description().memory_class, GetParam().memory_class);
  EXPECT_EQ(own_.description().context_tokens, 768U);
  EXPECT_EQ(own_.memory().sequence_count(), 3U);
  EXPECT_EQ(own_.memory().cells_total(), 3U * 768U);
  EXPECT_EQ(own_.memory().shape(), pool_.memory().shape());
}

TEST_P(StreamMemoryTest, CachesAreTheSameInBothLayouts) {
  EXPECT_EQ(own_.description().fingerprint, pool_.description().fingerprint)
      << own_.description().fingerprint_text << pool_.description().fingerprint_text;
}

TEST_P(StreamMemoryTest, StateGoesFromEachLayoutIntoTheOther) {
  const RecordedRun of_pool(pool_, kFirst, TokenSpan(text_).first(kEnd));
  const auto expected = state_of(pool_, kFirst);
  ASSERT_TRUE(of_pool.restore_into(own_, kThird, kEnd).ok());
  const auto in_own = state_of(own_, kThird);
  const TokenRange all = token_range(0, kEnd);
  clear_all(pool_);
  const cache::RowPiece rows{all, all, in_own[0]};
  ASSERT_TRUE(pool_.memory().restore_rows(kFirst, std::span(&rows, 1)).ok());
  if (needs_leaves()) {
    const std::size_t window = own_.memory().shape().window_tokens;
    const TokenRange last = token_range(window == 0 ? kEnd : kEnd - window, kEnd);
    const cache::RowPiece leaf{last, last, in_own[1]};
    ASSERT_TRUE(pool_.memory().restore_point(kFirst, std::span(&leaf, 1)).ok());
  }
  EXPECT_EQ(state_of(pool_, kFirst)[0], expected[0]);
  EXPECT_EQ(state_of(pool_, kFirst).size(), expected.size());
  const RecordedRun of_own(own_, kFirst, TokenSpan(text_).first(kEnd));
  clear_all(pool_);
  ASSERT_TRUE(of_own.restore_into(pool_, kSecond, kEnd).ok());
  EXPECT_EQ(prefill(pool_, kSecond, make_prompt(5, 9)), DecodeStatus::kOk) << "it is complete";
}

TEST_P(StreamMemoryTest, ARestoreContinuesToTheBit) {
  const auto expected = undisturbed();
  const RecordedRun run(own_, kSecond, TokenSpan(text_).first(kEnd));
  for (const std::size_t end : {kSlice, 5 * kSlice, kEnd}) {
    for (const SeqId seq : {kFirst, kThird}) {
      own_.memory().clear(seq);
      ASSERT_TRUE(run.restore(seq, end).ok());
      EXPECT_EQ(go_on(own_, seq, text_, kSingle), expected) << end << " in " << seq.value();
    }
  }
}

TEST_P(StreamMemoryTest, ARestoreInSeveralCallsIsTheSame) {
  const auto expected = undisturbed();
  const RecordedRun run(own_, kSecond, TokenSpan(text_).first(kEnd));
  for (const std::size_t end : {kSlice, 3 * kSlice, kEnd}) ASSERT_TRUE(run.restore_rows(kFirst, end).ok());
  ASSERT_TRUE(run.restore_last_leaf(kFirst).ok());
  EXPECT_EQ(go_on(own_, kFirst, text_, kSingle), expected);
}

TEST_P(StreamMemoryTest, AForkIsACopyThatContinuesToTheBit) {
  const auto expected = undisturbed();
  const RecordedRun run(own_, kSecond, TokenSpan(text_).first(kEnd));
  ASSERT_TRUE(own_.memory().fork(kSecond, kFirst, Position{kEnd}).ok());
  EXPECT_EQ(own_.memory().cells_used(), 2 * kEnd);
  EXPECT_EQ(state_of(own_, kFirst), state_of(own_, kSecond));
  own_.memory().clear(kSecond);
  ASSERT_EQ(prefill(own_, kSecond, make_prompt(300, 7), kSlice), DecodeStatus::kOk);
  EXPECT_EQ(go_on(own_, kFirst, text_, kSingle), expected) << "the source's later state is another sequence's";
}

TEST_P(StreamMemoryTest, AForkInTheMiddleAndACutContinueToTheBit) {
  const auto expected = undisturbed();
  const RecordedRun run(own_, kSecond, TokenSpan(text_).first(kEnd));
  constexpr std::size_t kCut = 4 * kSlice;
  ASSERT_TRUE(own_.memory().fork(kSecond, kFirst, Position{kCut}).ok());
  EXPECT_EQ(own_.memory().length(kFirst), Position{kCut});
  EXPECT_EQ(save(own_, kFirst, token_range(0, kCut)), save(own_, kSecond, token_range(0, kCut)));
  if (own_.memory().shape().points) {
    ASSERT_TRUE(run.restore_last_leaf(kFirst).ok());
  }
  EXPECT_EQ(go_on(own_, kFirst, text_, kSingle), expected);
  // The source keeps the window at its end, and none before that.
  const bool complete = own_.memory().complete_from(kSecond) <= Position{kCut};
  EXPECT_EQ(complete, !own_.memory().shape().needs_points());
  ASSERT_TRUE(own_.memory().truncate(kSecond, Position{kCut}));
  if (!complete) {
    ASSERT_TRUE(run.restore_last_leaf(kSecond).ok());
  }
  EXPECT_EQ(go_on(own_, kSecond, text_, kSingle), expected);
}

TEST_P(StreamMemoryTest, SavedRowsAreThoseThatTheSequenceHasNow) {
  const TokenRange first = token_range(0, kSlice);
  ASSERT_EQ(prefill(own_, kFirst, TokenSpan(text_).first(kSlice), kSlice), DecodeStatus::kOk);
  const auto before = save(own_, kFirst, first);
  EXPECT_EQ(save(own_, kFirst, first), before) << "read once";
  own_.memory().clear(kFirst);
  ASSERT_EQ(prefill(own_, kFirst, make_prompt(kSlice, 9), kSlice), DecodeStatus::kOk);
  const auto other = save(own_, kFirst, first);
  EXPECT_NE(other, before);
  ASSERT_EQ(prefill(own_, kFirst, make_prompt(kSlice, 10), kSlice), DecodeStatus::kOk);
  EXPECT_EQ(save(own_, kFirst, first), other);
  EXPECT_NE(save(own_, kFirst, token_range(kSlice, 2 * kSlice)), other);
}

TEST_P(StreamMemoryTest, SequencesComputedTogetherAreAsIfEachWereAlone) {
  const auto expected = undisturbed();
  const TokenSpan prompt = TokenSpan(text_).first(kText - kSingle);
  ASSERT_EQ(prefill(own_, kThird, make_prompt(500, 5), kSlice), DecodeStatus::kOk);
  ASSERT_EQ(prefill(own_, kFirst, prompt, 100), DecodeStatus::kOk);
  ASSERT_EQ(prefill(own_, kSecond, make_prompt(90, 6), kSlice), DecodeStatus::kOk);
  std::vector<Logits> logits;
  for (std::size_t i = 0; i < kSingle; ++i) {
    const TokenId token = text_[prompt.size() + i];
    // The engine brings them into libllama's order, and finds the logits of each again.
    const std::array<BatchToken, 3> batch{BatchToken{kThird, token, own_.memory().length(kThird), true},
                                          BatchToken{kFirst, token, own_.memory().length(kFirst), true},
                                          BatchToken{kSecond, token, own_.memory().length(kSecond), true}};
    ASSERT_EQ(own_.decode(batch), DecodeStatus::kOk);
    const auto row = own_.logits(1);
    logits.emplace_back(row.begin(), row.end());
  }
  EXPECT_EQ(logits, expected);
}

TEST_P(StreamMemoryTest, ASequenceHasItsOwnCellsAndNoMore) {
  const auto long_text = make_prompt(767, 3);
  ASSERT_EQ(prefill(own_, kFirst, long_text, 96), DecodeStatus::kOk);
  const std::array<BatchToken, 2> two{BatchToken{kFirst, 5, Position{767}}, BatchToken{kFirst, 6, Position{768}, true}};
  EXPECT_EQ(own_.decode(two), DecodeStatus::kNoCells) << "the others' cells are free, and not for it";
  EXPECT_EQ(own_.decode(std::span(two).first(1)), DecodeStatus::kOk);
  EXPECT_EQ(own_.memory().cells_owned(kFirst), 768U);
  EXPECT_EQ(prefill(own_, kSecond, long_text, 96), DecodeStatus::kOk) << "a full one takes nothing from another";
}

TEST_P(StreamMemoryTest, MoreRowsThanASequenceHasCellsAreRefused) {
  ASSERT_EQ(prefill(pool_, kFirst, make_prompt(800, 3), kSlice), DecodeStatus::kOk);
  const TokenRange all = token_range(0, 800);
  const auto saved = save(pool_, kFirst, all);
  const cache::RowPiece piece{all, all, saved};
  const Status refused = own_.memory().restore_rows(kSecond, std::span(&piece, 1));
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::kNoSpace);
  EXPECT_EQ(own_.memory().length(kSecond), Position{0});
}

// One engine goes from the pool to cells of their own and back, twice: what was saved before is restored after, and
// what is computed then has the bits of an engine that was made so.
TEST_P(StreamMemoryTest, AnEngineChangesTheLayout) {
  ModelOptions options = options_with(GetParam(), false);
  options.choose_cells = true;
  const auto engine = load_or_die(options);
  ASSERT_TRUE(engine->description().can_lay_out);
  EXPECT_EQ(engine->description().fingerprint, pool_.description().fingerprint);
  cache::ModelMemory& memory = engine->memory();
  const std::uint32_t pooled = memory.sequence_count();
  const auto expected = undisturbed();
  for (int turn = 0; turn < 2; ++turn) {
    const RecordedRun run(*engine, kSecond, TokenSpan(text_).first(kEnd));
    const auto state = state_of(*engine, kSecond);
    clear_all(*engine);
    ASSERT_TRUE(engine->lay_out(true).ok());
    EXPECT_TRUE(memory.own_cells());
    EXPECT_EQ(&engine->memory(), &memory);
    EXPECT_EQ(memory.sequence_count(), 3U);
    EXPECT_EQ(memory.cells_total(), 3U * 768U);
    ASSERT_TRUE(run.restore_into(*engine, kThird, kEnd).ok());
    ASSERT_TRUE(run.restore_into(own_, kThird, kEnd).ok());
    EXPECT_EQ(state_of(*engine, kThird), state_of(own_, kThird));
    const auto rows = save(*engine, kThird, token_range(0, kEnd));
    clear_all(own_);
    memory.clear(kThird);
    EXPECT_EQ(go_on(*engine, kFirst, text_, kSingle), expected);
    clear_all(*engine);
    ASSERT_TRUE(engine->lay_out(false).ok());
    EXPECT_FALSE(memory.own_cells());
    EXPECT_EQ(memory.sequence_count(), pooled);
    const TokenRange all = token_range(0, kEnd);
    const cache::RowPiece piece{all, all, rows};
    ASSERT_TRUE(memory.restore_rows(kFirst, std::span(&piece, 1)).ok());
    EXPECT_EQ(save(*engine, kFirst, all), state[0]);
    clear_all(*engine);
  }
  EXPECT_TRUE(engine->lay_out(false).ok()) << "it is so already";
}

INSTANTIATE_TEST_SUITE_P(Models, StreamMemoryTest,
                         ::testing::Values(ClassModel{"llama", 0, MemoryClass::kSliceable},
                                           ClassModel{"gemma3", 64, MemoryClass::kWindowed},
                                           ClassModel{"qwen35", 0, MemoryClass::kHybrid},
                                           ClassModel{"falcon-h1", 0, MemoryClass::kHybrid},
                                           ClassModel{"jamba", 0, MemoryClass::kHybrid}),
                         class_model_name);

// f16 rows, and values in columns (flash attention off), by bytes: sums of them depend on the batch.
TEST(StreamMemoryKinds, StateBytesComeBack) {
  for (const bool flash : {true, false}) {
    ModelOptions options = tiny_options();
    options.flash_attention = flash;
    options.parallel = 2;
    options.own_cells = true;
    const auto engine = load_or_die(options);
    ASSERT_TRUE(engine->description().own_cells) << engine->description().no_own_cells;
    const auto prompt = make_prompt(300, 1);
    ASSERT_EQ(prefill(*engine, kSecond, prompt), DecodeStatus::kOk);
    const TokenRange first = token_range(0, 120);
    const TokenRange rest = token_range(120, 300);
    const auto rows_of_first = save(*engine, kSecond, first);
    const auto rows_of_rest = save(*engine, kSecond, rest);
    const std::array<cache::RowPiece, 2> pieces{cache::RowPiece{first, first, rows_of_first},
                                                cache::RowPiece{rest, rest, rows_of_rest}};
    ASSERT_TRUE(engine->memory().restore_rows(kFirst, pieces).ok());
    EXPECT_EQ(save(*engine, kFirst, token_range(0, 300)), save(*engine, kSecond, token_range(0, 300))) << flash;
  }
}

TEST(StreamMemoryKinds, OtherModelsKeepOnePoolAndSayWhy) {
  const ClassModel mamba{"mamba", 0, MemoryClass::kRecurrent};
  const auto engine = load_or_die(options_with(mamba, true));
  EXPECT_FALSE(engine->description().own_cells);
  EXPECT_NE(engine->description().no_own_cells, "");
  EXPECT_EQ(engine->description().context_tokens, 3U * 768U);
  for (const ClassModel& other :
       {ClassModel{"lfm2", 64, MemoryClass::kHybrid}, ClassModel{"deepseek4", 0, MemoryClass::kOpaque}}) {
    const auto loaded = load_or_die(options_with(other, true));
    EXPECT_FALSE(loaded->description().own_cells);
    EXPECT_NE(loaded->description().no_own_cells, "") << other.architecture;
  }
}

TEST(StreamMemoryKinds, OtherModelsHaveNoChoice) {
  for (const ClassModel& other :
       {ClassModel{"mamba", 0, MemoryClass::kRecurrent}, ClassModel{"lfm2", 64, MemoryClass::kHybrid},
        ClassModel{"deepseek4", 0, MemoryClass::kOpaque}}) {
    ModelOptions options = options_with(other, false);
    options.choose_cells = true;
    const auto engine = load_or_die(options);
    EXPECT_FALSE(engine->description().can_lay_out) << other.architecture;
    EXPECT_FALSE(engine->lay_out(true).ok());
    EXPECT_FALSE(engine->memory().own_cells());
  }
  ModelOptions alone = options_with({"llama", 0, MemoryClass::kSliceable}, false);
  alone.choose_cells = true;
  alone.parallel = 1;
  EXPECT_FALSE(load_or_die(alone)->description().can_lay_out) << "one request has all cells in either layout";
}

TEST(StreamMemoryKinds, RepeatableStateIsSetApart) {
  const ClassModel llama{"llama", 0, MemoryClass::kSliceable};
  ModelOptions options = options_with(llama, true);
  const auto plain = load_or_die(options)->description().fingerprint;
  options.repeatable = true;
  EXPECT_NE(load_or_die(options)->description().fingerprint, plain);
  const ClassModel deepseek{"deepseek4", 0, MemoryClass::kOpaque};
  options = options_with(deepseek, true);
  options.repeatable = true;
  EXPECT_FALSE(LlamaEngine::load(options).ok()) << "its results depend on other sequences";
}

}  // namespace
}  // namespace kvkeep::engine::llama
