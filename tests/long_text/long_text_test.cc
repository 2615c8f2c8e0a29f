// A long text has the same ids in parts as whole, by each of libllama's tokenizers: byte pairs within words that a
// pattern finds, with every pattern that models have, byte pairs over whole lines, SentencePiece's, which knows no
// words and puts a space before the text, and those that look for the longest or the best tokens.

#include "chat/long_text.h"

#include <gguf.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "base/test_seed.h"
#include "base/unicode.h"
#include "engine/llama/llama_vocabulary.h"
#include "testing/models/test_model.h"
#include "testing/sim/temporary_directory.h"

namespace kvkeep::chat {
namespace {

using engine::llama::LlamaVocabulary;

// libllama's numbers of token types.
constexpr std::int32_t kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kByte = 6;

constexpr int kRounds = 4;

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

void add_byte_tokens(Pieces& pieces) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  for (int byte = 0; byte < 256; ++byte) {
    pieces.add(std::string("<0x") + kDigits[byte / 16] + kDigits[byte % 16] + ">", -1000, kByte);
  }
}

// All parts of some words; "▁" is a space.
Pieces sentence_pieces() {
  Pieces pieces;
  pieces.add("<unk>", 0, kUnknown);
  pieces.add("<s>", 0, kControl);
  pieces.add("</s>", 0, kControl);
  add_byte_tokens(pieces);
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
  pieces.add("x▁", -20, kNormal);  // a token across a letter and a space: no cut after an x
  pieces.add("e▁some", -10, kNormal);
  return pieces;
}

// libllama's names of the tokenizer and its pattern; the merges of byte pairs, by rank.
struct Kind {
  std::string model;
  std::string pattern;
  std::vector<std::string> merges;
};

void set_strings(gguf_context* file, const char* key, const std::vector<std::string>& values) {
  std::vector<const char*> pointers;
  for (const std::string& value : values) pointers.push_back(value.c_str());
  gguf_set_arr_str(file, key, pointers.data(), pointers.size());
}

std::string write_vocabulary(const std::string& directory, const Pieces& pieces, const Kind& kind) {
  gguf_context* file = gguf_init_empty();
  gguf_set_val_str(file, "general.architecture", "llama");
  gguf_set_val_str(file, "tokenizer.ggml.model", kind.model.c_str());
  if (!kind.pattern.empty()) gguf_set_val_str(file, "tokenizer.ggml.pre", kind.pattern.c_str());
  if (!kind.merges.empty()) set_strings(file, "tokenizer.ggml.merges", kind.merges);
  set_strings(file, "tokenizer.ggml.tokens", pieces.texts);
  gguf_set_arr_data(file, "tokenizer.ggml.scores", GGUF_TYPE_FLOAT32, pieces.scores.data(), pieces.scores.size());
  gguf_set_arr_data(file, "tokenizer.ggml.token_type", GGUF_TYPE_INT32, pieces.types.data(), pieces.types.size());
  for (const char* role : {"unknown", "padding", "seperator", "mask"}) {
    gguf_set_val_u32(file, ("tokenizer.ggml." + std::string(role) + "_token_id").c_str(), 0);
  }
  gguf_set_val_u32(file, "tokenizer.ggml.bos_token_id", 1);
  gguf_set_val_u32(file, "tokenizer.ggml.eos_token_id", 2);
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
  const auto vocabulary = LlamaVocabulary::load(
      write_vocabulary(directory.path(), sentence_pieces(), {.model = "llama", .pattern = {}, .merges = {}}));
  ASSERT_TRUE(vocabulary.ok()) << vocabulary.error().message;
  ASSERT_NE((*vocabulary)->tokenize_text("a"), (*vocabulary)->tokenize_continuation("a")) << "a space is put before";
  expect_same(**vocabulary);
}

// Tokens of several scripts that tell where words begin and end: each begins or ends with white space or punctuation,
// and some hold a letter before it, so that no cut may lie there.
const std::vector<std::string>& telling_tokens() {
  static const std::vector<std::string> tokens = {
      "ab",  "aba",  "де",   "еде",  "你好", "好你", "12",   "123",    "1231", " a",   " ab",    " д",
      " де", " 你",  ",a",   "(a",   "\"a",  ".д",   "。你", "，a",    "，你", "\n\n", "  ",     "   ",
      " \n", "\r\n", ".\n",  "。\n", ",,",   "\"\"", "\":",  "\",",    " \"",  " (",   " 1",     ",1",
      "/a",  "\n/",  "'s",   "'t",   "\n ",  "\t\t", "\ta",  "-a",     "--",   "=1",   "b,",     "b ",
      "2.",  "д ",   "好。", "<a",   "_a",   "3_",   "。。", "\n\n\n", " ,",   "한a",  "。\n\n", "}}"};
  return tokens;
}

std::string telling_text(std::mt19937_64& random, std::size_t units) {
  static const std::vector<std::string> list = {
      "a",    "b",  "ab", "д",  "де",      "е",    "你",      "好",    "你好", "é",    "1",  "2",  "12",
      "123",  ",",  ",",  " ",  " ",       " ",    "  ",      "\n",    "\n",   ".",    "。", "，", "\n\n",
      "\r\n", "\"", "(",  ")",  "'s",      "'t",   "'",       "/",     "-",    "_",    ">",  "<",  "=",
      ":",    "\t", "{",  "}",  "<think>", "<pad", "1231",    "1231_", "'sa",  "</s>", "　", "한", "ไ",
      "!",    "？", "क",  "का", "ſ",       "🙂",   "e\u0301", "S",     "'S",   "Ab",   "\r", "<s>"};
  std::string text;
  for (std::size_t i = 0; i < units; ++i) text += list[random() % list.size()];
  return text;
}

// GPT-2's map: printable Latin-1 bytes stand for themselves, the other bytes for U+0100 and up in order.
std::string printable(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) {
    const auto byte = static_cast<std::uint8_t>(c);
    const auto is_printable = [](int one) { return (one >= 0x21 && one <= 0x7E) || (one >= 0xA1 && one != 0xAD); };
    char32_t code = byte;
    if (!is_printable(byte)) {
      code = 0x100;
      for (int other = 0; other < byte; ++other) code += is_printable(other) ? 0 : 1;
    }
    append_character(out, code);
  }
  return out;
}

