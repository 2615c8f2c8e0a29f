#pragma once

// A vocabulary for tests: a list of pieces, some of them markers. Text is cut into the longest pieces from the left, so
// ids that were chosen otherwise give the same text and tokenize to other ids.

#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/vocabulary.h"

namespace kvkeep {

class WordVocabulary final : public Vocabulary {
 public:
  WordVocabulary(std::vector<std::string> pieces, std::set<TokenId> markers)
      : pieces_(std::move(pieces)), markers_(std::move(markers)) {
    for (const TokenId id : markers_) special_.push_back({.id = id, .spelling = piece(id, true), .control = true});
  }

  bool is_marker(TokenId id) const { return markers_.contains(id); }

  std::size_t size() const override { return pieces_.size(); }
  // Bytes that no piece begins with are left out.
  std::vector<TokenId> tokenize(std::string_view text, TokenizeOptions options) const override {
    std::vector<TokenId> tokens;
    while (!text.empty()) {
      std::size_t longest = 0;
      for (std::size_t i = 0; i < pieces_.size(); ++i) {
        const auto id = static_cast<TokenId>(i);
        if (pieces_[i].size() <= longest || !text.starts_with(pieces_[i])) continue;
        if (is_marker(id) && !options.parse_special) continue;
        if (longest > 0) tokens.pop_back();
        tokens.push_back(id);
        longest = pieces_[i].size();
      }
      text.remove_prefix(longest > 0 ? longest : 1);
    }
    return tokens;
  }
  std::vector<TokenId> tokenize_continuation(std::string_view text) const override { return tokenize(text, {}); }
  std::string piece(TokenId id, bool with_special) const override {
    return is_marker(id) && !with_special ? "" : pieces_[static_cast<std::size_t>(id)];
  }
  std::optional<std::size_t> longest_piece_bytes() const override { return std::nullopt; }
  const std::vector<SpecialToken>& special_tokens() const override { return special_; }
  std::optional<TokenId> bos() const override { return std::nullopt; }
  std::optional<TokenId> eos() const override { return std::nullopt; }
  bool add_bos() const override { return false; }
  bool is_end_of_generation(TokenId) const override { return false; }

 private:
  std::vector<std::string> pieces_;
  std::set<TokenId> markers_;
  std::vector<SpecialToken> special_;
};

}  // namespace kvkeep
