// Chunks of pictures and sounds in a real model's memory: whatever is saved and restored, the model goes on with the
// same text, and the restored state has the same bytes. The embeddings are made up, of any shape, or come from libmtmd.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <iostream>
#include <iterator>
#include <map>
#include <set>

#include "base/media_ids.h"
#include "engine/llama/state_parts.h"
#include "engine/llama/weights.h"
#include "engine/media/mixed_prompt_fixture.h"
#include "testing/models/recorded_run.h"

namespace kvkeep::engine::media {
namespace {

constexpr std::size_t kReply = 12;
// Logits move by a share of their length when other sequences come into the memory or cells lie in another order,
// although all bytes are the same: by as much as the processor's kernels make of it, which noise() measures. A wrong
// picture moves them by more: see OtherPicturesGiveOtherLogits. Texts are not compared: a wrong picture may leave the
// likeliest tokens as they are.
constexpr double kLeastNoise = 0.003;  // of last bits where no order of cells that noise() tries shows any
constexpr double kMostNoise = 0.07;

DecodeStatus decode_chunk(LlamaEngine& engine, SeqId seq, const MadeChunk& chunk) {
  return engine.decode_media(
      seq, {.ids = chunk.ids, .embeddings = chunk.embeddings, .places = chunk.places, .at_once = chunk.at_once});
}

// Computes [length(seq), end) of the prompt. `end` is no position inside a chunk.
void compute(LlamaEngine& engine, SeqId seq, const MixedPrompt& prompt, std::size_t end) {
  for (std::size_t at = engine.memory().length(seq).value(); at < end; at = engine.memory().length(seq).value()) {
    if (const auto chunk = prompt.chunks.find(at); chunk != prompt.chunks.end()) {
      ASSERT_EQ(decode_chunk(engine, seq, chunk->second), DecodeStatus::kOk) << "chunk at " << at;
      continue;
    }
    const auto next = prompt.chunks.upper_bound(at);
    const std::size_t text_end = std::min(end, next == prompt.chunks.end() ? end : next->first);
    ASSERT_EQ(prefill(engine, seq, TokenSpan(prompt.ids).subspan(at, text_end - at)), DecodeStatus::kOk);
  }
}

struct SavedPart {
  TokenRange range;
  std::vector<std::byte> bytes;
};

// State saved while a prompt was computed: rows in pieces whose ends heed nothing, and a leaf at each border.
struct SavedPrompt {
  std::vector<SavedPart> rows;
  std::map<std::size_t, std::vector<std::byte>> leaves;
};

// Cells lie in any order. Returns them in that of ids.
std::vector<std::byte> in_order(const RowLayout& layout, const SavedPart& part, const MixedPrompt& prompt) {
  const MediaMap media(prompt.runs);
  std::vector<cache::RowPiece> pieces;
  for (Position at = part.range.begin; at < part.range.end; at = at + 1) {
    if (media.cells({at, at + 1}) > 0) pieces.push_back({part.range, {at, at + 1}, part.bytes, prompt.ids});
  }
  std::vector<std::byte> out(part.bytes.size());
  if (pieces.empty()) return out;
  EXPECT_EQ(join_rows(layout, pieces, 0, out, media), out.size());
  return out;
}

// What libllama knows of each cell besides its rows (position, column, row), in no particular order. Read here and not
// by row_layout.h, which a mistake would hide in.
std::multiset<std::vector<std::byte>> cells_of(const RowLayout& layout, ByteSpan rows) {
  constexpr std::size_t kHead = 16;
  const std::size_t size = 12 + layout.cell_extra_bytes;
  std::uint32_t count = 0;
  if (!rows.empty()) std::memcpy(&count, rows.data() + 12, sizeof count);
  std::multiset<std::vector<std::byte>> cells;
  for (std::uint32_t i = 0; i < count; ++i) {
    const ByteSpan cell = rows.subspan(kHead + i * size, size - sizeof(std::int32_t));
    cells.emplace(cell.begin(), cell.end());
  }
  return cells;
}

// Loaded once per program, since loading takes longer than a test.
LlamaEngine& loaded(const MediaModel& model, std::uint32_t n_ubatch) {
  static std::map<std::string, std::unique_ptr<LlamaEngine>> engines;
  ModelOptions options = tiny_options(KvType::kQ8_0);
  options.flash_attention = true;
  options.path = tiny_model_path(model.architecture);
  options.own_cells = model.own_cells;
  options.parallel = 3;
  options.n_ctx = options.own_cells ? 3 * 512 : 1024;
  options.n_ubatch = n_ubatch;
  options.swa_full = options.own_cells;  // else window rows lie in another order after a restore
  std::unique_ptr<LlamaEngine>& found =
      engines[model.architecture + (model.own_cells ? " own " : " ") + std::to_string(n_ubatch)];
  if (!found) found = load_or_die(options);
  return *found;
}

class MediaMemoryTest : public ::testing::TestWithParam<MediaModel> {
 protected:
  explicit MediaMemoryTest(std::uint32_t n_ubatch = 512) : engine_(&loaded(GetParam(), n_ubatch)) {
    clear_all();
    prompt_ =
        GetParam().projector.empty() ? make_mixed(GetParam(), engine_->description()) : projected_prompt(GetParam());
  }
  void SetUp() override { noise_ = noise(); }

