#include "policy/likely_cuts.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace kvkeep::policy {

namespace {

constexpr std::string_view kWhiteSpace = " \t\r\n";

constexpr std::array<std::string_view, 12> kMonths{"January",   "February", "March",    "April",
                                                   "May",       "June",     "July",     "August",
                                                   "September", "October",  "November", "December"};

// How lines begin in which agents and git describe a state that changes between sessions; lower case, without leading
// "#".
constexpr std::array<std::string_view, 15> kStateHeads{"<env>",
                                                       "<environment_context>",
                                                       "<environment_details>",
                                                       "environment",
                                                       "git status",
                                                       "gitstatus",
                                                       "current branch",
                                                       "on branch ",
                                                       "status:",
                                                       "recent commits",
                                                       "your branch is",
                                                       "working directory",
                                                       "current working dir",
                                                       "current time",
                                                       "current date"};

constexpr std::array<std::string_view, 6> kReminderEnds{"</system-reminder>",     "</environment_context>",
                                                        "</environment_details>", "</user_instructions>",
                                                        "</INSTRUCTIONS>",        "</env>"};

constexpr std::array<std::string_view, 4> kToolHeads{R"({"type": "function")", R"({"type":"function")", R"({"name": ")",
                                                     R"({"name":")"};

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_hex(char c) { return is_digit(c) || (c >= 'a' && c <= 'f'); }

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(kWhiteSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kWhiteSpace) + 1 - begin);
}

std::size_t digits_at(std::string_view text, std::size_t at) {
  std::size_t count = 0;
  while (at + count < text.size() && is_digit(text[at + count])) ++count;
  return count;
}

// 2026-11-20, or 21:51, at the first of some digits.
bool is_numeric_date(std::string_view text, std::size_t at) {
  const std::size_t first = digits_at(text, at);
  const std::size_t mark = at + first;
  if (mark >= text.size() || digits_at(text, mark + 1) != 2) return false;
  if (text[mark] == ':') return first <= 2;
  return first == 4 && text[mark] == '-' && text.substr(mark + 3).starts_with('-') && digits_at(text, mark + 4) == 2;
}

// Nov 20, or November 20; not a year.
bool is_named_date(std::string_view text, std::size_t at) {
  std::size_t end = at;
  while (end < text.size() && std::isalpha(static_cast<unsigned char>(text[end])) != 0) ++end;
  const std::string_view word = text.substr(at, end - at);
  const auto names = [word](std::string_view month) { return word == month || word == month.substr(0, 3); };
  if (std::ranges::none_of(kMonths, names)) return false;
  if (end >= text.size() || text[end] != ' ') return false;
  while (end < text.size() && text[end] == ' ') ++end;
  const std::size_t day = digits_at(text, end);
  return day == 1 || day == 2;
}

bool has_date(std::string_view line) {
  for (std::size_t at = 0; at < line.size(); ++at) {
    const bool word_begins = at == 0 || std::isalnum(static_cast<unsigned char>(line[at - 1])) == 0;
    if (!word_begins) continue;
    if (is_digit(line[at]) ? is_numeric_date(line, at) : is_named_date(line, at)) return true;
  }
  return false;
}

// "ec29d22 Initial commit", "commit 1f3a...".
bool is_commit(std::string_view line) {
  if (line.starts_with("commit ")) line.remove_prefix(7);
  const auto end = std::ranges::find_if_not(line, is_hex);
  const std::string_view hash = line.substr(0, static_cast<std::size_t>(end - line.begin()));
  if (hash.size() < 7 || hash.size() > 40 || (end != line.end() && *end != ' ')) return false;
  return std::ranges::any_of(hash, is_digit) && !std::ranges::all_of(hash, is_digit);
}

std::string lower_head(std::string_view line) {
  line.remove_prefix(std::min(line.find_first_not_of("#-* "), line.size()));
  std::string lower(line.substr(0, 32));
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return lower;
}

// Fewer bytes begin too many lines.
constexpr std::size_t kLeastHead = 4;
constexpr std::size_t kMostHead = 48;

