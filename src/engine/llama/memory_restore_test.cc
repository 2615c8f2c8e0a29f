// State of every memory class from a real model's memory and back: after a restore, a fork or a cut the model goes on
// as if it had never been disturbed, past windows and ubatches.

#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <utility>

#include "testing/models/recorded_run.h"

namespace kvkeep::engine::llama {
namespace {

constexpr std::size_t kSingle = 140;  // tokens decoded one by one: past the window and several ubatches
constexpr std::size_t kText = 400 + kSingle;
constexpr std::size_t kMiddle = 4 * kSlice;
constexpr std::size_t kLate = 8 * kSlice;
// Results move a little when other sequences come into the memory, although nothing is saved or restored: by as much as
// the processor's kernels make of other places of cells, which noise() measures. A wrong state moves them by several
// times the most that is allowed: see AWrongStateShows.
constexpr double kLeastNoise = 0.003;  // of last bits where no place of cells that noise() tries shows any
constexpr double kMostNoise = 0.1;

// A model and its undisturbed answers, once per program: a load tries the class in a child process.
struct LoadedModel {
  std::unique_ptr<LlamaEngine> engine;
  std::map<std::vector<TokenId>, std::vector<Logits>> undisturbed;
  double moved_by_others = -1;  // negative until it is measured
};
LoadedModel& loaded(const ClassModel& model) {
  static std::map<std::string, LoadedModel> models;
  LoadedModel& found = models[model.architecture + std::to_string(model.window)];
  if (!found.engine) found.engine = load_or_die(class_options(model));
  return found;
}

class MemoryRestoreTest : public ::testing::TestWithParam<ClassModel> {
 protected:
  MemoryRestoreTest() : engine_(loaded(GetParam()).engine.get()) {
    clear_all();
    noise_ = noise();
  }
  bool is_windowed() const { return engine_->memory().shape().window_tokens > 0; }

  void clear_all() {
    for (std::uint32_t i = 0; i < engine_->memory().sequence_count(); ++i)
      engine_->memory().clear(SeqId{static_cast<std::int32_t>(i)});
  }
  // Begins with an empty memory, and leaves it empty.
  const std::vector<Logits>& undisturbed(const std::vector<TokenId>& text) {
    std::vector<Logits>& logits = loaded(GetParam()).undisturbed[text];
    if (logits.empty()) logits = go_on(*engine_, kFirst, text, kSingle);
    clear_all();
    return logits;
  }
  double moved(SeqId seq, TokenSpan text, const std::vector<Logits>& expected) {
    return largest_difference(expected, go_on(*engine_, seq, text, kSingle));
  }
  // The largest difference when another sequence comes before the text, or into its middle. Nothing is saved, restored,
  // forked or cut. Begins with an empty memory, and leaves it empty.
  double moved_by_others() {
    double& most = loaded(GetParam()).moved_by_others;
    if (most >= 0) return most;
    const auto& expected = undisturbed(text_);
    constexpr std::pair<std::size_t, std::size_t> kOthers[] = {{0, 5}, {0, 333}, {kMiddle, 32}};
    for (const auto& [begin, others] : kOthers) {
      EXPECT_EQ(prefill(*engine_, kSecond, TokenSpan(text_).first(begin), kSlice), DecodeStatus::kOk);
      EXPECT_EQ(prefill(*engine_, kFirst, make_prompt(others, 9), kSlice), DecodeStatus::kOk);
      most = std::max(most, moved(kSecond, text_, expected));
      clear_all();
    }
    return most;
  }
  // Returns how much results may move. Begins with an empty memory, and leaves it empty.
  double noise() { return std::clamp(3 * moved_by_others(), kLeastNoise, kMostNoise); }
  // All that the memory has of the sequence. Rows are read token by token, since a window's cells may lie in any order.
  std::vector<std::vector<std::byte>> state_of(SeqId seq) {
    const cache::StateShape shape = engine_->memory().shape();
    const std::size_t end = engine_->memory().length(seq).value();
    const std::size_t window_begin = end - std::min<std::size_t>(shape.window_tokens, end);
    std::vector<std::vector<std::byte>> state;
    for (std::size_t at = 0; at < end; ++at) {
      if (engine_->memory().rows_bytes(1) > 0) state.push_back(save(*engine_, seq, token_range(at, at + 1)));
      if (at >= window_begin && shape.window_tokens > 0) {
        state.push_back(save_window(*engine_, seq, token_range(at, at + 1)));
      }
    }
    if (shape.points) state.push_back(save_point(*engine_, seq));
    return state;
  }
  // The text up to `shared`, then other tokens.
  std::vector<TokenId> branch_at(std::size_t shared) const {
    std::vector<TokenId> branch(text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(shared));
    const auto rest = make_prompt(kText - shared, 99);
    branch.insert(branch.end(), rest.begin(), rest.end());
    return branch;
  }