  cache::ModelMemory& memory() { return engine_->memory(); }
  bool has_rows() { return memory().rows_bytes(1) > 0; }
  RowLayout layout(std::span<const std::byte> text_rows) { return *learn_layout(text_rows); }

  std::vector<std::byte> save_leaf(std::size_t at) {
    if (memory().shape().points) return save_point(*engine_, kFirst);
    if (memory().shape().window_tokens == 0) return {};
    const std::size_t window = std::min<std::size_t>(memory().shape().window_tokens, at);
    std::vector<std::byte> bytes(memory().window_bytes(window));
    const auto saved = memory().save_window(kFirst, token_range(at - window, at), bytes);
    if (!saved) return {};  // ids without cells: the window cannot be named by ids
    bytes.resize(*saved);
    return bytes;
  }

  // Computes the whole prompt in the first sequence.
  SavedPrompt compute_and_save() {
    SavedPrompt saved;
    for (const std::size_t border : prompt_.borders) {
      compute(*engine_, kFirst, prompt_, border);
      saved.leaves[border] = save_leaf(border);
    }
    // Ends at 32, inside the first chunk, and inside others.
    for (std::size_t at = 0; at < prompt_.ids.size();) {
      const std::size_t end = std::min(at < 32 ? 32 : at + 13, prompt_.ids.size());
      saved.rows.push_back(
          {token_range(at, end), has_rows() ? save(*engine_, kFirst, token_range(at, end)) : std::vector<std::byte>()});
      at = end;
    }
    return saved;
  }

  std::vector<cache::RowPiece> pieces(const SavedPrompt& saved, std::size_t end) const {
    std::vector<cache::RowPiece> found;
    for (const SavedPart& part : saved.rows) {
      const TokenRange wanted{part.range.begin, std::min(part.range.end, Position{static_cast<std::uint32_t>(end)})};
      if (wanted.begin < wanted.end) found.push_back({part.range, wanted, part.bytes, prompt_.ids});
    }
    return found;
  }

  // Returns false if no leaf is known there.
  bool restore(SeqId seq, const SavedPrompt& saved, std::size_t end) {
    const std::vector<std::byte>& leaf = saved.leaves.at(end);
    if (memory().shape().needs_points() && leaf.empty()) return false;
    const Status rows = memory().restore_rows(seq, pieces(saved, end));
    EXPECT_TRUE(rows.ok()) << (rows ? "" : rows.error().message);
    return put_leaf(seq, saved, end);
  }

  // Puts the leaf where the sequence ends, if the model has any. Returns false if none is known there.
  bool put_leaf(SeqId seq, const SavedPrompt& saved, std::size_t end) {
    EXPECT_EQ(memory().length(seq).value(), end);
    if (!memory().shape().needs_points()) return true;
    const std::vector<std::byte>& leaf = saved.leaves.at(end);
    if (leaf.empty()) return false;
    const std::size_t window = std::min<std::size_t>(memory().shape().window_tokens, end);
    const TokenRange range = token_range(memory().shape().points ? end : end - window, end);
    const cache::RowPiece piece{range, range, leaf, prompt_.ids};
    const Status point = memory().restore_point(seq, std::span(&piece, 1));
    EXPECT_TRUE(point.ok()) << (point ? "" : point.error().message);
    return true;
  }

  // All borders but the end, and those whose window holds ids without cells, of which no leaf is saved.
  std::size_t restorable_borders() {
    return prompt_.borders.size() - 1 - (memory().shape().window_tokens > 0 ? GetParam().unsaved_windows : 0);
  }

