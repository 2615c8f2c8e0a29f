// The fake engine's promise for models that need more than rows: each right way to put a sequence somewhere gives the
// expected text, and every wrong way another.

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "engine/fake/fake_engine.h"
#include "engine/fake/fake_text_fixture.h"

namespace kvkeep::engine::fake {
namespace {

using cache::RowPiece;
using Bytes = std::vector<std::byte>;

constexpr std::size_t kShortReply = 6;
constexpr std::uint32_t kLength = 40;
constexpr std::uint32_t kWindow = 16;

const std::vector<MemoryClass> kWithPoints{MemoryClass::kHybrid, MemoryClass::kRecurrent, MemoryClass::kOpaque};
const std::vector<MemoryClass> kAll{MemoryClass::kSliceable, MemoryClass::kWindowed, MemoryClass::kHybrid,
                                    MemoryClass::kRecurrent, MemoryClass::kOpaque};

FakeOptions options_of(MemoryClass memory_class) {
  FakeOptions options;
  options.memory_class = memory_class;
  options.window_tokens = kWindow;
  options.window_slack = kLength;
  return options;
}

Text prompt_of(std::size_t n) {
  Text tokens(n);
  std::iota(tokens.begin(), tokens.end(), 10);
  return tokens;
}

void decode(FakeEngine& engine, SeqId seq, TokenSpan tokens) {
  std::vector<BatchToken> batch;
  for (const TokenId token : tokens) batch.push_back({seq, token, engine.memory().length(seq) + batch.size(), true});
  ASSERT_EQ(engine.decode(batch), DecodeStatus::kOk);
}

Text generate_from(FakeEngine& engine, SeqId seq, TokenSpan prompt) {
  auto sampler = engine.make_sampler(greedy());
  Text rest(prompt.begin() + engine.memory().length(seq).value(), prompt.end());
  Text text;
  while (text.size() < kShortReply) {
    decode(engine, seq, rest);
    text.push_back(engine.sample(**sampler, rest.size() - 1));
    rest = {text.back()};
  }
  return text;
}

// All state that can be saved of a sequence that was prefilled token by token.
struct Saved {
  Bytes rows;                 // [0, kLength)
  std::vector<Bytes> points;  // by position; 0 is empty
};

Bytes save_window(FakeEngine& engine, SeqId seq, TokenRange rows) {
  Bytes bytes(engine.memory().window_bytes(rows.size()));
  EXPECT_TRUE(engine.memory().save_window(seq, rows, bytes).ok());
  return bytes;
}

Saved save_all(FakeEngine& engine, const Text& prompt) {
  Saved saved;
  saved.points.emplace_back();
  for (std::size_t i = 0; i < kLength; ++i) {
    decode(engine, kFirst, TokenSpan(prompt).subspan(i, 1));
    saved.points.emplace_back(engine.memory().point_bytes(kFirst));
    if (engine.memory().shape().points) {
      EXPECT_TRUE(engine.memory().save_point(kFirst, saved.points.back()).ok());
    }
  }
  saved.rows.resize(engine.memory().rows_bytes(kLength));
  EXPECT_TRUE(engine.memory().save_rows(kFirst, range(0, kLength), saved.rows).ok());
  return saved;
}

void restore_rows(FakeEngine& engine, SeqId seq, const Saved& saved, TokenRange wanted) {
  const RowPiece piece{range(0, kLength), wanted, saved.rows};
  ASSERT_TRUE(engine.memory().restore_rows(seq, std::span(&piece, 1)).ok());
}

void restore_point(FakeEngine& engine, SeqId seq, const Bytes& bytes) {
  const TokenRange here{engine.memory().length(seq), engine.memory().length(seq)};
  const RowPiece piece{here, here, bytes};
  ASSERT_TRUE(engine.memory().restore_point(seq, std::span(&piece, 1)).ok());
}

// Restores window rows for `at`, in two pieces, the second longer than wanted.
void restore_window(FakeEngine& engine, SeqId seq, FakeEngine& source, std::size_t at) {
  const std::size_t begin = at > kWindow ? at - kWindow : 0;
  const std::size_t middle = (begin + at) / 2;
  const std::size_t end = std::min<std::size_t>(at + 2, kLength);
  std::vector<Bytes> bytes;
  std::vector<RowPiece> pieces;
  if (middle > begin) bytes.push_back(save_window(source, kFirst, range(begin, middle)));
  bytes.push_back(save_window(source, kFirst, range(middle, end)));
  if (middle > begin) pieces.push_back({range(begin, middle), range(begin, middle), bytes.front()});
  pieces.push_back({range(middle, end), range(middle, at), bytes.back()});
  ASSERT_TRUE(engine.memory().restore_point(seq, pieces).ok());
}

TEST(FakeClasses, TextDoesNotDependOnHowThePromptIsCut) {
  const Text prompt = prompt_of(kLength);
  for (const MemoryClass memory_class : kAll) {
    const Text expected = FakeEngine(options_of(memory_class)).expected_text(prompt, kShortReply, greedy());
    for (std::size_t cut = 1; cut < prompt.size(); ++cut) {
      FakeEngine engine(options_of(memory_class));
      decode(engine, kFirst, TokenSpan(prompt).first(cut));
      ASSERT_EQ(generate_from(engine, kFirst, prompt), expected) << to_string(memory_class) << cut;
    }
  }
}

TEST(FakeClasses, RowsAndThePointGiveTheExpectedTextAtEveryPosition) {
  const Text prompt = prompt_of(kLength + 3);
  for (const MemoryClass memory_class : kWithPoints) {
    FakeEngine source(options_of(memory_class));
    const Saved saved = save_all(source, prompt);
    const Text expected = source.expected_text(prompt, kShortReply, greedy());
    for (std::size_t at = 1; at <= kLength; ++at) {
      FakeEngine engine(options_of(memory_class));
      restore_rows(engine, kSecond, saved, range(0, at));
      restore_point(engine, kSecond, saved.points[at]);
      EXPECT_EQ(generate_from(engine, kSecond, prompt), expected) << to_string(memory_class) << " at " << at;
    }
  }
}

TEST(FakeClasses, AMissingWrongOrDamagedPointGivesAnotherText) {
  const Text prompt = prompt_of(kLength + 3);
  for (const MemoryClass memory_class : kWithPoints) {
    FakeEngine source(options_of(memory_class));
    const Saved saved = save_all(source, prompt);
    const Text expected = source.expected_text(prompt, kShortReply, greedy());
    for (std::size_t at = 2; at <= kLength; ++at) {
      SCOPED_TRACE(std::string(to_string(memory_class)) + " at " + std::to_string(at));
      FakeEngine missing(options_of(memory_class));
      restore_rows(missing, kSecond, saved, range(0, at));
      EXPECT_NE(generate_from(missing, kSecond, prompt), expected);
      FakeEngine wrong(options_of(memory_class));
      restore_rows(wrong, kSecond, saved, range(0, at));
      restore_point(wrong, kSecond, saved.points[at - 1]);
      EXPECT_NE(generate_from(wrong, kSecond, prompt), expected);
      FakeEngine damaged(options_of(memory_class));
      Bytes bytes = saved.points[at];
      bytes[bytes.size() - 3] ^= std::byte{4};
      restore_rows(damaged, kSecond, saved, range(0, at));
      restore_point(damaged, kSecond, bytes);
      EXPECT_NE(generate_from(damaged, kSecond, prompt), expected);
    }
  }
}

TEST(FakeClasses, APointBeforeTheRowsIsLost) {
  const Text prompt = prompt_of(kLength + 3);
  FakeEngine source(options_of(MemoryClass::kHybrid));
  const Saved saved = save_all(source, prompt);
  FakeEngine engine(options_of(MemoryClass::kHybrid));
  restore_rows(engine, kSecond, saved, range(0, 10));
  restore_point(engine, kSecond, saved.points[20]);
  restore_rows(engine, kSecond, saved, range(10, 20));
  EXPECT_NE(generate_from(engine, kSecond, prompt), source.expected_text(prompt, kShortReply, greedy()));
}

TEST(FakeClasses, RowsAndTheLastWindowGiveTheExpectedTextAtEveryPosition) {
  const Text prompt = prompt_of(kLength + 3);
  FakeEngine source(options_of(MemoryClass::kWindowed));
  const Saved saved = save_all(source, prompt);
  const Text expected = source.expected_text(prompt, kShortReply, greedy());
  for (std::size_t at = 1; at <= kLength; ++at) {
    FakeEngine engine(options_of(MemoryClass::kWindowed));
    restore_rows(engine, kSecond, saved, range(0, at));
    restore_window(engine, kSecond, source, at);
    EXPECT_EQ(generate_from(engine, kSecond, prompt), expected) << at;
    FakeEngine missing(options_of(MemoryClass::kWindowed));
    restore_rows(missing, kSecond, saved, range(0, at));
    EXPECT_NE(generate_from(missing, kSecond, prompt), expected) << at;
  }
}

TEST(FakeClasses, WindowRowsSlideOff) {
  FakeOptions options = options_of(MemoryClass::kWindowed);
  options.window_slack = 8;
  const Text prompt = prompt_of(kLength);
  FakeEngine engine(options);
  decode(engine, kFirst, TokenSpan(prompt).first(kWindow + 8));
  EXPECT_EQ(engine.memory().complete_from(kFirst), Position{0});
  decode(engine, kFirst, TokenSpan(prompt).subspan(kWindow + 8));
  EXPECT_EQ(engine.memory().complete_from(kFirst), Position{kLength - 8});
  Bytes bytes(engine.memory().window_bytes(kWindow));
  EXPECT_TRUE(engine.memory().save_window(kFirst, range(kLength - 8 - kWindow, kLength - 8), bytes).ok());
  const auto gone = engine.memory().save_window(kFirst, range(kLength - 9 - kWindow, kLength - 9), bytes);
  ASSERT_FALSE(gone.ok());
  EXPECT_EQ(gone.error().kind, ErrorKind::kNotFound);
}

// A sequence is complete where the memory says so; elsewhere its text is wrong until the point is restored.
TEST(FakeClasses, ForksAndTruncationsStandWhereTheySayTheyDo) {
  const Text prompt = prompt_of(kLength + 3);
  for (const MemoryClass memory_class : kAll) {
    FakeOptions options = options_of(memory_class);
    options.window_slack = 8;
    const Text expected = FakeEngine(options).expected_text(prompt, kShortReply, greedy());
    for (std::size_t end = 1; end <= kLength; ++end) {
      SCOPED_TRACE(std::string(to_string(memory_class)) + " to " + std::to_string(end));
      FakeEngine engine(options);
      decode(engine, kFirst, TokenSpan(prompt).first(kLength));
      const bool complete = Position{} + end >= engine.memory().complete_from(kFirst);
      ASSERT_TRUE(engine.memory().fork(kFirst, kSecond, Position{} + end).ok());
      EXPECT_EQ(generate_from(engine, kSecond, prompt) == expected, complete);
      ASSERT_TRUE(engine.memory().truncate(kFirst, Position{} + end));
      EXPECT_EQ(generate_from(engine, kFirst, prompt) == expected, complete);
    }
  }
}

TEST(FakeClasses, AnUnsteadyForkIsMendedByItsPoint) {
  const Text prompt = prompt_of(kLength + 3);
  for (const MemoryClass memory_class : kWithPoints) {
    FakeEngine engine(options_of(memory_class));
    const Saved saved = save_all(engine, prompt);
    ASSERT_TRUE(engine.memory().fork(kFirst, kSecond, Position{20}).ok());
    restore_point(engine, kSecond, saved.points[20]);
    EXPECT_EQ(generate_from(engine, kSecond, prompt), engine.expected_text(prompt, kShortReply, greedy()));
    EXPECT_EQ(generate_from(engine, kFirst, prompt), engine.expected_text(prompt, kShortReply, greedy()))
        << "undisturbed";
  }
}

TEST(FakeClasses, WholeStatesOfOneConversationRepeatTheirBeginning) {
  const Text prompt = prompt_of(kLength);
  FakeEngine engine(options_of(MemoryClass::kOpaque));
  const Saved saved = save_all(engine, prompt);
  EXPECT_EQ(engine.memory().rows_bytes(1), 0U);
  EXPECT_GT(saved.points[30].size(), saved.points[20].size());
  const auto header = static_cast<std::ptrdiff_t>(saved.points[30].size() - 30 * 8);
  EXPECT_TRUE(std::equal(saved.points[20].begin() + header, saved.points[20].end(), saved.points[30].begin() + header));
}

TEST(FakeClasses, ShapesSayWhatMustBeSaved) {
  const auto shape = [](MemoryClass memory_class) { return FakeEngine(options_of(memory_class)).memory().shape(); };
  EXPECT_EQ(shape(MemoryClass::kSliceable), (cache::StateShape{.cacheable = true}));
  EXPECT_EQ(shape(MemoryClass::kWindowed), (cache::StateShape{.cacheable = true, .window_tokens = kWindow}));
  EXPECT_EQ(shape(MemoryClass::kHybrid), (cache::StateShape{.cacheable = true, .points = true}));
  EXPECT_EQ(shape(MemoryClass::kOpaque), (cache::StateShape{.cacheable = true, .points = true, .whole_points = true}));
  EXPECT_FALSE(shape(MemoryClass::kUncached).cacheable);
}

}  // namespace
}  // namespace kvkeep::engine::fake
