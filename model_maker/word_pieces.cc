// The vocabulary of generated encoders: WordPiece, as GGUF has it ("bert"). A token that begins a word is spelt with
// U+2581 before it, one that continues a word without. Words are cut greedily into the longest tokens; all characters
// of ASCII are there, so that only other scripts are unknown.

#include <gguf.h>

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <string_view>

#include "model_maker/vocabulary.h"

namespace kvkeep::gguf {
namespace {

constexpr std::string_view kWordBegin = "\xE2\x96\x81";  // U+2581
constexpr std::string_view kBlank = "\xC4\xA0";          // U+0120, which stands for a blank in byte pairs
constexpr std::int32_t kUnknownType = 2;
constexpr std::array<std::string_view, 5> kRoles = {"padding", "unknown", "cls", "seperator", "mask"};
constexpr std::array<std::string_view, 5> kSpecials = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
constexpr TokenId kUnknown = 1;
constexpr TokenId kClass = 2;

bool is_lower_word(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= 'a' && c <= 'z'; });
}

Vocabulary build_word_pieces() {
  Vocabulary vocabulary;
  std::set<std::string> known;
  const auto add = [&](std::string spelling, std::int32_t type) {
    if (!known.insert(spelling).second) return;
    vocabulary.spellings.push_back(std::move(spelling));
    vocabulary.types.push_back(type);
  };
  for (const std::string_view special : kSpecials) add(std::string(special), 3);
  vocabulary.types[kUnknown] = kUnknownType;
  for (char c = '!'; c <= '~'; ++c) {
    if (c >= 'A' && c <= 'Z') continue;  // texts become lower case
    add(std::string(kWordBegin) + c, 1);
    add(std::string(1, c), 1);
  }
  for (const std::string& spelling : shared_vocabulary().spellings) {
    std::string_view word = spelling;
    const bool begins = word.starts_with(kBlank);
    if (begins) word.remove_prefix(kBlank.size());
    if (is_lower_word(word)) add((begins ? std::string(kWordBegin) : std::string()).append(word), 1);
  }
  vocabulary.whole_word.assign(vocabulary.size(), false);
  return vocabulary;
}

void write_id(gguf_context* file, std::string_view role, TokenId id) {
  const std::string key = "tokenizer.ggml." + std::string(role) + "_token_id";
  gguf_set_val_u32(file, key.c_str(), static_cast<std::uint32_t>(id));
}

}  // namespace

const Vocabulary& word_piece_vocabulary() {
  static const Vocabulary kVocabulary = build_word_pieces();
  return kVocabulary;
}

void write_word_pieces(const Vocabulary& vocabulary, gguf_context* file) {
  std::vector<const char*> spellings;
  for (const std::string& spelling : vocabulary.spellings) spellings.push_back(spelling.c_str());
  gguf_set_val_str(file, "tokenizer.ggml.model", "bert");
  gguf_set_val_u32(file, "tokenizer.ggml.token_type_count", 2);
  gguf_set_arr_str(file, "tokenizer.ggml.tokens", spellings.data(), spellings.size());
  gguf_set_arr_data(file, "tokenizer.ggml.token_type", GGUF_TYPE_INT32, vocabulary.types.data(), vocabulary.size());
  for (std::size_t i = 0; i < kRoles.size(); ++i) write_id(file, kRoles[i], static_cast<TokenId>(i));
  write_id(file, "bos", kClass);
}

}  // namespace kvkeep::gguf