  void expect_same_leaf(const std::vector<std::byte>& now, const std::vector<std::byte>& before, std::size_t end) {
    ASSERT_FALSE(before.empty());
    if (memory().shape().window_tokens == 0) {
      EXPECT_EQ(now, before);
      return;
    }
    const RowLayout rows = layout(before);
    const TokenRange range = token_range(end - memory().shape().window_tokens, end);
    EXPECT_EQ(in_order(rows, {range, now}, prompt_), in_order(rows, {range, before}, prompt_));
    EXPECT_EQ(cells_of(rows, now), cells_of(rows, before));
  }

  // Of some tokens after the prompt.
  std::vector<Logits> logits(SeqId seq, const MixedPrompt& prompt) {
    compute(*engine_, seq, prompt, prompt.ids.size());
    std::vector<TokenId> text = prompt.ids;
    const std::vector<TokenId> more = make_prompt(kReply, 55);
    text.insert(text.end(), more.begin(), more.end());
    return go_on(*engine_, seq, text, more.size());
  }

  double moved(SeqId seq, const std::vector<Logits>& expected) {
    return largest_difference(logits(seq, prompt_), expected);
  }

  // The prompt's logits if so many tokens of another sequence come at each of the borders, and leave at the next one if
  // `leaves`. Nothing is saved, restored, forked or cut. Begins with an empty memory, and leaves it empty.
  std::vector<Logits> logits_among_others(const std::vector<std::size_t>& borders, std::size_t others, bool leaves) {
    for (const std::size_t border : borders) {
      compute(*engine_, kFirst, prompt_, border);
      if (leaves) memory().clear(kSecond);
      EXPECT_EQ(prefill(*engine_, kSecond, make_prompt(others, 77)), DecodeStatus::kOk);
    }
    if (leaves) memory().clear(kSecond);
    std::vector<Logits> found = logits(kFirst, prompt_);
    clear_all();
    return found;
  }
  // The largest difference that other places and another order of cells make. The second border's others leave a hole
  // before the first text, into which the cells of a chunk go.
  double moved_by_others() {
    static std::map<std::string, double> known;  // by the suite and the model
    const auto& test = *::testing::UnitTest::GetInstance()->current_test_info();
    const std::string name = test.test_suite_name() + std::string(std::strrchr(test.name(), '/'));
    if (const auto found = known.find(name); found != known.end()) return found->second;
    const std::vector<Logits> expected = logits(kFirst, prompt_);
    clear_all();
    const std::vector<std::size_t> all(prompt_.borders.begin(), std::prev(prompt_.borders.end()));
    double most = largest_difference(logits_among_others(all, 5, false), expected);
    most = std::max(most, largest_difference(logits_among_others(all, 21, true), expected));
    for (const std::size_t others : {5, 21, 33}) {
      most = std::max(most, largest_difference(logits_among_others({0, all.front()}, others, true), expected));
    }
    std::cout << "others move logits by " << most << "\n";
    return known[name] = most;
  }
  // Returns how much logits may move. Begins with an empty memory, and leaves it empty.
  double noise() { return std::clamp(2 * moved_by_others(), kLeastNoise, kMostNoise); }

  void clear_all() {
    for (std::uint32_t i = 0; i < memory().sequence_count(); ++i) memory().clear(SeqId{static_cast<std::int32_t>(i)});
  }

