// The fake engine's promise: text is right exactly if all rows are right. Every right way to reach a state must give
// the expected text, every wrong way another.

#include "engine/fake/fake_engine.h"

#include <gtest/gtest.h>

#include <numeric>
#include <thread>
#include <vector>

#include "engine/fake/fake_text_fixture.h"

namespace kvkeep::engine::fake {
namespace {

using cache::RowPiece;

constexpr std::size_t kReply = 12;

Text counting(std::size_t n, TokenId first = 10) {
  Text tokens(n);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

std::vector<BatchToken> batch_of(SeqId seq, TokenSpan tokens, Position at) {
  std::vector<BatchToken> batch;
  for (std::size_t i = 0; i < tokens.size(); ++i) batch.push_back({seq, tokens[i], at + i, i + 1 == tokens.size()});
  return batch;
}

// Decodes the tokens of the prompt that are not in memory, then samples and decodes `kReply` tokens.
Text generate(FakeEngine& engine, SeqId seq, TokenSpan prompt, const SamplingParams& params = greedy()) {
  auto sampler = engine.make_sampler(params);
  for (const TokenId token : prompt) (*sampler)->accept(token);
  auto batch = batch_of(seq, prompt.subspan(engine.memory().length(seq).value()), engine.memory().length(seq));
  Text text;
  while (text.size() < kReply) {
    EXPECT_EQ(engine.decode(batch), DecodeStatus::kOk);
    text.push_back(engine.sample(**sampler, batch.size() - 1));
    batch = batch_of(seq, {&text.back(), 1}, engine.memory().length(seq));
  }
  return text;
}

std::vector<std::byte> save(FakeEngine& engine, SeqId seq, TokenRange rows) {
  std::vector<std::byte> bytes(engine.memory().rows_bytes(rows.size()));
  const auto used = engine.memory().save_rows(seq, rows, bytes);
  EXPECT_TRUE(used.ok());
  bytes.resize(used.ok() ? *used : 0);
  return bytes;
}

// Prefills the first `length` tokens of the prompt in sequence 0.
void fill(FakeEngine& engine, TokenSpan prompt, std::size_t length) {
  ASSERT_EQ(engine.decode(batch_of(kFirst, prompt.first(length), Position{0})), DecodeStatus::kOk);
}

TEST(FakeEngine, TextDoesNotDependOnHowThePromptIsCut) {
  const Text prompt = counting(40);
  const Text expected = FakeEngine().expected_text(prompt, kReply, greedy());
  ASSERT_EQ(expected.size(), kReply);
  for (std::size_t cut = 1; cut < prompt.size(); ++cut) {
    FakeEngine engine;
    fill(engine, prompt, cut);
    ASSERT_EQ(generate(engine, kFirst, prompt), expected) << cut;
  }
}

TEST(FakeEngine, EveryTokenOfThePromptCounts) {
  const Text prompt = counting(40);
  const FakeEngine engine;
  const Text expected = engine.expected_text(prompt, kReply, greedy());
  for (std::size_t i = 0; i < prompt.size(); ++i) {
    Text other = prompt;
    other[i] = 9;
    EXPECT_NE(engine.expected_text(other, kReply, greedy()), expected) << i;
  }
}

TEST(FakeEngine, AnotherModelWritesAnotherText) {
  FakeOptions options;
  options.model_seed = 2;
  const Text prompt = counting(5);
  EXPECT_NE(FakeEngine(options).expected_text(prompt, kReply, greedy()),
            FakeEngine().expected_text(prompt, kReply, greedy()));
  EXPECT_NE(FakeEngine(options).description().fingerprint, FakeEngine().description().fingerprint);
}

TEST(FakeEngine, SequencesOfOneBatchDoNotDisturbEachOther) {
  FakeEngine engine;
  const Text one = counting(8);
  const Text two = counting(8, 500);
  std::vector<BatchToken> batch;
  for (std::uint32_t i = 0; i < 7; ++i) {
    batch.push_back({kSecond, two[i], Position{i}, false});
    batch.push_back({kFirst, one[i], Position{i}, false});
  }
  ASSERT_EQ(engine.decode(batch), DecodeStatus::kOk);
  EXPECT_EQ(generate(engine, kFirst, one), engine.expected_text(one, kReply, greedy()));
  EXPECT_EQ(generate(engine, kSecond, two), engine.expected_text(two, kReply, greedy()));
}

TEST(FakeEngine, AForkAndATruncationContinueRight) {
  FakeEngine engine;
  const Text prompt = counting(20);
  Text branch = counting(12);
  branch.push_back(3);
  fill(engine, prompt, 20);
  ASSERT_TRUE(engine.memory().fork(kFirst, kSecond, Position{12}).ok());
  EXPECT_EQ(engine.memory().cells_used(), 20U);
  EXPECT_EQ(engine.memory().cells_owned(kFirst), 8U);
  EXPECT_EQ(generate(engine, kSecond, branch), engine.expected_text(branch, kReply, greedy()));
  ASSERT_TRUE(engine.memory().truncate(kFirst, Position{19}));
  EXPECT_EQ(generate(engine, kFirst, prompt), engine.expected_text(prompt, kReply, greedy()));
}

// Every cut of the prompt into two saved pieces, and every overlap between the pieces.
TEST(FakeEngine, RestoredPiecesContinueRight) {
  FakeEngine engine;
  const Text prompt = counting(14);
  fill(engine, prompt, 13);
  for (std::uint32_t length = 1; length <= 13; ++length) {
    for (std::uint32_t cut = 0; cut <= length; ++cut) {
      for (std::uint32_t begin = 0; begin <= cut; ++begin) {
        const auto head = save(engine, kFirst, range(0, 13));
        const auto tail = save(engine, kFirst, range(begin, length));
        const std::vector<RowPiece> pieces{{range(0, 13), range(0, cut), head},
                                           {range(begin, length), range(cut, length), tail}};
        ASSERT_TRUE(engine.memory().restore_rows(kSecond, pieces).ok());
        ASSERT_EQ(engine.memory().length(kSecond), Position{length});
        ASSERT_EQ(save(engine, kSecond, range(0, length)), save(engine, kFirst, range(0, length)));
        ASSERT_EQ(generate(engine, kSecond, prompt), engine.expected_text(prompt, kReply, greedy()));
        engine.memory().clear(kSecond);
      }
    }
  }
}

// The mutants: the engine accepts each, as libllama would, and each changes the text.
class WrongRows : public ::testing::Test {
 protected:
  void SetUp() override { fill(engine_, prompt_, 19); }
  void expect_wrong_text(std::vector<RowPiece> pieces) {
    ASSERT_TRUE(engine_.memory().restore_rows(kSecond, pieces).ok());
    EXPECT_NE(generate(engine_, kSecond, prompt_), engine_.expected_text(prompt_, kReply, greedy()));
  }
  FakeEngine engine_;
  Text prompt_ = counting(20);
};

TEST_F(WrongRows, RowsOfAnotherPrefix) {
  FakeEngine other;
  Text prefix = prompt_;
  prefix[3] = 7;
  fill(other, prefix, 19);
  const auto bytes = save(other, kFirst, range(8, 16));  // the same tokens after another beginning
  expect_wrong_text(
      {{range(0, 8), range(0, 8), save(engine_, kFirst, range(0, 8))}, {range(8, 16), range(8, 16), bytes}});
}

TEST_F(WrongRows, RowsOfAnotherPositionOrLeftOut) {
  const auto head = save(engine_, kFirst, range(0, 8));
  const auto later = save(engine_, kFirst, range(9, 17));
  expect_wrong_text({{range(0, 8), range(0, 8), head}, {range(8, 16), range(8, 16), later}});
}

TEST_F(WrongRows, RowsOfAnotherModel) {
  FakeOptions options;
  options.model_seed = 2;
  FakeEngine other(options);
  fill(other, prompt_, 19);
  expect_wrong_text({{range(0, 8), range(0, 8), save(other, kFirst, range(0, 8))}});
}

TEST_F(WrongRows, WithAnyByteDamaged) {
  const auto sound = save(engine_, kFirst, range(0, 6));
  for (std::size_t i = 16; i < sound.size(); ++i) {  // 16 bytes of header
    auto bytes = sound;
    bytes[i] ^= std::byte{0x10};
    expect_wrong_text({{range(0, 6), range(0, 6), bytes}});
    engine_.memory().clear(kSecond);
  }
}

TEST_F(WrongRows, AfterAFailedDecodeThatNobodyClearedUp) {
  for (const FakeFaults faults : {FakeFaults{.fail_decode = 1}, FakeFaults{.abort_decode = 1}}) {
    engine_.memory().clear(kSecond);
    ASSERT_TRUE(engine_.memory().fork(kFirst, kSecond, Position{10}).ok());
    engine_.set_faults(faults);
    EXPECT_NE(engine_.decode(batch_of(kSecond, TokenSpan(prompt_).subspan(10, 8), Position{10})), DecodeStatus::kOk);
    EXPECT_EQ(engine_.memory().length(kSecond), Position{14});
    ASSERT_TRUE(engine_.memory().truncate(kSecond, Position{10}));  // not enough: the sequence is unreliable
    EXPECT_NE(save(engine_, kSecond, range(0, 10)), save(engine_, kFirst, range(0, 10)));
    EXPECT_NE(generate(engine_, kSecond, prompt_), engine_.expected_text(prompt_, kReply, greedy()));
    engine_.memory().clear(kSecond);
    EXPECT_EQ(generate(engine_, kSecond, prompt_), engine_.expected_text(prompt_, kReply, greedy()));
  }
}

TEST_F(WrongRows, BytesOfAnotherShapeAreRefusedAndTheSequenceIsEmpty) {
  const auto sound = save(engine_, kFirst, range(0, 8));
  std::vector<std::vector<std::byte>> damaged_bytes{{}, {sound.begin(), sound.end() - 1}, sound, sound};
  damaged_bytes[2][0] ^= std::byte{1};  // magic
  damaged_bytes[3].insert(damaged_bytes[3].end(), 32, std::byte{0});
  for (const auto& bytes : damaged_bytes) {
    const std::vector<RowPiece> pieces{{range(0, 8), range(0, 4), sound}, {range(0, 8), range(4, 8), bytes}};
    const Status status = engine_.memory().restore_rows(kSecond, pieces);
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().kind, ErrorKind::kDamaged);
    EXPECT_EQ(engine_.memory().length(kSecond), Position{0});
  }
  EXPECT_EQ(engine_.memory().cells_used(), 19U);
}

TEST(FakeEngine, RunsOutOfCells) {
  FakeOptions options;
  options.cells = 10;
  FakeEngine engine(options);
  const Text prompt = counting(10);
  fill(engine, prompt, 6);
  const auto bytes = save(engine, kFirst, range(0, 6));
  EXPECT_EQ(engine.decode(batch_of(kFirst, TokenSpan(prompt).first(5), Position{6})), DecodeStatus::kNoCells);
  EXPECT_EQ(engine.memory().length(kFirst), Position{6});
  EXPECT_EQ(engine.tokens_decoded(), 6U);
  const Status status = engine.memory().restore_rows(kSecond, std::vector<RowPiece>{{range(0, 6), range(0, 6), bytes}});
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.error().kind, ErrorKind::kNoSpace);
  EXPECT_EQ(engine.decode(batch_of(kFirst, TokenSpan(prompt).first(4), Position{6})), DecodeStatus::kOk);
}

TEST(FakeEngine, FailsOnDemandOnce) {
  FakeEngine engine;
  const Text prompt = counting(6);
  engine.set_faults({.no_cells_decode = 2, .fail_save = 1, .fail_restore = 1});
  fill(engine, prompt, 2);
  EXPECT_EQ(engine.decode(batch_of(kFirst, counting(1), Position{2})), DecodeStatus::kNoCells);
  EXPECT_EQ(engine.decode(batch_of(kFirst, counting(1), Position{2})), DecodeStatus::kOk);
  std::vector<std::byte> bytes(engine.memory().rows_bytes(2));
  EXPECT_FALSE(engine.memory().save_rows(kFirst, range(0, 2), bytes).ok());
  EXPECT_TRUE(engine.memory().save_rows(kFirst, range(0, 2), bytes).ok());
  const std::vector<RowPiece> pieces{{range(0, 2), range(0, 2), bytes}};
  EXPECT_FALSE(engine.memory().restore_rows(kSecond, pieces).ok());
  EXPECT_TRUE(engine.memory().restore_rows(kSecond, pieces).ok());
}

TEST(FakeEngine, CancelStopsARunningDecodeAndLaterOnes) {
  FakeEngine engine;
  engine.set_on_decode([&](std::span<const BatchToken>) { std::thread([&] { engine.cancel(); }).join(); });
  EXPECT_EQ(engine.decode(batch_of(kFirst, counting(4), Position{0})), DecodeStatus::kAborted);
  engine.set_on_decode(nullptr);
  engine.memory().clear(kFirst);
  EXPECT_EQ(engine.decode(batch_of(kFirst, counting(4), Position{0})), DecodeStatus::kAborted);
  engine.memory().clear(kFirst);
  engine.reset_cancel();
  EXPECT_EQ(generate(engine, kFirst, counting(4)), engine.expected_text(counting(4), kReply, greedy()));
}

TEST(FakeEngine, SamplerStateMatters) {
  FakeEngine engine;
  const Text prompt = counting(6);
  SamplingParams warm;
  warm.temperature = 1.0F;
  warm.seed = 1;
  SamplingParams warm_again = warm;
  warm_again.seed = 2;
  SamplingParams penalised = greedy();
  penalised.repeat_penalty = 1.3F;
  std::vector<Text> texts;
  for (const auto& params : {greedy(), warm, warm_again, penalised}) {
    engine.memory().clear(kFirst);
    texts.push_back(generate(engine, kFirst, prompt, params));
    EXPECT_EQ(texts.back(), engine.expected_text(prompt, kReply, params));
  }
  for (std::size_t i = 1; i < texts.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) EXPECT_NE(texts[i], texts[j]) << i << " " << j;
  }
}

