#include "mended_line.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/assert.h"

namespace kvkeep::cli {

void MendedLine::keep(const std::string& argument) { words_.push_back(quoted_word(argument)); }

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
  if (all_mended_) text += fmt::format("{} Try: {}", text.ends_with('?') ? "" : ".", fmt::join(words_, " "));
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