  LlamaEngine* engine_;
  MixedPrompt prompt_;
  double noise_ = 0;
};

TEST_P(MediaMemoryTest, NoiseOfOthersIsFarBelowAWrongPicture) { EXPECT_LE(2 * moved_by_others(), kMostNoise); }

TEST_P(MediaMemoryTest, GoesOnAfterARestoreAtEveryBorder) {
  const std::vector<Logits> expected = logits(kFirst, prompt_);
  clear_all();
  const SavedPrompt saved = compute_and_save();
  std::size_t restored = 0;
  for (const std::size_t border : prompt_.borders) {
    if (border == prompt_.ids.size()) continue;  // the last token is decoded anew
    clear_all();
    if (!restore(kSecond, saved, border)) continue;
    ++restored;
    EXPECT_EQ(memory().length(kSecond).value(), border);
    EXPECT_LE(moved(kSecond, expected), noise_) << "restored to " << border;
  }
  EXPECT_EQ(restored, restorable_borders());
}

// A chunk's cells fill a hole before those of the text, so that a piece with the end of the text begins with the chunk.
// Attention adds up cells in their order, which moves logits as well.
TEST_P(MediaMemoryTest, CellsOutOfOrderAreRestored) {
  const std::vector<Logits> expected = logits(kFirst, prompt_);
  clear_all();
  ASSERT_EQ(prefill(*engine_, kSecond, make_prompt(21, 77)), DecodeStatus::kOk);
  compute(*engine_, kFirst, prompt_, *prompt_.borders.begin());
  memory().clear(kSecond);
  const SavedPrompt saved = compute_and_save();
  for (const std::size_t border : prompt_.borders) {
    if (border == prompt_.ids.size()) continue;
    clear_all();
    if (!restore(kSecond, saved, border)) continue;
    EXPECT_LE(moved(kSecond, expected), noise_) << "restored to " << border;
  }
}

TEST_P(MediaMemoryTest, RestoredStateHasTheSameBytes) {
  const SavedPrompt saved = compute_and_save();
  clear_all();
  // Another sequence first, so that cells lie elsewhere.
  ASSERT_EQ(prefill(*engine_, kSecond, make_prompt(21, 77)), DecodeStatus::kOk);
  const std::size_t end = prompt_.ids.size();
  ASSERT_TRUE(restore(kFirst, saved, end));
  std::size_t compared = 0;
  if (memory().shape().needs_points()) {
    expect_same_leaf(save_leaf(end), saved.leaves.at(end), end);
    ++compared;
  }
  for (const SavedPart& part : saved.rows) {
    if (!has_rows()) break;
    const RowLayout rows = layout(saved.rows.back().bytes);
    const SavedPart again{part.range, save(*engine_, kFirst, part.range)};
    EXPECT_EQ(in_order(rows, again, prompt_), in_order(rows, part, prompt_)) << part.range.begin.value();
    EXPECT_EQ(cells_of(rows, again.bytes), cells_of(rows, part.bytes)) << part.range.begin.value();
    ++compared;
  }
  EXPECT_EQ(compared, (has_rows() ? saved.rows.size() : 0) + (memory().shape().needs_points() ? 1 : 0));
  EXPECT_GT(compared, 0U) << "every class has rows, a leaf or both";
}

// Recurrent and opaque state cannot be cut: the leaf of that border is put over a fork then, as a server does.
TEST_P(MediaMemoryTest, ForksAndCutsAtBordersGoOn) {
  const std::vector<Logits> expected = logits(kFirst, prompt_);
  clear_all();
  const SavedPrompt saved = compute_and_save();
  std::size_t went_on = 0;
  for (const std::size_t border : prompt_.borders) {
    const Position at{static_cast<std::uint32_t>(border)};
    if (border == prompt_.ids.size()) continue;  // the last token is decoded anew
    memory().clear(kSecond);
    ASSERT_TRUE(memory().fork(kFirst, kSecond, at).ok());
    if (!put_leaf(kSecond, saved, border)) continue;
    EXPECT_LE(moved(kSecond, expected), noise_) << "forked at " << border;
    ASSERT_TRUE(memory().truncate(kSecond, at));
    ASSERT_TRUE(put_leaf(kSecond, saved, border));
    EXPECT_LE(moved(kSecond, expected), noise_) << "cut at " << border;
    ++went_on;
  }
  EXPECT_EQ(went_on, restorable_borders());
}

TEST_P(MediaMemoryTest, ForksOfWholeSequencesGoOn) {
  const std::vector<Logits> expected = logits(kFirst, prompt_);
  clear_all();
  for (const std::size_t border : prompt_.borders) {
    compute(*engine_, kFirst, prompt_, border);
    memory().clear(kSecond);
    ASSERT_TRUE(memory().fork(kFirst, kSecond, Position{static_cast<std::uint32_t>(border)}).ok());
    EXPECT_LE(moved(kSecond, expected), noise_) << "forked at " << border;
  }
}

// Mutants of a restore, which must show in the bytes or in the text.
TEST_P(MediaMemoryTest, OtherPicturesGiveOtherLogits) {
  const std::vector<Logits> right = logits(kFirst, prompt_);
  clear_all();
  const MixedPrompt other = with_another_file(GetParam(), engine_->description(), prompt_);
  const double wrong = largest_difference(logits(kSecond, other), right);
  std::cout << "another picture moves logits by " << wrong << "\n";
  EXPECT_GT(wrong, 2 * noise_);
}

TEST_P(MediaMemoryTest, ACancelledChunkLeavesTheSequenceAsItWasOrEmpty) {
  const std::size_t begin = prompt_.chunks.begin()->first;
  compute(*engine_, kFirst, prompt_, begin);
  engine_->cancel();
  EXPECT_EQ(decode_chunk(*engine_, kFirst, prompt_.chunks.begin()->second), DecodeStatus::kAborted);
  engine_->reset_cancel();
  const std::uint32_t length = memory().length(kFirst).value();
  EXPECT_TRUE(length == begin || length == 0) << length;
}

TEST_P(MediaMemoryTest, AChunkIsAbortedWhenNobodyWantsItAnyMore) {
  const std::vector<Logits> expected = logits(kFirst, prompt_);
  const auto& [begin, made] = *prompt_.chunks.begin();
  compute(*engine_, kSecond, prompt_, begin);
  const auto decode = [&](int wanted_until) {
    int asked = 0;
    const auto status = engine_->decode_media(kSecond, {.ids = made.ids,
                                                        .embeddings = made.embeddings,
                                                        .places = made.places,
                                                        .at_once = made.at_once,
                                                        .is_unwanted = [&] { return ++asked > wanted_until; }});
    return std::pair(status, asked);
  };
  const auto [status, asked] = decode(3);
  EXPECT_EQ(status, DecodeStatus::kAborted);
  EXPECT_EQ(asked, 4) << "within the call, and no more once it was to end";
  memory().clear(kSecond);
  compute(*engine_, kSecond, prompt_, begin);
  EXPECT_EQ(decode(1 << 30).first, DecodeStatus::kOk);
  EXPECT_LE(moved(kSecond, expected), noise_);
}

INSTANTIATE_TEST_SUITE_P(
    Classes, MediaMemoryTest,
    ::testing::Values(MediaModel{"llama"}, MediaModel{"qwen3vl", true}, MediaModel{"gemma3", false, true},
                      MediaModel{"qwen35", true}, MediaModel{"jamba"}, MediaModel{"mamba"}, MediaModel{"deepseek4"},
                      MediaModel{"llama", false, false, true}, MediaModel{"qwen3vl", true, false, true},
                      MediaModel{"gemma3", false, true, true}, MediaModel{"qwen35", true, false, true},
                      MediaModel{"jamba", false, false, true}),
    media_model_name);

#ifdef KVKEEP_MTMD

MediaModel projected(const std::string& architecture, const std::string& projector) {
  return {.architecture = architecture, .unsaved_windows = 0, .projector = projector};
}

INSTANTIATE_TEST_SUITE_P(Projected, MediaMemoryTest,
                         ::testing::Values(projected("llama", "llama"), projected("qwen3vl", "qwen3vl"),
                                           projected("gemma3", "gemma3"), projected("qwen35", "qwen35"),
                                           projected("mamba2", "gemma3"), projected("deepseek4", "gemma3")),
                         media_model_name);

#endif

// A causal chunk in slices. They end where the model's micro-batches do, so that the same products are computed.
constexpr std::uint32_t kMicroBatch = 32;
constexpr std::size_t kTextBefore = 64;

class MediaSlicesTest : public MediaMemoryTest {
 protected:
  MediaSlicesTest() : MediaMemoryTest(kMicroBatch) {
    prompt_ = {};
    prompt_.add_text(kTextBefore, 1);
    prompt_.add(make_chunk(engine_->description(), 8, 20, GetParam().plane, false, 1));
    prompt_.add_text(9, 2);
    prompt_.runs = *media_runs(prompt_.ids);
  }
  std::size_t chunk_end() const { return kTextBefore + chunk().ids.size(); }
  const MadeChunk& chunk() const { return prompt_.chunks.begin()->second; }