  LlamaEngine* engine_;
  std::vector<TokenId> text_ = make_prompt(kText, 1);
  double noise_ = 0;
};

TEST_P(MemoryRestoreTest, TheClassIsProvenAndDescribed) {
  const Description& description = engine_->description();
  const cache::StateShape shape = engine_->memory().shape();
  EXPECT_EQ(description.memory_class, GetParam().memory_class) << description.memory_class_reason;
  EXPECT_TRUE(shape.cacheable);
  EXPECT_EQ(shape.window_tokens > 0, description.memory_class == MemoryClass::kWindowed);
  EXPECT_EQ(description.window_bytes_per_token > 0, shape.window_tokens > 0);
  EXPECT_EQ(description.row_bytes_per_token > 0, engine_->memory().rows_bytes(1) > 0);
  EXPECT_EQ(description.point_bytes > 0, shape.points && !shape.whole_points);
}

TEST_P(MemoryRestoreTest, GoesOnAfterARestoreAtAnyCut) {
  const auto& expected = undisturbed(text_);
  const RecordedRun run(*engine_, kFirst, TokenSpan(text_).first(kLate));
  for (const std::size_t end : {kSlice, 2 * kSlice, kMiddle, kLate}) {
    clear_all();
    ASSERT_EQ(prefill(*engine_, kSecond, TokenSpan(text_).first(end), kSlice), DecodeStatus::kOk);
    const auto computed = state_of(kSecond);
    clear_all();
    ASSERT_TRUE(run.restore(kSecond, end).ok());
    EXPECT_EQ(engine_->memory().length(kSecond), Position{static_cast<std::uint32_t>(end)});
    EXPECT_EQ(state_of(kSecond), computed) << "restored to " << end;
    // A restored window lies in other cells, so that sums have another order; an opaque state's order is not known.
    const bool same_order = !is_windowed() && !engine_->memory().shape().whole_points;
    EXPECT_LE(moved(kSecond, text_, expected), same_order ? 0 : noise_) << "restored to " << end;
  }
}

TEST_P(MemoryRestoreTest, NoiseOfOthersIsFarBelowAWrongState) {
  std::cout << "others move results by " << moved_by_others() << "\n";
  EXPECT_LE(3 * moved_by_others(), kMostNoise);
}

TEST_P(MemoryRestoreTest, GoesOnAfterARestoreNextToOthers) {
  const auto& expected = undisturbed(text_);
  const RecordedRun run(*engine_, kFirst, TokenSpan(text_).first(kLate));
  engine_->memory().clear(kFirst);
  ASSERT_EQ(prefill(*engine_, kFirst, make_prompt(333, 9), kSlice), DecodeStatus::kOk);
  ASSERT_TRUE(run.restore(kSecond, kMiddle).ok());
  EXPECT_EQ(prefill(*engine_, kFirst, make_prompt(150, 10), kSlice), DecodeStatus::kOk);
  EXPECT_LE(moved(kSecond, text_, expected), noise_);
}

// As a scheduler restores next to a stream: rows in pieces that end anywhere, the leaf last, and between any two of
// them the other sequence goes on by a token. Neither sees the other.
TEST_P(MemoryRestoreTest, GoesOnAfterARestoreBetweenTokensOfAnother) {
  const auto& expected = undisturbed(text_);
  const auto other = make_prompt(333, 9);
  const RecordedRun run(*engine_, kSecond, TokenSpan(text_).first(kLate));
  const bool has_rows = engine_->memory().rows_bytes(1) > 0;
  const auto rows_of = [&] {
    return has_rows ? save(*engine_, kSecond, token_range(0, kMiddle)) : std::vector<std::byte>();
  };
  const auto saved = rows_of();
  engine_->memory().clear(kSecond);
  const auto undisturbed_other = go_on(*engine_, kFirst, other, 5);
  clear_all();
  ASSERT_EQ(prefill(*engine_, kFirst, TokenSpan(other).first(328), kSlice), DecodeStatus::kOk);
  std::vector<Logits> logits;
  for (const std::size_t end : {std::size_t{7}, kSlice + 5, 2 * kSlice, kMiddle - 1, kMiddle}) {
    ASSERT_TRUE(run.restore_rows(kSecond, end).ok());
    for (Logits& each : go_on(*engine_, kFirst, TokenSpan(other).first(329 + logits.size()), 1)) logits.push_back(each);
  }
  ASSERT_TRUE(run.restore_last_leaf(kSecond).ok());
  EXPECT_EQ(rows_of(), saved) << "byte for byte";
  EXPECT_LE(largest_difference(undisturbed_other, logits), noise_);
  EXPECT_LE(moved(kSecond, text_, expected), noise_);
}

// Mutant: the state of another text at the same position. For sliceable models these are the last rows.
TEST_P(MemoryRestoreTest, AWrongStateShows) {
  const auto& expected = undisturbed(text_);
  const RecordedRun right(*engine_, kFirst, TokenSpan(text_).first(kLate));
  engine_->memory().clear(kFirst);
  const RecordedRun wrong(*engine_, kFirst, TokenSpan(branch_at(kSlice)).first(kLate));
  clear_all();
  const bool has_leaves = engine_->memory().shape().needs_points();
  ASSERT_TRUE((has_leaves ? right : wrong).restore_rows(kSecond, kLate).ok());
  ASSERT_TRUE(wrong.restore_last_leaf(kSecond).ok());
  EXPECT_GT(moved(kSecond, text_, expected), 2 * kMostNoise);
}

TEST_P(MemoryRestoreTest, SavingChangesNothing) {
  const auto& expected = undisturbed(text_);
  const RecordedRun run(*engine_, kFirst, TokenSpan(text_).first(kLate));
  EXPECT_EQ(moved(kFirst, text_, expected), 0);
}

TEST_P(MemoryRestoreTest, ForkAndSourceGoOnPastTheWindow) {
  const auto branch = branch_at(kMiddle);
  const auto& expected = undisturbed(text_);
  const auto& expected_branch = undisturbed(branch);
  ASSERT_EQ(prefill(*engine_, kFirst, TokenSpan(text_).first(kMiddle), kSlice), DecodeStatus::kOk);
  ASSERT_LE(engine_->memory().complete_from(kFirst), Position{kMiddle});
  ASSERT_TRUE(engine_->memory().fork(kFirst, kSecond, Position{kMiddle}).ok());
  EXPECT_LE(moved(kSecond, branch, expected_branch), noise_);
  EXPECT_LE(moved(kFirst, text_, expected), noise_);
}

TEST_P(MemoryRestoreTest, AForkOfAnEarlierPositionIsCompleteOnceItsStateIsBack) {
  const auto branch = branch_at(kMiddle);
  const auto& expected = undisturbed(text_);
  const auto& expected_branch = undisturbed(branch);
  const RecordedRun run(*engine_, kFirst, TokenSpan(text_).first(kLate));
  ASSERT_TRUE(engine_->memory().fork(kFirst, kSecond, Position{kMiddle}).ok());
  EXPECT_EQ(engine_->memory().length(kSecond), Position{kMiddle});
  // The source is decoded on while the fork still waits for its state.
  EXPECT_LE(moved(kFirst, text_, expected), noise_);
  ASSERT_TRUE(run.restore_last_leaf(kSecond).ok());
  EXPECT_LE(moved(kSecond, branch, expected_branch), noise_);
}

TEST_P(MemoryRestoreTest, RowsMayFollowAForkAndThenTheState) {
  const auto& expected = undisturbed(text_);
  const RecordedRun run(*engine_, kFirst, TokenSpan(text_).first(kLate));
  ASSERT_TRUE(engine_->memory().fork(kFirst, kSecond, Position{kMiddle - 20}).ok());
  engine_->memory().clear(kFirst);
  ASSERT_TRUE(run.restore(kSecond, kLate).ok());
  EXPECT_LE(moved(kSecond, text_, expected), noise_);
}

TEST_P(MemoryRestoreTest, ABranchIsLeftAndReturnedTo) {
  const auto branch = branch_at(kMiddle);
  const auto& expected = undisturbed(text_);
  const auto& expected_branch = undisturbed(branch);
  const RecordedRun run(*engine_, kFirst, TokenSpan(text_).first(kLate));
  for (int round = 0; round < 2; ++round) {
    ASSERT_TRUE(engine_->memory().truncate(kFirst, Position{kMiddle}));
    ASSERT_TRUE(run.restore_last_leaf(kFirst).ok());
    EXPECT_LE(moved(kFirst, branch, expected_branch), is_windowed() ? noise_ : 0);
    ASSERT_TRUE(engine_->memory().truncate(kFirst, Position{kMiddle}));
    ASSERT_TRUE(run.restore(kFirst, kLate).ok());
    EXPECT_LE(moved(kFirst, text_, expected), is_windowed() ? noise_ : 0);
  }
}

// Cuts where the memory calls the result complete.
TEST_P(MemoryRestoreTest, ACompleteSequenceGoesOn) {
  const auto& expected = undisturbed(text_);
  ASSERT_EQ(prefill(*engine_, kFirst, TokenSpan(text_).first(kLate), kSlice), DecodeStatus::kOk);
  ASSERT_LE(engine_->memory().complete_from(kFirst), Position{kLate});
  ASSERT_TRUE(engine_->memory().truncate(kFirst, std::max(engine_->memory().complete_from(kFirst), Position{1})));
  EXPECT_LE(moved(kFirst, text_, expected), noise_);
}

// libllama would decode with a wrong state or none, and return other text.
TEST_P(MemoryRestoreTest, WithoutItsStateASequenceIsNotDecoded) {
  const RecordedRun run(*engine_, kFirst, TokenSpan(text_).first(kLate));
  ASSERT_TRUE(run.restore_rows(kSecond, kMiddle).ok());
  const bool needs_state = engine_->memory().shape().needs_points();
  const BatchToken next{kSecond, 1000, Position{kMiddle}, true};
  EXPECT_EQ(engine_->decode(std::span(&next, 1)), needs_state ? DecodeStatus::kFailed : DecodeStatus::kOk);
  EXPECT_EQ(engine_->memory().length(kFirst), Position{kLate});
  EXPECT_EQ(prefill(*engine_, kFirst, TokenSpan(text_).subspan(kLate), kSlice), DecodeStatus::kOk);
}

TEST_P(MemoryRestoreTest, ManySequencesGoOnTogether) {
  const auto& expected = undisturbed(text_);
  ASSERT_EQ(prefill(*engine_, kFirst, TokenSpan(text_).first(kMiddle), kSlice), DecodeStatus::kOk);
  const auto count = static_cast<std::int32_t>(engine_->memory().sequence_count());
  EXPECT_GE(count, 2);
  for (std::int32_t i = 1; i < count; ++i)
    ASSERT_TRUE(engine_->memory().fork(kFirst, SeqId{i}, Position{kMiddle}).ok());
  for (std::int32_t i = 0; i < count; ++i) EXPECT_LE(moved(SeqId{i}, text_, expected), noise_) << i;
}

constexpr ClassModel kModels[] = {
    {"llama", 0, MemoryClass::kSliceable},
    {"qwen3vl", 0, MemoryClass::kSliceable},
    {"gemma3", kTestWindow, MemoryClass::kWindowed},
    {"qwen35", 0, MemoryClass::kHybrid},
    {"falcon-h1", 0, MemoryClass::kHybrid},
    {"jamba", 0, MemoryClass::kHybrid},
    {"lfm2", 0, MemoryClass::kHybrid},
    {"lfm2", kTestWindow, MemoryClass::kHybrid},
    {"mamba", 0, MemoryClass::kRecurrent},
    {"mamba2", 0, MemoryClass::kRecurrent},
    {"deepseek4", kTestWindow, MemoryClass::kOpaque},
};
INSTANTIATE_TEST_SUITE_P(Models, MemoryRestoreTest, ::testing::ValuesIn(kModels), class_model_name);

}  // namespace
}  // namespace kvkeep::engine::llama
