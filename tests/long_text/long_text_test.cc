// A long text has the same ids in parts as whole, by the two kinds of tokenizers that most models have: byte pairs
// within words that a pattern finds, and SentencePiece's, which knows no words and puts a space before the text.

#include "chat/long_text.h"

#include <gguf.h>
#include <gtest/gtest.h>

#include <random>
#include <set>

#include "base/test_seed.h"
#include "engine/llama/llama_vocabulary.h"
#include "testing/models/test_model.h"
#include "testing/sim/temporary_directory.h"

namespace kvkeep::chat {
namespace {

using engine::llama::LlamaVocabulary;

// libllama's numbers of token types.
constexpr std::int32_t kNormal = 1, kUnknown = 2, kControl = 3, kByte = 6;

struct Pieces {
  std::vector<std::string> texts;
  std::vector<float> scores;
  std::vector<std::int32_t> types;
  std::set<std::string> known;

  void add(const std::string& text, float score, std::int32_t type) {
    if (!known.insert(text).second) return;
    texts.push_back(text);
    scores.push_back(score);
    types.push_back(type);
  }
};

// All parts of some words; "▁" is a space.
Pieces sentence_pieces() {
  Pieces pieces;
  pieces.add("<unk>", 0, kUnknown);
  pieces.add("<s>", 0, kControl);
  pieces.add("</s>", 0, kControl);
  constexpr char kDigits[] = "0123456789ABCDEF";
  for (int byte = 0; byte < 256; ++byte) {
    pieces.add(std::string("<0x") + kDigits[byte / 16] + kDigits[byte % 16] + ">", 0, kByte);
  }
  pieces.add("▁", -100, kNormal);
  for (char letter = 'a'; letter <= 'z'; ++letter) pieces.add(std::string(1, letter), -100, kNormal);
  for (const std::string word : {"hello", "world", "there", "aaaaaaaa", "some", "words"}) {
    for (std::size_t begin = 0; begin < word.size(); ++begin) {
      for (std::size_t size = 2; begin + size <= word.size(); ++size) {
        pieces.add(word.substr(begin, size), -50.0F + static_cast<float>(size), kNormal);
      }
    }
    for (std::size_t size = 1; size <= word.size(); ++size) {
      pieces.add("▁" + word.substr(0, size), -40.0F + static_cast<float>(size), kNormal);
    }
  }
  pieces.add("▁▁", -30, kNormal);
  pieces.add("x▁", -20, kNormal);  // a token across a letter and a space: no cut behind an x
  pieces.add("e▁some", -10, kNormal);
  return pieces;
}

std::string write_sentence_piece_model(const std::string& directory) {
  const Pieces pieces = sentence_pieces();
  std::vector<const char*> texts;
  for (const std::string& text : pieces.texts) texts.push_back(text.c_str());
  gguf_context* file = gguf_init_empty();
  gguf_set_val_str(file, "general.architecture", "llama");
  gguf_set_val_str(file, "tokenizer.ggml.model", "llama");
  gguf_set_arr_str(file, "tokenizer.ggml.tokens", texts.data(), texts.size());
  gguf_set_arr_data(file, "tokenizer.ggml.scores", GGUF_TYPE_FLOAT32, pieces.scores.data(), pieces.scores.size());
  gguf_set_arr_data(file, "tokenizer.ggml.token_type", GGUF_TYPE_INT32, pieces.types.data(), pieces.types.size());
  gguf_set_val_u32(file, "tokenizer.ggml.bos_token_id", 1);
  gguf_set_val_u32(file, "tokenizer.ggml.eos_token_id", 2);
  gguf_set_val_u32(file, "tokenizer.ggml.unknown_token_id", 0);
  const std::string path = directory + "/pieces.gguf";
  EXPECT_TRUE(gguf_write_to_file(file, path.c_str(), /*only_meta=*/true));
  gguf_free(file);
  return path;
}

std::string random_text(std::mt19937_64& random, std::size_t bytes) {
  static const std::vector<std::string> parts = {
      "hello", " world", " the", "  ",     "\n",         "aaaaaaaaa", " a",  "x some", "e some",
      "b ",    "ü",      "<s>",  "</s>",   "\n\n",       "1 2",       ".",   ", ",     " words",
      "日本",  "'s",     " I'm", "\tword", "<|im_end|>", " <think>",  " fox"};
  std::string text;
  while (text.size() < bytes) text += parts[random() % parts.size()];
  return text;
}

void expect_same(const LlamaVocabulary& vocabulary) {
  const LongText tokenizer(vocabulary);
  const std::uint64_t seed = test_seed();
  std::mt19937_64 random(seed);
  for (int round = 0; round < 3; ++round) {
    const std::string text = random_text(random, 2 * kPartBytes + random() % kPartBytes);
    for (const TokenizeOptions options :
         {TokenizeOptions{}, TokenizeOptions{.add_special = true, .parse_special = true},
          TokenizeOptions{.add_special = false, .parse_special = true}}) {
      std::size_t parts = 0;
      const auto ids = tokenizer.tokenize(text, options, [&] { return ++parts == 0; });
      ASSERT_TRUE(ids.ok()) << ids.error().message;
      EXPECT_GE(parts, 2U);
      ASSERT_TRUE(*ids == vocabulary.tokenize(text, options)) << "seed " << seed << ", round " << round;
    }
  }
}

TEST(LongText, PartsHaveTheIdsOfTheWholeWithBytePairs) {
  const auto vocabulary = LlamaVocabulary::load(engine::llama::tiny_model_path());
  ASSERT_TRUE(vocabulary.ok()) << vocabulary.error().message;
  expect_same(**vocabulary);
}

TEST(LongText, PartsHaveTheIdsOfTheWholeWithSentencePieces) {
  const sim::TemporaryDirectory directory;
  const auto vocabulary = LlamaVocabulary::load(write_sentence_piece_model(directory.path()));
  ASSERT_TRUE(vocabulary.ok()) << vocabulary.error().message;
  ASSERT_NE((*vocabulary)->tokenize_text("a"), (*vocabulary)->tokenize_continuation("a")) << "a space is put before";
  expect_same(**vocabulary);
}

}  // namespace
}  // namespace kvkeep::chat
