// Rows from a real model's memory and back: bytes, logits and text must be those of an undisturbed run.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "engine/llama/row_memory.h"
#include "testing/models/test_model.h"

namespace kvkeep::engine::llama {
namespace {

constexpr SeqId kThird{2};
constexpr std::size_t kPrompt = 300;

struct MemoryKind {
  const char* name;
  KvType type_k;
  KvType type_v;
  bool flash;
};
void PrintTo(const MemoryKind& kind, std::ostream* out) { *out << kind.name; }

constexpr MemoryKind kKinds[] = {
    {"f16", KvType::kF16, KvType::kF16, true},    {"f16_transposed", KvType::kF16, KvType::kF16, false},
    {"q8_0", KvType::kQ8_0, KvType::kQ8_0, true}, {"q8_0_k_transposed_v", KvType::kQ8_0, KvType::kF16, false},
    {"mixed", KvType::kQ8_0, KvType::kF16, true},
};

ModelOptions options_of(const MemoryKind& kind) {
  ModelOptions options = tiny_options();
  options.type_k = kind.type_k;
  options.type_v = kind.type_v;
  options.flash_attention = kind.flash;
  return options;
}

// A run of rows saved from a sequence, and how much of it is to be restored.
struct SavedPiece {
  TokenRange stored;
  TokenRange wanted;
  std::vector<std::byte> bytes;
};

std::vector<cache::RowPiece> as_pieces(const std::vector<SavedPiece>& saved) {
  std::vector<cache::RowPiece> pieces;
  for (const SavedPiece& piece : saved) pieces.push_back({piece.stored, piece.wanted, piece.bytes});
  return pieces;
}

// Saves pieces that end at `cuts`; the last cut is the end.
std::vector<SavedPiece> save_pieces(LlamaEngine& engine, SeqId seq, std::initializer_list<std::size_t> cuts) {
  std::vector<SavedPiece> saved;
  std::size_t begin = 0;
  for (const std::size_t end : cuts) {
    saved.push_back({token_range(begin, end), token_range(begin, end), save(engine, seq, token_range(begin, end))});
    begin = end;
  }
  return saved;
}

std::vector<float> logits_after(LlamaEngine& engine, SeqId seq, TokenSpan tokens) {
  EXPECT_EQ(prefill(engine, seq, tokens), DecodeStatus::kOk);
  const auto row = engine.logits(last_index(tokens.size()));
  return {row.begin(), row.end()};
}

class RestoreTest : public ::testing::TestWithParam<MemoryKind> {
 protected:
  RestoreTest() : engine_(load_or_die(options_of(GetParam()))) {}
  void clear_all() {
    for (std::int32_t i = 0; i < 4; ++i) engine_->memory().clear(SeqId{i});
  }
  std::unique_ptr<LlamaEngine> engine_;
  std::vector<TokenId> prompt_ = make_prompt(kPrompt, 1);
};

TEST_P(RestoreTest, ModelIsSliceable) {
  EXPECT_EQ(engine_->description().memory_class, MemoryClass::kSliceable) << engine_->description().memory_class_reason;
  EXPECT_GT(engine_->description().row_bytes_per_token, 0U);
}

TEST_P(RestoreTest, StateBytesComeBack) {
  ASSERT_EQ(prefill(*engine_, kFirst, prompt_), DecodeStatus::kOk);
  const auto whole = save(*engine_, kFirst, token_range(0, kPrompt));
  const auto pieces = save_pieces(*engine_, kFirst, {64, 200, 201, kPrompt});
  EXPECT_EQ(save(*engine_, kFirst, token_range(0, kPrompt)), whole) << "saving leaves the source as it was";
  ASSERT_TRUE(engine_->memory().restore_rows(kSecond, as_pieces(pieces)).ok());
  EXPECT_EQ(engine_->memory().length(kSecond), Position{kPrompt});
  EXPECT_EQ(save(*engine_, kSecond, token_range(0, kPrompt)), whole);
  clear_all();
  EXPECT_EQ(engine_->memory().cells_used(), 0U);
  for (const cache::RowPiece& piece : as_pieces(pieces)) {
    ASSERT_TRUE(engine_->memory().restore_rows(kThird, std::span(&piece, 1)).ok());
  }
  EXPECT_EQ(save(*engine_, kThird, token_range(0, kPrompt)), whole);
}

TEST_P(RestoreTest, PiecesAreCutWhereOnlyPartIsWanted) {
  ASSERT_EQ(prefill(*engine_, kFirst, prompt_), DecodeStatus::kOk);
  const auto wanted = save(*engine_, kFirst, token_range(0, 150));
  auto saved = save_pieces(*engine_, kFirst, {100, kPrompt});
  saved[0].wanted = token_range(0, 90);
  saved[1] = {token_range(80, kPrompt), token_range(90, 150), save(*engine_, kFirst, token_range(80, kPrompt))};
  ASSERT_TRUE(engine_->memory().restore_rows(kSecond, as_pieces(saved)).ok());
  EXPECT_EQ(engine_->memory().length(kSecond), Position{150});
  EXPECT_EQ(engine_->memory().cells_used(), kPrompt + 150);
  EXPECT_EQ(save(*engine_, kSecond, token_range(0, 150)), wanted);
}

// Each call wants another part of the same pieces, and another sequence grows in between.
TEST_P(RestoreTest, StateBytesComeBackBetweenTokensOfAnother) {
  ASSERT_EQ(prefill(*engine_, kFirst, prompt_), DecodeStatus::kOk);
  // One by one: rows are saved in the order of their cells, and between those of another they lie in any order.
  const auto each_row = [&](SeqId seq) {
    std::vector<std::vector<std::byte>> rows;
    for (std::size_t i = 0; i < kPrompt; ++i) rows.push_back(save(*engine_, seq, token_range(i, i + 1)));
    return rows;
  };
  const auto rows = each_row(kFirst);
  const auto pieces = save_pieces(*engine_, kFirst, {32, 256, kPrompt});
  clear_all();
  const auto other = make_prompt(100, 3);
  std::size_t begin = 0;
  for (const std::size_t end : {std::size_t{20}, std::size_t{90}, std::size_t{91}, std::size_t{256}, kPrompt}) {
    ASSERT_EQ(prefill(*engine_, kThird, TokenSpan(other).subspan(begin % 90, 10)), DecodeStatus::kOk);
    std::vector<SavedPiece> wanted;
    for (const SavedPiece& piece : pieces) {
      const TokenRange part{std::max(piece.stored.begin, Position{} + begin),
                            std::min(piece.stored.end, Position{} + end)};
      if (part.begin < part.end) wanted.push_back({piece.stored, part, piece.bytes});
    }
    ASSERT_TRUE(engine_->memory().restore_rows(kSecond, as_pieces(wanted)).ok());
    begin = end;
  }
  EXPECT_EQ(each_row(kSecond), rows);
}

TEST_P(RestoreTest, LogitsInTheSamePlacementAreEqualBitForBit) {
  const auto suffix = make_prompt(40, 2);
  ASSERT_EQ(prefill(*engine_, kFirst, prompt_), DecodeStatus::kOk);
  const auto pieces = save_pieces(*engine_, kFirst, {64, 128, 200, kPrompt});
  const auto undisturbed = logits_after(*engine_, kFirst, suffix);
  clear_all();
  ASSERT_TRUE(engine_->memory().restore_rows(kFirst, as_pieces(pieces)).ok());
  EXPECT_EQ(logits_after(*engine_, kFirst, suffix), undisturbed);
}

TEST_P(RestoreTest, ForksShareCellsAndRows) {
  ASSERT_EQ(prefill(*engine_, kFirst, prompt_), DecodeStatus::kOk);
  const auto head = save(*engine_, kFirst, token_range(0, 200));
  ASSERT_TRUE(engine_->memory().fork(kFirst, kSecond, Position{200}).ok());
  EXPECT_EQ(engine_->memory().cells_used(), kPrompt);
  EXPECT_EQ(engine_->memory().cells_owned(kSecond), 0U);
  EXPECT_EQ(engine_->memory().cells_owned(kFirst), kPrompt - 200);
  EXPECT_EQ(save(*engine_, kSecond, token_range(0, 200)), head);
  engine_->memory().clear(kFirst);
  EXPECT_EQ(engine_->memory().cells_used(), 200U);
  EXPECT_EQ(save(*engine_, kSecond, token_range(0, 200)), head);
}

TEST_P(RestoreTest, RowsOfTheRestMayFollowAFork) {
  ASSERT_EQ(prefill(*engine_, kFirst, prompt_), DecodeStatus::kOk);
  const auto whole = save(*engine_, kFirst, token_range(0, kPrompt));
  ASSERT_TRUE(engine_->memory().fork(kFirst, kSecond, Position{200}).ok());
  const auto rest = save(*engine_, kFirst, token_range(150, kPrompt));
  const cache::RowPiece piece{token_range(150, kPrompt), token_range(200, kPrompt), rest};
  ASSERT_TRUE(engine_->memory().restore_rows(kSecond, std::span(&piece, 1)).ok());
  EXPECT_EQ(save(*engine_, kSecond, token_range(0, kPrompt)), whole);
}

TEST_P(RestoreTest, TruncateKeepsTheHead) {
  ASSERT_EQ(prefill(*engine_, kFirst, prompt_), DecodeStatus::kOk);
  const auto head = save(*engine_, kFirst, token_range(0, 123));
  ASSERT_TRUE(engine_->memory().truncate(kFirst, Position{123}));
  EXPECT_EQ(engine_->memory().cells_used(), 123U);
  EXPECT_EQ(save(*engine_, kFirst, token_range(0, 123)), head);
  EXPECT_EQ(prefill(*engine_, kFirst, TokenSpan(prompt_).subspan(123)), DecodeStatus::kOk);
}

// Cells of other sequences lie between and before: rows land anywhere.
TEST_P(RestoreTest, StateBytesComeBackIntoAFragmentedMemory) {
  for (std::size_t i = 0; i < 6; ++i) {
    ASSERT_EQ(prefill(*engine_, kFirst, TokenSpan(prompt_).subspan(i * 50, 50)), DecodeStatus::kOk);
    ASSERT_EQ(prefill(*engine_, kSecond, make_prompt(30, 10 + static_cast<std::uint32_t>(i))), DecodeStatus::kOk);
  }
  const auto whole = save(*engine_, kFirst, token_range(0, kPrompt));
  const auto pieces = save_pieces(*engine_, kFirst, {64, 200, 201, kPrompt});
  engine_->memory().clear(kFirst);
  ASSERT_TRUE(engine_->memory().restore_rows(kThird, as_pieces(pieces)).ok());
  EXPECT_EQ(save(*engine_, kThird, token_range(0, kPrompt)), whole);
}

// Joins, and pieces that need none, in turn; each starts where the other kind ended.
TEST_P(RestoreTest, StateBytesComeBackInManyCalls) {
  ASSERT_EQ(prefill(*engine_, kFirst, prompt_), DecodeStatus::kOk);
  const auto whole = save(*engine_, kFirst, token_range(0, kPrompt));
  const auto pieces = save_pieces(*engine_, kFirst, {10, 20, 30, 100, 105, 110, 180, 250, 251, 260, 270, 280, kPrompt});
  const Result<RowLayout> layout = learn_layout(whole);
  ASSERT_TRUE(layout);
  clear_all();
  const std::uint64_t cells = engine_->memory().cells_total();
  for (const std::size_t direct_tokens : {1, 50, 1000}) {
    for (const std::size_t joined_tokens : {1, 15, 25, 1000}) {
      RowMemory memory(engine_->context(), engine_->memory().sequence_count(), *layout,
                       {layout->bytes_of(direct_tokens) / cells, layout->bytes_of(joined_tokens)});
      const Status restored = memory.restore_rows(kSecond, as_pieces(pieces));
      ASSERT_TRUE(restored) << restored.error().message;
      std::vector<std::byte> again(whole.size());
      ASSERT_TRUE(memory.save_rows(kSecond, token_range(0, kPrompt), again));
      EXPECT_EQ(again, whole) << "direct from " << direct_tokens << " tokens, joins of " << joined_tokens;
      memory.clear(kSecond);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kinds, RestoreTest, ::testing::ValuesIn(kKinds),
                         [](const auto& instance) { return instance.param.name; });

// Text after a restore is the text of an undisturbed run, unless one of the mutants below changes the rows.
class RestoredTextTest : public ::testing::Test {
 protected:
  static constexpr std::size_t kWords = 24;

  std::vector<TokenId> text_of_undisturbed_run() {
    EXPECT_EQ(prefill(*engine_, kFirst, prompt_), DecodeStatus::kOk);
    const auto text = generate_greedily(*engine_, kFirst, last_index(kPrompt), kWords);
    EXPECT_TRUE(engine_->memory().truncate(kFirst, Position{kPrompt}));
    return text;
  }
  // Restores all but the last token, and generates from there.
  std::vector<TokenId> text_after(const std::vector<SavedPiece>& pieces, SeqId seq) {
    EXPECT_TRUE(engine_->memory().restore_rows(seq, as_pieces(pieces)).ok());
    EXPECT_EQ(prefill(*engine_, seq, TokenSpan(prompt_).subspan(engine_->memory().length(seq).value())),
              DecodeStatus::kOk);
    return generate_greedily(*engine_, seq, 0, kWords);
  }

  std::unique_ptr<LlamaEngine> engine_ = load_or_die(tiny_options(KvType::kQ8_0));
  std::vector<TokenId> prompt_ = make_prompt(kPrompt, 1);
};

TEST_F(RestoredTextTest, EqualsTheUndisturbedText) {
  const auto text = text_of_undisturbed_run();
  const auto pieces = save_pieces(*engine_, kFirst, {64, 200, kPrompt - 1});
  engine_->memory().clear(kFirst);
  EXPECT_EQ(text_after(pieces, kSecond), text);
}

TEST_F(RestoredTextTest, EqualsTheUndisturbedTextNextToOtherSequences) {
  const auto text = text_of_undisturbed_run();
  const auto pieces = save_pieces(*engine_, kFirst, {64, 200, kPrompt - 1});
  engine_->memory().clear(kFirst);
  ASSERT_EQ(prefill(*engine_, kThird, make_prompt(333, 9)), DecodeStatus::kOk);
  EXPECT_EQ(text_after(pieces, kSecond), text);
}

// Mutant: the rows of another prompt under this prompt's positions.
TEST_F(RestoredTextTest, RowsOfAnotherPrefixChangeIt) {
  const auto text = text_of_undisturbed_run();
  const auto pieces = save_pieces(*engine_, kFirst, {64, 200, kPrompt - 1});
  engine_->memory().clear(kFirst);
  ASSERT_EQ(prefill(*engine_, kFirst, make_prompt(kPrompt, 77)), DecodeStatus::kOk);
  const auto foreign = save_pieces(*engine_, kFirst, {64, 200, kPrompt - 1});
  engine_->memory().clear(kFirst);
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    auto mutant = pieces;
    mutant[i].bytes = foreign[i].bytes;
    EXPECT_NE(text_after(mutant, kSecond), text) << "segment " << i;
    engine_->memory().clear(kSecond);
  }
}

// Mutant: a segment left out. Its positions can only be left out by moving later rows down, and rows contain their
// positions, so that the restore refuses them.
TEST_F(RestoredTextTest, ALeftOutSegmentIsRefused) {
  static_cast<void>(text_of_undisturbed_run());
  auto pieces = save_pieces(*engine_, kFirst, {64, 128, 192});
  engine_->memory().clear(kFirst);
  pieces[1].bytes = pieces[2].bytes;
  EXPECT_EQ(engine_->memory().restore_rows(kSecond, as_pieces(pieces)).error().kind, ErrorKind::kDamaged);
  EXPECT_EQ(engine_->memory().length(kSecond), Position{0});
}

// With f16, sums depend on where rows lie: results are equal within the noise, and so is the choice where it is clear.
TEST(RestoredLogitsTest, F16LogitsInAnotherPlacementDifferOnlyByNoise) {
  const auto engine = load_or_die(tiny_options());
  const auto prompt = make_prompt(kPrompt, 1);
  const auto suffix = make_prompt(30, 2);
  ASSERT_EQ(prefill(*engine, kFirst, prompt), DecodeStatus::kOk);
  const auto pieces = save_pieces(*engine, kFirst, {64, 200, kPrompt});
  const auto undisturbed = logits_after(*engine, kFirst, suffix);
  engine->memory().clear(kFirst);
  ASSERT_EQ(prefill(*engine, kThird, make_prompt(321, 9)), DecodeStatus::kOk);
  ASSERT_TRUE(engine->memory().restore_rows(kSecond, as_pieces(pieces)).ok());
  const auto restored = logits_after(*engine, kSecond, suffix);
  double error = 0;
  double size = 0;
  for (std::size_t i = 0; i < restored.size(); ++i) {
    error += std::pow(static_cast<double>(restored[i]) - undisturbed[i], 2);
    size += std::pow(static_cast<double>(undisturbed[i]), 2);
  }
  EXPECT_GT(size, 0.0);
  EXPECT_LE(error / size, 5e-3);
}

}  // namespace
}  // namespace kvkeep::engine::llama