std::string with_visible_spaces(std::string_view text) {
  std::string out;
  for (const char c : text) out += c == ' ' ? std::string("▁") : std::string(1, c);
  return out;
}

void add_markers(Pieces& pieces) {
  pieces.add("<unk>", 0, kUnknown);
  pieces.add("<s>", 0, kControl);
  pieces.add("</s>", 0, kControl);
  pieces.add("<think>", 0, kUserDefined);
  pieces.add("<pad", 0, kUserDefined);  // ends with a letter
}

// All characters of the texts, each with the tokens before it that it needs.
std::vector<std::string> with_characters(std::vector<std::string> tokens) {
  std::mt19937_64 random(1);
  const std::string text = telling_text(random, 3000);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t bytes = character_at(text, at).bytes;
    tokens.insert(tokens.begin(), text.substr(at, bytes));
    at += bytes;
  }
  return tokens;
}

std::vector<std::string> all_bytes() {
  std::vector<std::string> bytes;
  for (int byte = 0; byte < 256; ++byte) bytes.emplace_back(1, static_cast<char>(byte));
  return bytes;
}

// Merges in random order: of all pairs of tokens that make a token.
struct BytePairs {
  Pieces pieces;
  std::vector<std::string> merges;
};

BytePairs byte_pairs(std::mt19937_64& random, const std::vector<std::string>& units, std::vector<std::string> tokens,
                     std::string (*spell)(std::string_view)) {
  BytePairs pairs;
  add_markers(pairs.pieces);
  std::set<std::string> known(units.begin(), units.end());
  known.insert(tokens.begin(), tokens.end());
  for (const std::string& unit : units) pairs.pieces.add(spell(unit), 0, kNormal);
  std::ranges::shuffle(tokens, random);
  for (const std::string& token : tokens) {
    for (std::size_t at = 1; at < token.size(); ++at) {
      const std::string left = token.substr(0, at);
      const std::string right = token.substr(at);
      if (known.contains(left) && known.contains(right)) pairs.merges.push_back(spell(left) + " " + spell(right));
    }
    pairs.pieces.add(spell(token), 0, kNormal);
  }
  return pairs;
}

