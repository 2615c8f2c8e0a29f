#include "command_words.h"

#include <optional>
#include <utility>

namespace kvkeep::cli {

Result<std::vector<std::string>> command_words(std::string_view text) {
  std::vector<std::string> words;
  std::optional<std::string> word;
  char quote = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool escapes = c == '\\' && i + 1 < text.size() &&
                         (quote == 0 || (quote == '"' && (text[i + 1] == '"' || text[i + 1] == '\\')));
    if (quote == 0 && (c == ' ' || c == '\t' || c == '\n')) {
      if (word) words.push_back(*std::exchange(word, std::nullopt));
      continue;
    }
    if (!word) word.emplace();
    if (escapes)
      *word += text[++i];
    else if (quote == 0 && (c == '\'' || c == '"'))
      quote = c;
    else if (c == quote)
      quote = 0;
    else
      *word += c;
  }
  if (quote != 0) return invalid("a quote is not closed in: " + std::string(text));
  if (word) words.push_back(*std::move(word));
  if (words.empty()) return invalid("no command");
  return words;
}

}  // namespace kvkeep::cli
