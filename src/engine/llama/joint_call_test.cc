// Tokens of running replies and a slice of a prompt in one call of a real model, in every memory class: each sequence
// has the logits, and goes on, as if it had been computed in calls of its own.

#include <gtest/gtest.h>

#include "testing/models/recorded_run.h"

namespace kvkeep::engine::llama {
namespace {

// Results move by this much when other sequences come into the memory (memory_restore_test.cc).
constexpr double kJointNoise = 0.02;
constexpr std::size_t kReplyPrompt = 70;  // tokens of each reply's prompt
constexpr std::size_t kJointCalls = 6;
constexpr std::size_t kGoesOn = 30;  // tokens of each sequence, one by one, after the joint calls

struct JointModel {
  ClassModel model;
  bool own_cells = false;
};
void PrintTo(const JointModel& model, std::ostream* out) {
  PrintTo(model.model, out);
  *out << (model.own_cells ? " own cells" : "");
}

class JointCallTest : public ::testing::TestWithParam<JointModel> {
 protected:
  JointCallTest() {
    ModelOptions options = class_options(GetParam().model);
    options.own_cells = GetParam().own_cells;
    options.parallel = 3;
    engine_ = load_or_die(options);
    EXPECT_EQ(engine_->description().memory_class, GetParam().model.memory_class);
    EXPECT_EQ(engine_->description().own_cells, GetParam().own_cells);
    for (std::uint32_t i = 0; i < 3; ++i) {
      const bool is_reply = i != kPrefilling;
      texts_.push_back(make_prompt((is_reply ? kReplyPrompt + kJointCalls : kSlice * kJointCalls) + kGoesOn, 20 + i));
    }
  }
  static SeqId seq(std::size_t i) { return SeqId{static_cast<std::int32_t>(i)}; }
  void clear_all() {
    for (std::size_t i = 0; i < 3; ++i) engine_->memory().clear(seq(i));
  }
  Logits logits(std::size_t index) const {
    const auto row = engine_->logits(index);
    return {row.begin(), row.end()};
  }
  // The next `count` tokens of text `i` in a call, with logits after the last one.
  std::vector<BatchToken> next(std::size_t i, std::size_t count) const {
    const Position at = engine_->memory().length(seq(i));
    std::vector<BatchToken> batch;
    for (std::size_t j = 0; j < count; ++j) {
      batch.push_back({seq(i), texts_[i][at.value() + j], at + j, j + 1 == count});
    }
    return batch;
  }
  // Each sequence by itself: the logits after each token of a reply and each slice, then those of single tokens.
  std::vector<Logits> apart(std::size_t i) {
    clear_all();
    std::vector<Logits> all;
    if (i != kPrefilling) {
      EXPECT_EQ(prefill(*engine_, seq(i), TokenSpan(texts_[i]).first(kReplyPrompt), kSlice), DecodeStatus::kOk);
    }
    for (std::size_t call = 0; call < kJointCalls; ++call) {
      const auto batch = next(i, i == kPrefilling ? kSlice : 1);
      EXPECT_EQ(engine_->decode(batch), DecodeStatus::kOk);
      all.push_back(logits(batch.size() - 1));
    }
    for (Logits& each : go_on(*engine_, seq(i), texts_[i], kGoesOn)) all.push_back(std::move(each));
    return all;
  }
  // The same with all tokens of a round in one call, which begins with those of the replies.
  std::vector<std::vector<Logits>> together() {
    clear_all();
    std::vector<std::vector<Logits>> all(3);
    for (const std::size_t reply : {0U, 2U}) {
      EXPECT_EQ(prefill(*engine_, seq(reply), TokenSpan(texts_[reply]).first(kReplyPrompt), kSlice), DecodeStatus::kOk);
    }
    for (std::size_t call = 0; call < kJointCalls; ++call) {
      std::vector<BatchToken> batch = next(0, 1);
      batch.push_back(next(2, 1).front());
      for (const BatchToken& entry : next(kPrefilling, kSlice)) batch.push_back(entry);
      EXPECT_EQ(engine_->decode(batch), DecodeStatus::kOk);
      all[0].push_back(logits(0));
      all[2].push_back(logits(1));
      all[kPrefilling].push_back(logits(batch.size() - 1));
    }
    for (std::size_t i = 0; i < 3; ++i) {
      for (Logits& each : go_on(*engine_, seq(i), texts_[i], kGoesOn)) all[i].push_back(std::move(each));
    }
    return all;
  }

  // Between the sequences of the replies: their numbers need not follow each other.
  static constexpr std::size_t kPrefilling = 1;
  std::unique_ptr<LlamaEngine> engine_;
  std::vector<std::vector<TokenId>> texts_;
};

TEST_P(JointCallTest, EachSequenceIsAsInCallsOfItsOwn) {
  const auto joint = together();
  for (std::size_t i = 0; i < 3; ++i)
    EXPECT_LE(largest_difference(apart(i), joint[i]), kJointNoise) << "sequence " << i;
  EXPECT_GT(largest_difference(joint[0], joint[2]), 2 * kJointNoise) << "logits of another sequence would show";
}

constexpr JointModel kJointModels[] = {
    {{"llama", 0, MemoryClass::kSliceable}},
    {{"llama", 0, MemoryClass::kSliceable}, true},
    {{"gemma3", kTestWindow, MemoryClass::kWindowed}},
    {{"gemma3", kTestWindow, MemoryClass::kWindowed}, true},
    {{"qwen35", 0, MemoryClass::kHybrid}},
    {{"falcon-h1", 0, MemoryClass::kHybrid}},
    {{"falcon-h1", 0, MemoryClass::kHybrid}, true},
    {{"lfm2", kTestWindow, MemoryClass::kHybrid}},
    {{"mamba2", 0, MemoryClass::kRecurrent}},
    {{"deepseek4", kTestWindow, MemoryClass::kOpaque}},
};
INSTANTIATE_TEST_SUITE_P(Models, JointCallTest, ::testing::ValuesIn(kJointModels), [](const auto& parameter) {
  const ::testing::TestParamInfo<ClassModel> model(parameter.param.model, parameter.index);
  return class_model_name(model) + (parameter.param.own_cells ? "_own_cells" : "");
});

}  // namespace
}  // namespace kvkeep::engine::llama
