#include <algorithm>
#include <array>
#include <string>

#include "explain/cache_break.h"

namespace kvkeep::explain {
namespace {

// Of the line around a change: a date or a time may begin before it and end after it.
constexpr std::size_t kAround = 16;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_hexadecimal(char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

std::size_t digits_at(std::string_view text, std::size_t at) {
  std::size_t count = 0;
  while (at + count < text.size() && is_digit(text[at + count])) ++count;
  return count;
}

// Digits, a separator, digits and so on: "2026-05-04", "5/4/26", "17:05".
struct Figures {
  std::size_t groups = 0;
  char separator = 0;
  bool has_year = false;  // four digits
};

// Reads as many groups as there are from `begin` on, each of at most four digits and after the same separator.
Figures figures_at(std::string_view text, std::size_t begin, std::string_view separators) {
  Figures found;
  for (std::size_t at = begin;;) {
    const std::size_t digits = digits_at(text, at);
    if (digits == 0 || digits > 4) return found;
    found.has_year |= digits == 4;
    ++found.groups;
    at += digits;
    if (at >= text.size() || !separators.contains(text[at])) return found;
    if (found.separator != 0 && text[at] != found.separator) return found;
    found.separator = text[at++];
  }
}

template <typename Wanted>
bool has_figures(std::string_view text, std::string_view separators, Wanted wanted) {
  for (std::size_t begin = 0; begin < text.size(); ++begin) {
    if (!is_digit(text[begin]) || (begin > 0 && is_digit(text[begin - 1]))) continue;
    if (wanted(figures_at(text, begin, separators))) return true;
  }
  return false;
}

// With dots, figures without a year are versions ("0.2.0") and addresses ("127.0.0.1").
bool is_day(const Figures& figures) {
  if (figures.separator == '.') return figures.groups == 3 && figures.has_year;
  return figures.groups >= 3;
}

constexpr std::array kMonths =
    std::to_array<std::string_view>({"january", "february", "march", "april", "may", "june", "july", "august",
                                     "september", "october", "november", "december"});
constexpr std::array kDays =
    std::to_array<std::string_view>({"monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"});

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? char(c - 'A' + 'a') : c; });
  return out;
}

bool names_month(std::string_view word) {
  return std::ranges::any_of(kMonths,
                             [&](std::string_view month) { return word == month || word == month.substr(0, 3); });
}

// A name of a month with a number near it, or of a day.
bool names_day(std::string_view text) {
  const std::string words = lower(text);
  const bool has_number = std::ranges::any_of(words, is_digit);
  for (std::size_t begin = 0; begin < words.size();) {
    std::size_t end = begin;
    while (end < words.size() && is_letter(words[end])) ++end;
    const std::string_view word = std::string_view(words).substr(begin, end - begin);
    if (std::ranges::find(kDays, word) != kDays.end() || (has_number && names_month(word))) return true;
    begin = std::max(end, begin + 1);
  }
  return false;
}

bool is_date(std::string_view text) { return has_figures(text, "-/.", is_day) || names_day(text); }
bool is_time(std::string_view text) {
  return has_figures(text, ":", [](const Figures& figures) { return figures.groups >= 2 && !figures.has_year; });
}

// Words that are digits, in both changed texts.
bool is_number(std::string_view text) {
  const bool any = std::ranges::any_of(text, is_digit);
  const bool only = std::ranges::all_of(
      text, [](char c) { return is_hexadecimal(c) || std::string_view(" \n\t-_.,:;x").contains(c); });
  return any && only && !text.empty();
}

std::string_view first_line(std::string_view text) { return text.substr(0, text.find('\n')); }

std::string around(const ChangedText& text, std::string_view changed) {
  std::string line(line_before(text.before, kAround));
  line += first_line(changed);
  if (!changed.contains('\n')) line += first_line(text.after).substr(0, kAround);
  return line;
}

constexpr std::array kGitWords =
    std::to_array<std::string_view>({"gitstatus", "git status", "recent commits", "current branch", "git branch"});

bool follows_git(const ChangedText& text) {
  constexpr std::size_t kLines = 1'000;
  const std::string above = lower(text.before.substr(text.before.size() - std::min(text.before.size(), kLines)));
  return std::ranges::any_of(kGitWords, [&](std::string_view words) { return above.contains(words); });
}

}  // namespace

std::string_view to_string(VolatileText text) {
  switch (text) {
    case VolatileText::kNone: return "text";
    case VolatileText::kBillingLine: return "billing-line";
    case VolatileText::kGitStatus: return "git-status";
    case VolatileText::kDate: return "date";
    case VolatileText::kTime: return "time";
    case VolatileText::kNumber: return "number";
  }
  return "text";
}

std::string_view line_before(std::string_view before, std::size_t most) {
  const std::size_t end = before.rfind('\n');
  std::string_view line = end == std::string_view::npos ? before : before.substr(end + 1);
  if (line.size() <= most) return line;
  line.remove_prefix(line.size() - most);
  // Not in the middle of a character.
  while (!line.empty() && (static_cast<unsigned char>(line.front()) & 0xC0) == 0x80) line.remove_prefix(1);
  return line;
}

VolatileText volatile_text(const ChangedText& text) {
  if (line_before(text.before, 200).starts_with("x-anthropic-billing-header:")) return VolatileText::kBillingLine;
  const std::string here = around(text, text.here);
  const std::string there = around(text, text.there);
  if (is_time(here) && is_time(there)) return VolatileText::kTime;
  if (is_date(here) && is_date(there)) return VolatileText::kDate;
  if (follows_git(text)) return VolatileText::kGitStatus;
  return is_number(text.here) && is_number(text.there) ? VolatileText::kNumber : VolatileText::kNone;
}

}  // namespace kvkeep::explain
