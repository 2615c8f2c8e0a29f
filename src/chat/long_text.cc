#include "chat/long_text.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "base/unicode.h"

namespace kvkeep::chat {
namespace {

constexpr std::array<std::string_view, 40> kSeparatorList = {
    " ", "\n", "\r", "\t", "!", "\"", "#", "$", "%", "&", "(", ")", "*", "+",  ",",  "-",  ".",  "/",  ":",  ";",
    "<", "=",  "?",  "@",  "[", "\\", "]", "^", "`", "{", "|", "}", "~", "、", "。", "！", "，", "：", "；", "？"};

// Letters and digits that have been in Unicode for decades, so that all tables agree on them: ASCII, Latin, Greek,
// Cyrillic, Hebrew, Arabic, Devanagari, Thai, kana, Han, Hangul.
constexpr std::array<std::pair<char32_t, char32_t>, 18> kWordCharacters = {{{'0', '9'},
                                                                            {'A', 'Z'},
                                                                            {'a', 'z'},
                                                                            {0xC0, 0xD6},
                                                                            {0xD8, 0xF6},
                                                                            {0xF8, 0x1BA},
                                                                            {0x391, 0x3A1},
                                                                            {0x3A3, 0x3CE},
                                                                            {0x400, 0x481},
                                                                            {0x5D0, 0x5EA},
                                                                            {0x621, 0x63A},
                                                                            {0x641, 0x64A},
                                                                            {0x905, 0x939},
                                                                            {0xE01, 0xE30},
                                                                            {0x3041, 0x3094},
                                                                            {0x30A1, 0x30FA},
                                                                            {0x4E00, 0x9FA5},
                                                                            {0xAC00, 0xD7A3}}};

bool ends_word(char32_t code) {
  return std::ranges::any_of(kWordCharacters,
                             [&](const auto& range) { return code >= range.first && code <= range.second; });
}

std::uint8_t byte_of(char c) { return static_cast<std::uint8_t>(c); }

}  // namespace

LongText::LongText(const Vocabulary& vocabulary, std::size_t part_bytes)
    : vocabulary_(vocabulary), part_bytes_(part_bytes), cuts_(vocabulary.longest_piece_bytes().has_value()) {
  static_assert(kSeparatorList.size() == kSeparators);
  for (TokenId id = 0; static_cast<std::size_t>(id) < vocabulary.size(); ++id) {
    forbid_cuts_in(vocabulary.piece(id, /*with_special=*/true));
  }
  // A special token may swallow the space after it, or add one there.
  for (const SpecialToken& token : vocabulary.special_tokens()) {
    for (auto& before : joined_) before.set(byte_of(token.spelling.back()));
  }
}

void LongText::forbid_cuts_in(std::string_view piece) {
  for (std::size_t at = 1; at < piece.size(); ++at) {
    const std::string_view rest = piece.substr(at);
    for (std::size_t i = 0; i < kSeparators; ++i) {
      const std::string_view separator = kSeparatorList[i];
      if (separator.front() != rest.front()) continue;
      if (rest.starts_with(separator) || separator.starts_with(rest)) joined_[i].set(byte_of(piece[at - 1]));
    }
  }
}

Result<std::vector<TokenId>> LongText::tokenize(std::string_view text, TokenizeOptions options,
                                                const Stop& stop) const {
  if (text.size() <= part_bytes_) return vocabulary_.tokenize(text, options);
  std::vector<TokenId> frame;  // BOS and EOS, if the vocabulary adds them
  if (options.add_special) frame = vocabulary_.tokenize("", options);
  const bool opens = !frame.empty() && frame.front() == vocabulary_.bos();
  const auto ids_of = [&](std::string_view part) -> Result<std::vector<TokenId>> {
    return vocabulary_.tokenize(part, {.add_special = false, .parse_special = options.parse_special});
  };
  TRY_ASSIGN(std::vector<TokenId> ids, in_parts(text, ids_of, stop, part_bytes_));
  if (opens) ids.insert(ids.begin(), frame.front());
  ids.insert(ids.end(), frame.begin() + (opens ? 1 : 0), frame.end());
  return ids;
}

Result<std::vector<TokenId>> LongText::in_parts(std::string_view text, const PartIds& ids_of, const Stop& stop,
                                                std::size_t part_bytes) const {
  std::vector<TokenId> ids;
  for (std::size_t begin = 0; begin < text.size();) {
    if (stop()) return Error{ErrorKind::kAborted, "the client no longer waits for the tokens"};
    const std::size_t end = next_cut(text, begin, part_bytes);
    if (end - begin > kLongestRunBytes) {
      return invalid("the text from byte " + std::to_string(begin) + " on has no end of a word or number: at most " +
                     std::to_string(kLongestRunBytes) +
                     " such bytes in a row are tokenized: shorten that run, or put spaces after letters in it");
    }
    // A part is tokenized with the character before it: some vocabularies put a space before the beginning of a text.
    const std::size_t before = begin == 0 ? 0 : character_before(text, begin).bytes;
    std::vector<TokenId> known;
    if (before > 0) {
      TRY_ASSIGN(known, ids_of(text.substr(begin - before, before)));
    }
    TRY_ASSIGN(const std::vector<TokenId> more, ids_of(text.substr(begin - before, before + end - begin)));
    ids.insert(ids.end(), more.begin() + static_cast<std::ptrdiff_t>(known.size()), more.end());
    begin = end;
  }
  return ids;
}

// Returns the end of the part that begins there: a place to cut, the end, or one byte after the longest run.
std::size_t LongText::next_cut(std::string_view text, std::size_t begin, std::size_t part_bytes) const {
  const std::size_t last = std::min(text.size(), begin + kLongestRunBytes + 1);
  std::size_t at = std::min(last, begin + part_bytes);
  while (at < last && !is_cut(text, at)) ++at;
  return at;
}

bool LongText::is_cut(std::string_view text, std::size_t at) const {
  if (!cuts_ || !ends_word(character_before(text, at).code)) return false;
  const auto separator =
      std::ranges::find_if(kSeparatorList, [rest = text.substr(at)](auto one) { return rest.starts_with(one); });
  if (separator == kSeparatorList.end()) return false;
  return !joined_[static_cast<std::size_t>(separator - kSeparatorList.begin())].test(byte_of(text[at - 1]));
}

}  // namespace kvkeep::chat