TEST(FakeEngine, EndOfTextComesOnlyIfConfigured) {
  FakeOptions options;
  options.vocabulary_size = 6;
  options.first_sampled_token = 2;
  options.end_of_text = 3;
  const Text never = FakeEngine(options).expected_text(Text{4, 5}, 500, greedy());
  ASSERT_EQ(never.size(), 500U);
  for (const TokenId token : never) ASSERT_TRUE(token == 2 || token == 4 || token == 5) << token;
  options.end_of_text_one_in = 20;
  const Text ends = FakeEngine(options).expected_text(Text{4, 5}, 500, greedy());
  ASSERT_LT(ends.size(), 500U);
  EXPECT_EQ(ends.back(), 3);
  SamplingParams endless = greedy();
  endless.ignore_eos = true;
  EXPECT_EQ(FakeEngine(options).expected_text(Text{4, 5}, 500, endless).size(), 500U);
}

TEST(FakeEngine, UnsupportedCallsAreReported) {
  FakeOptions options;
  options.memory_class = MemoryClass::kUncached;
  options.truncatable = false;
  FakeEngine engine(options);
  fill(engine, counting(4), 4);
  std::vector<std::byte> bytes(1000);
  EXPECT_EQ(engine.memory().rows_bytes(4), 0U);
  EXPECT_EQ(engine.description().row_bytes_per_token, 0U);
  EXPECT_FALSE(engine.memory().save_rows(kFirst, range(0, 4), bytes).ok());
  EXPECT_FALSE(engine.memory().restore_rows(kSecond, std::vector<RowPiece>{{range(0, 4), range(0, 4), bytes}}).ok());
  EXPECT_FALSE(engine.memory().truncate(kFirst, Position{2}));
  EXPECT_EQ(engine.memory().length(kFirst), Position{0});
}

