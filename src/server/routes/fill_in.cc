#include "server/routes/fill_in.h"

#include <algorithm>

namespace kvkeep::server {
namespace {

constexpr std::size_t kGapTokens = 3;

void append(std::vector<TokenId>& to, const FillText& text) { to.insert(to.end(), text.begin(), text.end()); }

void drop_first(FillText& text, std::size_t count) {
  text.erase(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(std::min(count, text.size())));
}

void shorten(FillText& before, FillText& after, std::size_t room) {
  if (before.size() + after.size() <= room) return;
  const std::size_t least_after = std::min(after.size(), room / 4);
  after.resize(std::max(least_after, room - std::min(room, before.size())));
  const std::size_t left = room - after.size();
  if (before.size() <= left) return;
  const std::size_t step = std::max<std::size_t>(room / 8, 1);
  drop_first(before, (before.size() - left + step - 1) / step * step);
}

bool continues_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U; }

}  // namespace

std::string_view end_of_text(std::string_view text, std::size_t most_bytes) {
  if (text.size() <= most_bytes) return text;
  const std::size_t step = std::max<std::size_t>(most_bytes / 8, 1);
  std::size_t from = std::min(text.size(), (text.size() - most_bytes + step - 1) / step * step);
  while (from < text.size() && continues_character(text[from])) ++from;
  return text.substr(from);
}

std::string_view beginning_of_text(std::string_view text, std::size_t most_bytes) {
  if (text.size() <= most_bytes) return text;
  std::size_t to = most_bytes;
  while (to > 0 && continues_character(text[to])) --to;
  return text.substr(0, to);
}

std::optional<std::vector<TokenId>> join_fill(FillParts parts, const FillTokens& tokens, std::size_t room,
                                              FillOrder order) {
  if (!tokens.prefix || !tokens.suffix || !tokens.middle) return std::nullopt;
  const std::size_t fixed = parts.begin.size() + parts.own_file.size() + kGapTokens;
  if (fixed >= room) return std::nullopt;
  shorten(parts.before, parts.after, room - fixed);
  std::size_t left = room - fixed - parts.before.size() - parts.after.size();
  auto first = parts.files.end();
  while (first != parts.files.begin() && std::prev(first)->size() <= left) left -= (--first)->size();
  std::vector<TokenId> all = std::move(parts.begin);
  for (auto file = first; file != parts.files.end(); ++file) append(all, *file);
  append(all, parts.own_file);
  parts.before.insert(parts.before.begin(), *tokens.prefix);
  parts.after.insert(parts.after.begin(), *tokens.suffix);
  append(all, order == FillOrder::kPrefixFirst ? parts.before : parts.after);
  append(all, order == FillOrder::kPrefixFirst ? parts.after : parts.before);
  all.push_back(*tokens.middle);
  return all;
}

}  // namespace kvkeep::server
