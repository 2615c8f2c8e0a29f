// Assumptions of this program's other tests: text of generated models depends on the whole context, never ends early,
// and is tokenized to its own tokens.

#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <set>

#include "engine/llama/llama_vocabulary.h"
#include "model_maker/bpe_trainer.h"
#include "model_maker/make_model.h"
#include "model_maker/sample_text.h"
#include "model_maker/vocabulary.h"
#include "testing/models/test_model.h"

namespace kvkeep::engine::llama {
namespace {

constexpr SeqId kSeq{0};

std::vector<TokenId> continue_prompt(LlamaEngine& engine, const std::vector<TokenId>& prompt, std::size_t count) {
  engine.memory().clear(kSeq);
  EXPECT_EQ(prefill(engine, kSeq, prompt), DecodeStatus::kOk);
  return generate_greedily(engine, kSeq, last_index(prompt.size()), count);
}

class GeneratedModelTest : public testing::TestWithParam<KvType> {};

TEST_P(GeneratedModelTest, OneTokenFarBackChangesTheText) {
  const auto engine = load_or_die(tiny_options(GetParam()));
  constexpr std::uint32_t kTrials = 20;
  constexpr std::size_t kBack = 500;
  std::uint32_t changed = 0;
  for (std::uint32_t seed = 1; seed <= kTrials; ++seed) {
    std::vector<TokenId> prompt = make_prompt(600, seed);
    const std::vector<TokenId> before = continue_prompt(*engine, prompt, 16);
    TokenId& token = prompt[prompt.size() - kBack];
    token = token == 1000 ? 1001 : 1000;
    if (continue_prompt(*engine, prompt, 16) != before) ++changed;
  }
  EXPECT_GE(changed, kTrials - 3);
}

TEST_P(GeneratedModelTest, ALeftOutRunChangesTheText) {
  const auto engine = load_or_die(tiny_options(GetParam()));
  for (std::uint32_t seed = 1; seed <= 10; ++seed) {
    std::vector<TokenId> prompt = make_prompt(600, seed);
    const std::vector<TokenId> before = continue_prompt(*engine, prompt, 16);
    prompt.erase(prompt.begin() + 128, prompt.begin() + 192);
    EXPECT_NE(continue_prompt(*engine, prompt, 16), before) << "seed " << seed;
  }
}

TEST_P(GeneratedModelTest, TextDoesNotRunInCircles) {
  const auto engine = load_or_die(tiny_options(GetParam()));
  const std::vector<TokenId> text = continue_prompt(*engine, make_prompt(100, 1), 300);
  std::set<std::pair<TokenId, TokenId>> pairs;
  for (std::size_t i = 1; i < text.size(); ++i) pairs.emplace(text[i - 1], text[i]);
  EXPECT_GT(pairs.size(), 250U);
  EXPECT_GT(std::set<TokenId>(text.begin(), text.end()).size(), 100U);
}

INSTANTIATE_TEST_SUITE_P(KvTypes, GeneratedModelTest, testing::Values(KvType::kF16, KvType::kQ8_0),
                         [](const auto& parameter) { return std::string(to_string(parameter.param)); });

TEST(GeneratedModelTextTest, GreedyTextIsWholeWordsAndTokenizesToItself) {
  const auto engine = load_or_die(tiny_options());
  const auto vocabulary = engine->vocabulary();
  ASSERT_EQ(vocabulary->size(), gguf::shared_vocabulary().size());
  for (const std::string prompt : {"Hello", "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n", "a blank "}) {
    const std::vector<TokenId> ids = vocabulary->tokenize(prompt, {.parse_special = true});
    const std::vector<TokenId> text = continue_prompt(*engine, ids, 200);
    std::vector<TokenId> all = ids;
    all.insert(all.end(), text.begin(), text.end());
    std::string spelled = prompt;
    for (const TokenId id : text) {
      EXPECT_TRUE(gguf::shared_vocabulary().whole_word[static_cast<std::size_t>(id)]);
      spelled += vocabulary->piece(id, false);
    }
    EXPECT_EQ(vocabulary->tokenize(spelled, {.parse_special = true}), all);
  }
}

TEST(GeneratedModelTextTest, WholeWordsStayOneTokenInAnExtendedVocabulary) {
  const std::string path = (std::filesystem::path(testing::TempDir()) / "extended_vocabulary.gguf").string();
  ASSERT_TRUE(gguf::make_model({.vocabulary = 20'000}, path).ok());
  const auto vocabulary = LlamaVocabulary::load(path);
  std::filesystem::remove(path);
  ASSERT_TRUE(vocabulary.ok());
  const gguf::Vocabulary& shared = gguf::shared_vocabulary();
  ASSERT_EQ((*vocabulary)->size(), 20'000u);
  for (std::size_t id = 0; id < shared.size(); ++id) {
    if (!shared.whole_word[id]) continue;
    const auto token = static_cast<TokenId>(id);
    EXPECT_EQ((*vocabulary)->tokenize((*vocabulary)->piece(token, false), {}), std::vector<TokenId>{token});
  }
}

TEST(GeneratedModelTextTest, MarkersAreOneTokenEach) {
  const auto engine = load_or_die(tiny_options());
  const auto vocabulary = engine->vocabulary();
  const gguf::Vocabulary& expected = gguf::shared_vocabulary();
  EXPECT_EQ(vocabulary->eos(), expected.marker("<|im_end|>"));
  EXPECT_TRUE(vocabulary->is_end_of_generation(expected.marker("<|endoftext|>")));
  EXPECT_FALSE(vocabulary->add_bos());
  for (const char* marker : {"<tool_call>", "</tool_call>", "<think>", "</think>", "<|User|>", "<|Assistant|>"}) {
    EXPECT_EQ(vocabulary->tokenize(marker, {.parse_special = true}), std::vector<TokenId>{expected.marker(marker)});
  }
}

// Tests of engine/gguf measure with the trainer's own encoder, which must cut text as the library does.
TEST(GeneratedModelTextTest, TheTrainersEncoderAgreesWithTheLibrary) {
  const auto engine = load_or_die(tiny_options());
  const std::array<std::string_view, 4> texts = {gguf::sample_prose(), gguf::sample_code(), gguf::sample_data(),
                                                 gguf::sample_words()};
  const gguf::BytePairEncoder encoder(gguf::train_byte_pairs(texts, gguf::shared_vocabulary().merges.size()));
  for (const std::string_view text : {gguf::sample_prose(), gguf::sample_code()}) {
    EXPECT_EQ(engine->vocabulary()->tokenize(text, {}), encoder.encode(text));
  }
}

}  // namespace
}  // namespace kvkeep::engine::llama