TEST(FakeEngineDeathTest, BugsEndTheProcess) {
  FakeEngine engine;
  EXPECT_DEATH(engine.decode(batch_of(kFirst, counting(2), Position{1})), "continues its sequences");
  EXPECT_DEATH(engine.decode(batch_of(kFirst, Text{-1}, Position{0})), "continues its sequences");
  EXPECT_DEATH(engine.decode({}), "continues its sequences");
  auto sampler = engine.make_sampler(greedy());
  EXPECT_DEATH(engine.sample(**sampler, 0), "wanted these logits");
}

// ---- shifting ----

TEST(FakeEngine, RowsThatMovedDifferFromThoseComputedThere) {
  const Text prompt = counting(40);
  Text left = prompt;
  left.erase(left.begin() + 10, left.begin() + 20);
  FakeEngine engine;
  FakeEngine computed;
  fill(engine, prompt, 40);
  fill(computed, left, 30);
  ASSERT_TRUE(engine.memory().shift(kFirst, {Position{10}, Position{20}}).ok());
  EXPECT_EQ(engine.memory().length(kFirst), Position{30});
  EXPECT_EQ(engine.memory().cells_used(), 30U);
  EXPECT_EQ(save(engine, kFirst, {Position{0}, Position{10}}), save(computed, kFirst, {Position{0}, Position{10}}));
  for (std::uint32_t at = 10; at < 30; ++at) {
    const TokenRange row{Position{at}, Position{at + 1}};
    ASSERT_NE(save(engine, kFirst, row), save(computed, kFirst, row)) << at;
  }
  Text more = left;
  more.push_back(5);
  EXPECT_NE(generate(engine, kFirst, more), generate(computed, kFirst, more));
}

