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
  static constexpr std::size_t kRead = 3;
  std::size_t groups = 0;
  std::array<int, kRead> values = {};  // of the first groups
  std::array<std::size_t, kRead> digits = {};
  char separator = 0;
  std::size_t begin = 0;
  std::size_t end = 0;  // after the last digit

  bool is_year(std::size_t group) const { return digits[group] == 4 && values[group] >= 1900 && values[group] < 2200; }
};

int value_of(std::string_view digits) {
  int value = 0;
  for (const char digit : digits) value = value * 10 + (digit - '0');
  return value;
}

// Reads as many groups as there are from `begin` on, each of at most four digits and after the same separator.
Figures figures_at(std::string_view text, std::size_t begin, std::string_view separators) {
  Figures found{.begin = begin, .end = begin};
  for (std::size_t at = begin;;) {
    const std::size_t digits = digits_at(text, at);
    if (digits == 0 || digits > 4) return found;
    if (found.groups < Figures::kRead) {
      found.values[found.groups] = value_of(text.substr(at, digits));
      found.digits[found.groups] = digits;
    }
    ++found.groups;
    found.end = at += digits;
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

char char_at(std::string_view text, std::size_t at) { return at < text.size() ? text[at] : '\0'; }
char char_before(std::string_view text, std::size_t at) { return at > 0 ? text[at - 1] : '\0'; }

// ---- dates ----

bool is_day_of_month(int day, int month) { return day >= 1 && day <= 31 && month >= 1 && month <= 12; }

// With dots, figures without a year are versions ("0.2.0") and addresses ("127.0.0.1"); between slashes they are a
// path.
bool is_day(std::string_view text, const Figures& figures) {
  if (figures.groups < 3) return false;
  const auto& [first, second, third] = figures.values;
  if (figures.is_year(0)) return is_day_of_month(third, second);
  const bool has_year = figures.is_year(2) || (figures.digits[2] == 2 && figures.separator != '.');
  if (figures.groups > 3 || !has_year) return false;
  const bool in_path = char_before(text, figures.begin) == '/' || char_at(text, figures.end) == '/';
  return !in_path && (is_day_of_month(first, second) || is_day_of_month(second, first));
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

// With a capital: "you may" is no month.
bool names_month(std::string_view word) {
  if (word.empty() || word.front() < 'A' || word.front() > 'Z') return false;
  const std::string name = lower(word);
  return std::ranges::any_of(kMonths,
                             [&](std::string_view month) { return name == month || name == month.substr(0, 3); });
}

constexpr std::string_view kBetweenDayAndMonth = " .,-/";

// A day of a month or a year, which ends there.
bool is_day_or_year(std::string_view digits) {
  if (digits.empty() || digits.size() > 4) return false;
  const int value = value_of(digits);
  return digits.size() <= 2 ? value >= 1 && value <= 31 : value >= 1900 && value < 2200;
}

// "May 4", "4 May", "04-May-2026", "May 2026": the figures stand next to the month.
bool has_day_beside(std::string_view text, std::size_t begin, std::size_t end) {
  constexpr std::size_t kMostBetween = 2;
  std::size_t after = end;
  while (after < end + kMostBetween && kBetweenDayAndMonth.contains(char_at(text, after))) ++after;
  if (after > end && is_day_or_year(text.substr(std::min(after, text.size()), digits_at(text, after)))) return true;
  std::size_t before = begin;
  while (begin < before + kMostBetween && kBetweenDayAndMonth.contains(char_before(text, before))) --before;
  std::size_t first = before;
  while (is_digit(char_before(text, first))) --first;
  return before < begin && is_day_or_year(text.substr(first, before - first));
}

// A name of a month with a day or a year next to it, or of a day of the week.
bool names_day(std::string_view text) {
  for (std::size_t begin = 0; begin < text.size();) {
    std::size_t end = begin;
    while (end < text.size() && is_letter(text[end])) ++end;
    const std::string_view word = text.substr(begin, end - begin);
    if (std::ranges::find(kDays, lower(word)) != kDays.end()) return true;
    if (names_month(word) && has_day_beside(text, begin, end)) return true;
    begin = std::max(end, begin + 1);
  }
  return false;
}

bool is_date(std::string_view text) {
  return has_figures(text, "-/.", [&](const Figures& figures) { return is_day(text, figures); }) || names_day(text);
}

// ---- times of day ----

// The word that goes on at `end` names a file or a host, as in "src/main.cc:12:05".
bool is_path_before(std::string_view text, std::size_t end) {
  for (std::size_t at = end; at > 0 && text[at - 1] != ' ' && text[at - 1] != '\t'; --at) {
    const char sign = text[at - 1];
    const bool joins = sign == '.' || sign == '/' || sign == '\\';
    if (joins && (is_letter(char_before(text, at - 1)) || is_letter(char_at(text, at)))) return true;
  }
  return false;
}

bool is_time_of_day(std::string_view text, const Figures& figures) {
  if (figures.groups < 2 || figures.groups > 3) return false;
  const auto& [hour, minute, second] = figures.values;
  if (figures.digits[0] > 2 || hour >= 24 || figures.digits[1] != 2 || minute >= 60) return false;
  if (figures.groups == 3 && (figures.digits[2] != 2 || second > 60)) return false;
  const char before = char_before(text, figures.begin);
  if (before == '.') return false;  // "127.0.0.1:44"
  // "Makefile:12:30: error", and a part of longer figures.
  const char named = before == ':' ? char_before(text, figures.begin - 1) : 'x';
  const bool is_line = before == ':' && char_at(text, figures.end) == ':';
  return !is_line && !is_digit(named) && named != ':' && !is_path_before(text, figures.begin);
}

bool is_time(std::string_view text) {
  return has_figures(text, ":", [&](const Figures& figures) { return is_time_of_day(text, figures); });
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

// Only a time of day was put in or left out, next to a date that stayed: "2026-05-04" and "2026-05-04 17:05".
bool is_time_beside_a_date(const ChangedText& text) {
  const std::string_view here = first_line(text.here);
  const std::string_view there = first_line(text.there);
  return is_time(here) != is_time(there) && !is_date(here) && !is_date(there);
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
  if (is_date(here) && is_date(there)) return is_time_beside_a_date(text) ? VolatileText::kTime : VolatileText::kDate;
  if (follows_git(text)) return VolatileText::kGitStatus;
  return is_number(text.here) && is_number(text.there) ? VolatileText::kNumber : VolatileText::kNone;
}

}  // namespace kvkeep::explain
