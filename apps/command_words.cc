#include "command_words.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "base/assert.h"
#include "base/edit_distance.h"

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

namespace {

using Words = std::vector<std::string_view>;

// "--kv-disk-dir": kv, disk, dir.
Words words_of(std::string_view name) {
  Words words;
  while (!name.empty()) {
    const std::string_view word = name.substr(0, name.find('-'));
    if (!word.empty()) words.push_back(word);
    name.remove_prefix(std::min(name.size(), word.size() + 1));
  }
  return words;
}

// At most a third of the letters may be wrong: with more, a suggestion would puzzle.
std::size_t most_mistakes(std::string_view word) { return word.size() / 3; }

// --cache-dir is no slip of --cache-ram: each word must be a slip of the other's word in the same place.
bool may_be_slip(std::string_view typed, std::string_view known) {
  const Words a = words_of(typed);
  const Words b = words_of(known);
  if (a.size() != b.size()) return true;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (edit_distance(a[i], b[i]) > std::max<std::size_t>(1, most_mistakes(a[i]))) return false;
  }
  return true;
}

// The only name for which `holds` is true; empty if there is none, or several.
template <typename Predicate>
std::string only_one(const std::vector<std::string>& known, Predicate holds) {
  std::string found;
  for (const std::string& candidate : known) {
    if (!holds(candidate)) continue;
    if (!found.empty()) return {};
    found = candidate;
  }
  return found;
}

std::string& typed_program() {
  static std::string program = "kvkeep";
  return program;
}

}  // namespace

std::string as_typed(const std::string& command) { return quoted_word(typed_program()) + " " + command; }

void set_typed_program(const std::string& program) { typed_program() = program; }

std::string nearest(std::string_view word, const std::vector<std::string>& known) {
  const std::size_t dashes = std::min(word.find_first_not_of('-'), word.size());
  const std::string_view letters = word.substr(dashes);
  std::vector<std::string> slips;
  std::ranges::copy_if(known, std::back_inserter(slips),
                       [word](const std::string& candidate) { return may_be_slip(word, candidate); });
  if (std::string slip = nearest_within(most_mistakes(letters), word, slips); !slip.empty()) return slip;
  if (letters.size() < 2) return {};
  // q8 means q8_0.
  std::string longer = only_one(known, [word](const std::string& candidate) { return candidate.starts_with(word); });
  if (!longer.empty()) return longer;
  // --cache-dir means --kv-disk-dir: the last word says what the value is.
  const Words typed = words_of(word);
  if (dashes != 2 || typed.size() < 2 || typed.back().size() < 3) return {};  // "n" says nothing
  return only_one(known, [last = typed.back()](const std::string& candidate) {
    const Words own = words_of(candidate);
    return own.size() > 1 && own.back() == last;
  });
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& known) {
  const std::string found = nearest(word, known);
  return found.empty() ? std::string() : "; did you mean '" + found + "'?";
}

void MendedLine::keep(const std::string& argument, const std::string& flag) {
  parts_.push_back({quoted_word(argument), flag});
}

void MendedLine::put(const std::string& words, const std::string& flag) {
  const bool is_whole = words.find('=') != std::string::npos;
  if (!is_whole || std::ranges::find(parts_, words, &Part::words) == parts_.end())
    parts_.push_back({words, flag, true});
}

void MendedLine::put_value(const std::string& value, const std::string& flag) {
  parts_.push_back({quoted_word(value), flag, true});
}

std::string MendedLine::line() const {
  std::vector<std::string_view> words;
  for (const Part& part : parts_) {
    const bool is_given = std::ranges::any_of(
        parts_, [&](const Part& other) { return !other.is_ours && !part.flag.empty() && other.flag == part.flag; });
    if (!part.is_ours || !is_given) words.push_back(part.words);
  }
  return fmt::format("{}", fmt::join(words, " "));
}

void MendedLine::note(const Error& trouble, bool mended) {
  all_mended_ &= mended;
  if (std::ranges::find(troubles_, trouble.message, &Error::message) == troubles_.end()) troubles_.push_back(trouble);
}

Error MendedLine::error() const {
  KVKEEP_ASSERT(!is_sound(), "an error of a line without one");
  std::string text;
  for (const Error& trouble : troubles_) {
    if (!text.empty()) text += text.ends_with('?') ? " " : ". ";
    text += trouble.message;
  }
  if (all_mended_) text += fmt::format("{} Try: {}", text.ends_with('?') ? "" : ".", line());
  const bool unsupported = std::ranges::find(troubles_, ErrorKind::kUnsupported, &Error::kind) != troubles_.end();
  return {unsupported ? ErrorKind::kUnsupported : troubles_.front().kind, std::move(text)};
}

std::string quoted_word(const std::string& text) {
  constexpr std::string_view kPlain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_@%+=:,./-";
  if (!text.empty() && text.find_first_not_of(kPlain) == std::string::npos) return text;
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

}  // namespace kvkeep::cli