// Every place where a text may be cut is cut.
void expect_same_when_cut_everywhere(const std::string& path, const std::string& name, std::mt19937_64& random,
                                     bool is_cut) {
  const auto vocabulary = LlamaVocabulary::load(path);
  ASSERT_TRUE(vocabulary.ok()) << name << ": " << vocabulary.error().message;
  const LongText tokenizer(**vocabulary, /*part_bytes=*/1);
  std::size_t parts = 0;
  for (int round = 0; round < kRounds; ++round) {
    const std::string text = telling_text(random, 100);
    const TokenizeOptions options{.add_special = false, .parse_special = round % 2 == 1};
    const auto ids = tokenizer.tokenize(text, options, [&] { return ++parts == 0; });
    ASSERT_TRUE(ids.ok()) << name << ": " << ids.error().message;
    ASSERT_EQ(*ids, (*vocabulary)->tokenize(text, options)) << name << ": " << text;
  }
  if (!is_cut) {
    EXPECT_EQ(parts, std::size_t{kRounds}) << name;
  } else {
    EXPECT_GT(parts, std::size_t{10} * kRounds) << name;
  }
}

// The names of all patterns that differ in libllama, of which a release may lack some.
constexpr const char* kPatterns[] = {"default",        "llama-bpe",   "minicpm5",   "deepseek-llm",
                                     "deepseek-coder", "deepseek-v3", "spark2_5",   "youtu",
                                     "falcon",         "mpt",         "starcoder",  "jais-2",
                                     "refact",         "command-r",   "qwen2",      "qwen35",
                                     "stablelm2",      "olmo",        "dbrx",       "poro-chat",
                                     "bloom",          "viking",      "tekken",     "chatglm-bpe",
                                     "chameleon",      "gpt-4o",      "minimax-m2", "superbpe",
                                     "trillion",       "bailingmoe",  "exaone4",    "seed-coder",
                                     "exaone-moe",     "hunyuan",     "kimi-k2",    "grok-2",
                                     "afmoe",          "laguna",      "tiny_aya",   "ufakzeka",
                                     "hunyuan-dense",  "solar-open",  "mellum2",    "granite-embed-multi-97m",
                                     "sarvam-moe"};

TEST(LongTextKinds, BytePairsWithEveryPattern) {
  const sim::TemporaryDirectory directory;
  const std::uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  std::vector<std::string> tokens = with_characters(telling_tokens());
  for (const char* half : {"你", "好", "。", "，", "？", "한", "ไ", "क", "　"}) tokens.emplace_back(half, 2);
  for (const char* across : {"你\xE3", "a\xE3\x80", "\"sa", "'sa", "sa"}) tokens.emplace_back(across);
  int known = 0;
  for (const char* pattern : kPatterns) {
    BytePairs pairs = byte_pairs(random, all_bytes(), tokens, printable);
    const std::string path = write_vocabulary(directory.path(), pairs.pieces,
                                              {.model = "gpt2", .pattern = pattern, .merges = std::move(pairs.merges)});
    if (!LlamaVocabulary::load(path).ok()) continue;
    ++known;
    expect_same_when_cut_everywhere(path, pattern, random, /*is_cut=*/true);
  }
  EXPECT_GT(known, 30);
}