  void compute_slices(SeqId seq, std::initializer_list<std::size_t> counts, const std::function<void()>& between = {}) {
    std::size_t begin = memory().length(seq).value() - kTextBefore;
    for (const std::size_t count : counts) {
      const MediaChunk slice{.ids = chunk().ids,
                             .embeddings = chunk().embeddings,
                             .places = chunk().places,
                             .begin = begin,
                             .count = count};
      ASSERT_EQ(engine_->decode_media(seq, slice), DecodeStatus::kOk) << begin;
      EXPECT_TRUE(engine_->has_finite_logits(0));
      begin += count;
      EXPECT_EQ(memory().length(seq).value(), kTextBefore + begin);
      if (between) between();
    }
  }
  // All bytes of the first sequence, which ends with the chunk.
  std::vector<std::vector<std::byte>> state() {
    std::vector<std::vector<std::byte>> parts;
    if (has_rows()) {
      const SavedPart text{token_range(0, kTextBefore), save(*engine_, kFirst, token_range(0, kTextBefore))};
      const SavedPart rows{token_range(kTextBefore, chunk_end()),
                           save(*engine_, kFirst, token_range(kTextBefore, chunk_end()))};
      const RowLayout layout_of_rows = layout(text.bytes);
      parts.push_back(in_order(layout_of_rows, rows, prompt_));
      for (const auto& cell : cells_of(layout_of_rows, rows.bytes)) parts.push_back(cell);
    }
    if (memory().shape().points) parts.push_back(save_point(*engine_, kFirst));
    return parts;
  }
};

TEST_P(MediaSlicesTest, RowsAreThoseOfOneCall) {
  compute(*engine_, kFirst, prompt_, chunk_end());
  const auto expected = state();
  const std::vector<Logits> expected_logits = logits(kFirst, prompt_);
  for (const auto& counts : {std::initializer_list<std::size_t>{32, 96, 32}, {64, 64, 32}, {128, 32}}) {
    clear_all();
    compute(*engine_, kFirst, prompt_, kTextBefore);
    compute_slices(kFirst, counts);
    if (HasFatalFailure()) return;
    EXPECT_EQ(state(), expected);
    EXPECT_LE(moved(kFirst, expected_logits), noise_);
  }
}

TEST_P(MediaSlicesTest, AnotherSequenceDecodesInBetween) {
  constexpr std::size_t kBefore = 21;
  const std::vector<TokenId> other = make_prompt(kBefore + kReply, 77);
  const std::vector<Logits> expected = logits(kFirst, prompt_);
  const std::vector<Logits> other_expected = go_on(*engine_, kSecond, other, kReply);
  clear_all();
  compute(*engine_, kFirst, prompt_, kTextBefore);
  ASSERT_EQ(prefill(*engine_, kSecond, TokenSpan(other).first(kBefore)), DecodeStatus::kOk);
  std::vector<Logits> other_logits;
  const auto decode_other = [&](std::size_t count) {
    const std::size_t end = kBefore + other_logits.size() + count;
    for (Logits& each : go_on(*engine_, kSecond, TokenSpan(other).first(end), count)) other_logits.push_back(each);
  };
  compute_slices(kFirst, {40, 3, 53, 64}, [&] { decode_other(1); });
  decode_other(kReply - other_logits.size());
  EXPECT_LE(largest_difference(other_logits, other_expected), noise_);
  EXPECT_LE(moved(kFirst, expected), noise_);
}

TEST_P(MediaSlicesTest, AnUnfinishedChunkIsCutOff) {
  const std::vector<Logits> expected = logits(kFirst, prompt_);
  clear_all();
  compute(*engine_, kFirst, prompt_, kTextBefore);
  compute_slices(kFirst, {32, 40});
  const Position begin{static_cast<std::uint32_t>(kTextBefore)};
  const auto goes_back = [&] { return begin >= memory().complete_from(kFirst); };
  EXPECT_EQ(goes_back(), !memory().shape().points);
  if (goes_back()) {
    ASSERT_TRUE(memory().fork(kFirst, kSecond, begin).ok());
    EXPECT_LE(moved(kSecond, expected), noise_) << "forked";
  }
  if (goes_back()) {  // a fork may have left only the last window
    ASSERT_TRUE(memory().truncate(kFirst, begin));
    EXPECT_EQ(memory().length(kFirst), begin);
  } else {
    memory().clear(kFirst);
  }
  EXPECT_LE(moved(kFirst, expected), noise_);
}

INSTANTIATE_TEST_SUITE_P(Classes, MediaSlicesTest,
                         ::testing::Values(MediaModel{"llama"}, MediaModel{"qwen3vl", true}, MediaModel{"gemma3"},
                                           MediaModel{"qwen35", true}, MediaModel{"jamba"}, MediaModel{"mamba"},
                                           MediaModel{"deepseek4"}, MediaModel{"llama", false, false, true},
                                           MediaModel{"qwen3vl", true, false, true},
                                           MediaModel{"gemma3", false, false, true},
                                           MediaModel{"qwen35", true, false, true},
                                           MediaModel{"jamba", false, false, true}),
                         media_model_name);

}  // namespace
}  // namespace kvkeep::engine::media
