#include "chat/long_text.h"

#include <algorithm>
#include <string>

namespace kvkeep::chat {
namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

std::size_t index_of(char c) { return static_cast<unsigned char>(c); }

}  // namespace

LongText::LongText(const Vocabulary& vocabulary)
    : vocabulary_(vocabulary), adds_space_(vocabulary.tokenize_text("a") != vocabulary.tokenize_continuation("a")) {
  if (!vocabulary.longest_piece_bytes()) return;
  for (std::size_t i = 0; i < ends_word_.size(); ++i) ends_word_[i] = is_letter(static_cast<char>(i));
  for (TokenId id = 0; static_cast<std::size_t>(id) < vocabulary.size(); ++id) {
    const std::string piece = vocabulary.piece(id, /*with_special=*/true);
    for (std::size_t i = 0; i + 1 < piece.size(); ++i) {
      if (piece[i + 1] == ' ') ends_word_[index_of(piece[i])] = false;
    }
  }
  // A special token may swallow the space after it, or add one there.
  for (const SpecialToken& token : vocabulary.special_tokens()) {
    ends_word_[index_of(token.spelling.back())] = false;
  }
}

Result<std::vector<TokenId>> LongText::tokenize(std::string_view text, TokenizeOptions options, const Stop& stop,
                                                std::size_t longest_run) const {
  if (text.size() <= kPartBytes) return vocabulary_.tokenize(text, options);
  std::vector<TokenId> frame;  // BOS and EOS, if the vocabulary adds them
  if (options.add_special) frame = vocabulary_.tokenize("", options);
  const bool opens = !frame.empty() && frame.front() == vocabulary_.bos();
  const auto ids_of = [&](std::string_view part) -> Result<std::vector<TokenId>> {
    return vocabulary_.tokenize(part, {.add_special = false, .parse_special = options.parse_special});
  };
  TRY_ASSIGN(std::vector<TokenId> ids, in_parts(text, ids_of, stop, longest_run));
  if (opens) ids.insert(ids.begin(), frame.front());
  ids.insert(ids.end(), frame.begin() + (opens ? 1 : 0), frame.end());
  return ids;
}

Result<std::vector<TokenId>> LongText::in_parts(std::string_view text, const PartIds& ids_of, const Stop& stop,
                                                std::size_t longest_run) const {
  std::vector<TokenId> ids;
  for (std::size_t begin = 0; begin < text.size();) {
    if (stop()) return Error{ErrorKind::kAborted, "nobody waits for the tokens any more"};
    const std::size_t end = next_cut(text, begin + kPartBytes);
    if (end - begin > longest_run) {
      return invalid(std::to_string(end - begin) + " bytes of text from byte " + std::to_string(begin) +
                     " on have no two words with a space between them: at most " + std::to_string(longest_run) +
                     " such bytes in a row are tokenized");
    }
    std::string_view part = text.substr(begin, end - begin);
    // A later part begins with a space, which such a vocabulary adds by itself.
    if (begin > 0 && adds_space_) part.remove_prefix(1);
    TRY_ASSIGN(const std::vector<TokenId> more, ids_of(part));
    ids.insert(ids.end(), more.begin(), more.end());
    begin = end;
  }
  return ids;
}

// The first place to cut at or after `from`, or the end.
std::size_t LongText::next_cut(std::string_view text, std::size_t from) const {
  std::size_t at = std::max<std::size_t>(from, 1);
  while (at < text.size() && !is_cut(text, at)) ++at;
  return std::min(at, text.size());
}

bool LongText::is_cut(std::string_view text, std::size_t at) const {
  return text[at] == ' ' && ends_word_[index_of(text[at - 1])] && at + 1 < text.size() && is_letter(text[at + 1]);
}

}  // namespace kvkeep::chat