TEST(FakeEngine, AShiftLeavesForksAlone) {
  const Text prompt = counting(40);
  FakeEngine engine;
  fill(engine, prompt, 20);
  ASSERT_TRUE(engine.memory().fork(kFirst, SeqId{1}, Position{20}).ok());
  ASSERT_EQ(engine.decode(batch_of(kFirst, TokenSpan(prompt).subspan(20), Position{20})), DecodeStatus::kOk);
  ASSERT_TRUE(engine.memory().shift(kFirst, {Position{15}, Position{20}}).ok());
  EXPECT_EQ(engine.memory().cells_used(), 40U);
  EXPECT_EQ(generate(engine, SeqId{1}, prompt), engine.expected_text(prompt, kReply, greedy()));
}

TEST(FakeEngine, OnlyModelsThatNeedNothingButRowsShift) {
  for (const MemoryClass other : {MemoryClass::kWindowed, MemoryClass::kHybrid, MemoryClass::kRecurrent}) {
    FakeEngine engine({.memory_class = other});
    fill(engine, counting(30), 30);
    EXPECT_FALSE(engine.memory().can_shift());
    EXPECT_FALSE(engine.memory().shift(kFirst, {Position{1}, Position{5}}).ok());
    EXPECT_EQ(engine.memory().length(kFirst), Position{30});
  }
}

}  // namespace
}  // namespace kvkeep::engine::fake