// Two kinds drop white space and read DNA in sixes.
TEST(LongTextKinds, BytePairsThatRewriteTextAreNotCut) {
  const sim::TemporaryDirectory directory;
  std::mt19937_64 random(test_seed());
  for (const std::string kind : {"whitespace", "hybriddna"}) {
    BytePairs pairs = byte_pairs(random, all_bytes(), telling_tokens(), printable);
    const std::string path = write_vocabulary(directory.path(), pairs.pieces,
                                              {.model = kind, .pattern = "qwen2", .merges = std::move(pairs.merges)});
    if (!LlamaVocabulary::load(path).ok()) continue;  // a release that does not know the kind
    expect_same_when_cut_everywhere(path, kind, random, /*is_cut=*/false);
  }
}

TEST(LongTextKinds, BytePairsOverWholeLines) {
  const sim::TemporaryDirectory directory;
  const std::uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  BytePairs pairs = byte_pairs(random, with_characters({}), telling_tokens(), with_visible_spaces);
  const std::string path = write_vocabulary(
      directory.path(), pairs.pieces, {.model = "gemma4", .pattern = "gemma4", .merges = std::move(pairs.merges)});
  expect_same_when_cut_everywhere(path, "gemma4", random, /*is_cut=*/true);
}

TEST(LongTextKinds, TokenizersWithoutMerges) {
  const sim::TemporaryDirectory directory;
  const std::uint64_t seed = test_seed();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  for (const std::string model : {"llama", "rwkv", "plamo2", "bert", "t5"}) {
    Pieces pieces;
    add_markers(pieces);
    if (model == "llama" || model == "plamo2") add_byte_tokens(pieces);
    const bool has_spaces = model == "rwkv" || model == "plamo2";
    for (const std::string& token : with_characters(telling_tokens())) {
      const float score = -1 - static_cast<float>(random() % 90) / 10;
      pieces.add(has_spaces ? token : with_visible_spaces(token), score, kNormal);
    }
    const std::string path = write_vocabulary(directory.path(), pieces, {.model = model, .pattern = {}, .merges = {}});
    expect_same_when_cut_everywhere(path, model, random, /*is_cut=*/model != "bert" && model != "t5");
  }
}

// Texts of people and programs are cut soon after each part's length, whatever their script.
TEST(LongTextKinds, OrdinaryTextsAreCut) {
  const sim::TemporaryDirectory directory;
  const std::string sentence_pieces_path =
      write_vocabulary(directory.path(), sentence_pieces(), {.model = "llama", .pattern = {}, .merges = {}});
  for (const std::string& path : {engine::llama::tiny_model_path(), sentence_pieces_path}) {
    const auto vocabulary = LlamaVocabulary::load(path);
    ASSERT_TRUE(vocabulary.ok()) << vocabulary.error().message;
    constexpr std::size_t kBytes = 4096;
    const LongText tokenizer(**vocabulary, kBytes);
    for (const std::string line :
         {"В лесу родилась ёлочка, в лесу она росла; зимой и летом.\n",
          "他走进房间，看见桌上有一本书。窗外下着雨，没有人说话。",
          "吾輩は猫である。名前はまだ無い。どこで生れたかとんと見当がつかぬ。", "2026-11-23,17,3.5,Berlin,42,0.001\r\n",
          "{\"id\":17,\"name\":\"x\",\"tags\":[\"a\",\"b\"],\"ok\":true},", "\tif(a[i]!=b[j]){return f(a,&b)+1;}\n",
          "모든 인간은 태어날 때부터 자유로우며\n", "كل الناس يولدون أحرارا متساوين ",
          "iVBORw0KGgo/AAANSUhEUg+AAAAUA/AAAFC"}) {
      std::string text;
      while (text.size() < 4 * kBytes - 500) text += line;
      std::size_t parts = 0;
      const auto ids = tokenizer.tokenize(text, {}, [&] { return ++parts == 0; });
      ASSERT_TRUE(ids.ok()) << line << ids.error().message;
      EXPECT_EQ(parts, 4U) << line;
      EXPECT_TRUE(*ids == (*vocabulary)->tokenize(text, {})) << line;
    }
  }
}

}  // namespace
}  // namespace kvkeep::chat
