#pragma once

// A vocabulary for tests: every byte is a token, a few words are tokens too (so that text tokenizes differently when it
// is cut), and special tokens behave as libllama's: USER_DEFINED spellings are found in plain text, CONTROL ones only
// when special tokens are parsed. Id: bytes 0..255, then words, then special tokens in the order given.

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/vocabulary.h"

namespace kvkeep::chat {

class FakeVocabulary : public Vocabulary {
 public:
  explicit FakeVocabulary(std::vector<SpecialToken> special = standard_special(), bool add_bos = false)
      : special_(std::move(special)), add_bos_(add_bos) {
    for (std::size_t i = 0; i < special_.size(); ++i) special_[i].id = first_special() + static_cast<TokenId>(i);
  }

  static std::vector<SpecialToken> standard_special() {
    std::vector<SpecialToken> tokens;
    for (const char* control : {"<s>", "</s>", "<|im_start|>", "<|im_end|>", "<|end|>"}) {
      tokens.push_back({.id = 0, .spelling = control, .control = true});
    }
    for (const char* defined : {"<tool_call>", "</tool_call>", "<think>", "</think>", "\n\n\n", "<table>"}) {
      tokens.push_back({.id = 0, .spelling = defined, .control = false});
    }
    return tokens;
  }

  std::size_t size() const override { return static_cast<std::size_t>(first_special()) + special_.size(); }
  std::vector<TokenId> tokenize(std::string_view text, TokenizeOptions options) const override {
    std::vector<TokenId> tokens;
    if (options.add_special && add_bos_) tokens.push_back(*bos());
    while (!text.empty()) {
      const auto [id, length] = next_token(text, options.parse_special);
      tokens.push_back(id);
      text.remove_prefix(length);
    }
    return tokens;
  }
  std::vector<TokenId> tokenize_continuation(std::string_view text) const override { return tokenize(text, {}); }
  std::string piece(TokenId id, bool with_special) const override {
    if (id < 256) return std::string(1, static_cast<char>(id));
    if (id < first_special()) return words()[static_cast<std::size_t>(id) - 256];
    const SpecialToken& token = special_[static_cast<std::size_t>(id - first_special())];
    return token.control && !with_special ? "" : token.spelling;
  }
  std::optional<std::size_t> longest_piece_bytes() const override {
    std::size_t longest = 1;
    for (const std::string& word : words()) longest = std::max(longest, word.size());
    for (const SpecialToken& token : special_) longest = std::max(longest, token.spelling.size());
    return longest;
  }
  const std::vector<SpecialToken>& special_tokens() const override { return special_; }
  std::optional<TokenId> bos() const override { return id_of("<s>"); }
  std::optional<TokenId> eos() const override { return id_of("</s>"); }
  bool add_bos() const override { return add_bos_; }
  bool is_end_of_generation(TokenId id) const override { return id == id_of("</s>") || id == id_of("<|im_end|>"); }

  std::optional<TokenId> id_of(std::string_view spelling) const {
    for (const SpecialToken& token : special_) {
      if (token.spelling == spelling) return token.id;
    }
    return std::nullopt;
  }

 private:
  static const std::vector<std::string>& words() {
    static const std::vector<std::string> word_list = {"hello", " world", "call", "im_", "the ",
                                                       "user",  "<|",     "|>",   "th",  "ink"};
    return word_list;
  }
  static TokenId first_special() { return 256 + static_cast<TokenId>(words().size()); }

  std::pair<TokenId, std::size_t> next_token(std::string_view text, bool parse_special) const {
    std::pair<TokenId, std::size_t> best{static_cast<unsigned char>(text[0]), 1};
    for (std::size_t i = 0; i < words().size(); ++i) {
      if (words()[i].size() > best.second && text.starts_with(words()[i]))
        best = {256 + static_cast<TokenId>(i), words()[i].size()};
    }
    bool special_found = false;  // a special token goes before a longer word
    for (const SpecialToken& token : special_) {
      if ((token.control && !parse_special) || !text.starts_with(token.spelling)) continue;
      if (special_found && token.spelling.size() <= best.second) continue;
      best = {token.id, token.spelling.size()};
      special_found = true;
    }
    return best;
  }

  std::vector<SpecialToken> special_;
  bool add_bos_;
};

}  // namespace kvkeep::chat