// Returns the line up to the first digit and the last whole word; empty if nothing of it differs from other lines.
std::string_view stable_head(std::string_view line, bool is_whole) {
  const std::size_t digit = line.find_first_of("0123456789");
  std::string_view head = line.substr(0, std::min(digit, kMostHead));
  const bool cut_in_word = head.size() == line.size() ? !is_whole : digit > kMostHead;
  if (cut_in_word) head = head.substr(0, head.find_last_of(" \t:=([{<\"'") + 1);
  head = head.substr(0, head.find_last_not_of(" \t") + 1);
  return head.size() < kLeastHead ? std::string_view() : head;
}

}  // namespace

std::vector<TextLine> lines_of(TokenSpan prompt, TokenRange range, const TextOf& text_of) {
  std::vector<TextLine> lines;
  TextLine line{range.begin, {}};
  const auto finish = [&](Position next) {
    line.text = std::string(trimmed(line.text));
    if (!line.text.empty()) lines.push_back(std::move(line));
    line = {next, {}};
  };
  for (Position at = range.begin; at < range.end; at = at + 1) {
    std::string_view text = text_of(prompt[at.value()]);
    if (text.empty()) finish(at + 1);
    for (std::size_t end = text.find('\n'); end != std::string_view::npos; end = text.find('\n')) {
      line.text.append(text.substr(0, std::min(end, kLineBytes)));
      text.remove_prefix(end + 1);
      finish(text.empty() ? at + 1 : at);
    }
    if (line.text.size() < kLineBytes) line.text.append(text.substr(0, kLineBytes - line.text.size()));
  }
  finish(range.end);
  return lines;
}

bool tells_state(std::string_view line) {
  if (has_date(line) || is_commit(line)) return true;
  const std::string head = lower_head(line);
  return std::ranges::any_of(kStateHeads, [&](std::string_view state) { return head.starts_with(state); });
}

bool declares_tool(std::string_view line) {
  return std::ranges::any_of(kToolHeads, [&](std::string_view head) { return line.starts_with(head); });
}

bool ends_reminder(std::string_view line) {
  return std::ranges::any_of(kReminderEnds, [&](std::string_view end) { return line.ends_with(end); });
}

LikelyCuts find_likely_cuts(std::span<const TextLine> lines, Position first_answer, const ChangedBefore& changed) {
  LikelyCuts found;
  std::string_view before;
  for (const TextLine& line : lines) {
    const bool is_preamble = line.at < first_answer;
    const bool state = tells_state(line.text) && !tells_state(before);
    const bool task = is_preamble && ends_reminder(before) && !line.text.starts_with('<');
    if ((state || task || changed(line.text, before)) && found.lines.size() < kMostLikelyLines) {
      found.lines.push_back(line.at);
    } else if (is_preamble && declares_tool(line.text)) {
      found.tools.push_back(line.at);
    }
    before = line.text;
  }
  return found;
}

// ---- lines that changed ----

ChangedLines::Client& ChangedLines::use(std::uint64_t id) {
  if (const auto found = known_.find(id); found != known_.end()) {
    order_.splice(order_.begin(), order_, found->second);
    return order_.front();
  }
  if (order_.size() >= std::max<std::size_t>(clients_, 1)) {
    known_.erase(order_.back().id);
    order_.pop_back();
  }
  order_.push_front({id, {}});
  known_[id] = order_.begin();
  return order_.front();
}

void ChangedLines::learn(std::uint64_t client, std::string_view shared, std::string_view before) {
  std::string_view head = stable_head(shared, /*is_whole=*/false);
  const bool next_line = head.empty();
  if (next_line) head = stable_head(before, /*is_whole=*/true);
  if (head.empty()) return;
  Heads& heads = use(client).heads;
  Head learnt{std::string(head), next_line};
  std::erase(heads, learnt);
  heads.push_front(std::move(learnt));
  if (heads.size() > heads_) heads.pop_back();
}

bool ChangedLines::holds(std::uint64_t client, std::string_view line, std::string_view before) {
  const auto known = known_.find(client);
  if (known == known_.end()) return false;
  Heads& heads = known->second->heads;
  const auto found = std::ranges::find_if(
      heads, [&](const Head& head) { return (head.next_line ? before : line).starts_with(head.text); });
  if (found == heads.end()) return false;
  heads.splice(heads.begin(), heads, found);
  return true;
}

std::size_t ChangedLines::heads(std::uint64_t client) const {
  const auto known = known_.find(client);
  return known == known_.end() ? 0 : known->second->heads.size();
}

}  // namespace kvkeep::policy
