#include "model_maker/vocabulary.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <set>

#include "model_maker/bpe_trainer.h"
#include "model_maker/sample_text.h"

namespace kvkeep::gguf {
namespace {

// The sample texts contain none of these.
constexpr std::string_view kHeldOutProse =
    "The engine thread owns the model, and nobody else may touch it. When a request arrives, its text is rendered by "
    "the "
    "template, cut into tokens and compared with everything that was seen before. My neighbour keeps bees behind her "
    "garden; last summer she sold so much honey at the market that she could buy a second hive. If you see a strange "
    "result, write down what you did, try it once more, and then ask somebody who knows the program better.\n";
constexpr std::string_view kHeldOutCode = R"(
bool Queue::push(Job job) {
  std::unique_lock<std::mutex> lock(mutex_);
  if (closed_ || jobs_.size() >= limit_) {
    return false;
  }
  jobs_.push_back(std::move(job));
  ready_.notify_one();
  return true;
}

def read_lines(path: str, limit: int = 10) -> list[str]:
    lines = []
    with open(path) as file:
        for number, line in enumerate(file):
            if number >= limit:
                break
            lines.append(line.strip())
    return lines
)";
constexpr std::string_view kHeldOutJson = R"({"type": "function", "function": {"name": "list_directory", "description":
"Lists the files of a directory.", "parameters": {"type": "object", "properties": {"path": {"type": "string",
"description": "The directory"}, "recursive": {"type": "boolean"}}, "required": ["path"]}}}
{"role": "tool", "content": "{\"status\": \"ok\", \"items\": [\"main.cc\", \"README.md\"]}"}
)";

TEST(VocabularyTest, HeldOutTextHasThreeToFourCharactersPerToken) {
  const std::array<std::string_view, 4> texts = {sample_prose(), sample_code(), sample_data(), sample_words()};
  const BytePairEncoder encoder(train_byte_pairs(texts, shared_vocabulary().merges.size()));
  std::size_t bytes = 0;
  std::size_t tokens = 0;
  for (const std::string_view text : {kHeldOutProse, kHeldOutCode, kHeldOutJson}) {
    const std::size_t count = encoder.encode(text).size();
    const double ratio = static_cast<double>(text.size()) / static_cast<double>(count);
    RecordProperty("characters_per_token", std::to_string(ratio));
    EXPECT_GT(ratio, 2.6) << text;
    bytes += text.size();
    tokens += count;
  }
  const double ratio = static_cast<double>(bytes) / static_cast<double>(tokens);
  EXPECT_GE(ratio, 3.0);
  EXPECT_LE(ratio, 4.2);
}

TEST(VocabularyTest, SpellingsAreDistinctAndWholeWordsMany) {
  const Vocabulary& vocabulary = shared_vocabulary();
  EXPECT_EQ(std::set<std::string>(vocabulary.spellings.begin(), vocabulary.spellings.end()).size(), vocabulary.size());
  EXPECT_EQ(vocabulary.types.size(), vocabulary.size());
  EXPECT_EQ(vocabulary.whole_word.size(), vocabulary.size());
  EXPECT_GT(std::count(vocabulary.whole_word.begin(), vocabulary.whole_word.end(), true), 500);
}

TEST(VocabularyTest, AnExtendedOneBeginsWithTheSharedOne) {
  const Vocabulary& shared = shared_vocabulary();
  const Vocabulary extended = extended_vocabulary(20'000);
  EXPECT_EQ(extended.size(), 20'000u);
  EXPECT_EQ(extended.types.size(), 20'000u);
  EXPECT_EQ(extended.whole_word.size(), 20'000u);
  EXPECT_TRUE(std::equal(shared.spellings.begin(), shared.spellings.end(), extended.spellings.begin()));
  EXPECT_EQ(std::set<std::string>(extended.spellings.begin(), extended.spellings.end()).size(), extended.size());
  EXPECT_EQ(extended.merges.size() - shared.merges.size(), extended.size() - shared.size());
  EXPECT_EQ(extended_vocabulary(shared.size()).merges, shared.merges);
}

TEST(VocabularyTest, MarkersAreControlOrUserDefined) {
  const Vocabulary& vocabulary = shared_vocabulary();
  for (const char* spelling : {"<|bos|>", "<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|User|>", "<|Assistant|>"}) {
    EXPECT_EQ(vocabulary.types[vocabulary.marker(spelling)], 3) << spelling;
  }
  for (const char* spelling :
       {"<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>", "<think>", "</think>"}) {
    EXPECT_EQ(vocabulary.types[vocabulary.marker(spelling)], 4) << spelling;
  }
}

}  // namespace
}  // namespace kvkeep::gguf
