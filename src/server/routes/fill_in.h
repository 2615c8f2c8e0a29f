#pragma once

// The prompt with which a model fills a gap in a text, in the order in which such models are trained:
//
//   BOS  repository NAME  file NAME TEXT ...  file NAME  prefix BEFORE  suffix AFTER  middle
//
// where the names in small letters are tokens (base/vocabulary.h); some are trained with the suffix before the prefix.
// Other files come first because they change least: while a user types, all of them and most of BEFORE stay in the
// cache. Pure.

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "base/types.h"
#include "base/vocabulary.h"

namespace kvkeep::server {

using FillText = std::vector<TokenId>;

// The texts of the prompt. Each comes with the tokens that introduce it, except `before` and `after`.
struct FillParts {
  FillText begin = {};               // BOS and the repository
  std::vector<FillText> files = {};  // other files
  FillText own_file = {};            // the name of the file with the gap
  FillText before = {};
  FillText after = {};
};

enum class FillOrder { kPrefixFirst, kSuffixFirst };

// Joins the parts to at most `room` tokens. If they are more, other files leave whole, the first ones first; and of the
// text around the gap stays what is next to it, three quarters of it before the gap. The beginning of `before` is cut
// by eighths of the room: it stays where it is while the user types on. Returns nullopt if `room` is too small for any
// text, or the vocabulary lacks a token of a gap.
std::optional<std::vector<TokenId>> join_fill(FillParts parts, const FillTokens& tokens, std::size_t room,
                                              FillOrder order = FillOrder::kPrefixFirst);

// What is left of a text that is longer than `most_bytes`: its end, which begins at the same byte for an eighth of that
// length while the text grows, or its beginning. Whole characters. A text that no room can hold need not be tokenized.
std::string_view end_of_text(std::string_view text, std::size_t most_bytes);
std::string_view beginning_of_text(std::string_view text, std::size_t most_bytes);

}  // namespace kvkeep::server
