#include "top/frame.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "text/terminal.h"
#include "top/pen.h"

namespace kvkeep::top {

double seconds_to_next_look(double interval_s, std::size_t refusals) {
  constexpr double kLongestS = 60;
  constexpr std::size_t kMostDoublings = 10;
  const double pause_s = std::ldexp(interval_s, static_cast<int>(std::min(refusals, kMostDoublings)));
  return std::max(interval_s, std::min(pause_s, kLongestS));
}

namespace {

// Three digits.
std::string three_digits(double value) {
  return value >= 99.95 ? fmt::format("{:.0f}", value) : fmt::format("{:.3g}", value);
}

Line head(const View& view, const Look& look, std::size_t columns) {
  const std::string state = look.refused            ? "wrong key"
                            : !look.trouble.empty() ? "no connection"
                            : look.paused           ? "paused"
                                                    : "live";
  Pen pen(columns);
  pen.put("kvkeep top", Style::kStrong);
  const std::size_t kept = state.size() + 1;
  const std::size_t room = columns > kept + 10 ? columns - kept - 10 : 1;
  std::string facts = text::cut_to_columns(text::printable("  " + view.model, kMostText), room);
  // A name may be cut, the others are there as a whole or not at all.
  for (const std::string& fact :
       {view.memory_class, view.uptime_s ? "up " + duration(*view.uptime_s) : std::string()}) {
    const std::string more = facts + "  " + text::printable(fact, kMostText);
    if (!fact.empty() && text::columns_of(more) <= room) facts = more;
  }
  pen.put(facts, Style::kSoft).leave(state.size());
  return pen.put(state, look.trouble.empty() ? Style::kStrong : Style::kFault).take();
}

void add_totals(std::vector<Line>& lines, const View& view, std::size_t columns) {
  std::vector<std::vector<Span>> pieces;
  pieces.push_back({{"reused "},
                    {percent(view.totals.cached(), view.totals.sum()), Style::kStrong},
                    {fmt::format(" of {}", compact(view.totals.sum())), Style::kSoft}});
  if (view.saved_s) {
    pieces.push_back({{"saved "}, {duration(*view.saved_s), Style::kStrong}});
    if (view.saved_ever_s && *view.saved_ever_s > *view.saved_s) {
      pieces.back().push_back({fmt::format(" ({} ever)", duration(*view.saved_ever_s)), Style::kSoft});
    }
  }
  pieces.push_back({{"prefilled "}, {compact(view.totals.prefilled), Style::kStrong}});
  if (view.again_tokens > 0) {
    pieces.back().push_back({fmt::format(", {} again", compact(view.again_tokens)), Style::kSoft});
  }
  add_pieces(lines, pieces, columns);
}

Style style_of_tier(std::string_view name) {
  if (name == "memory") return Style::kMemory;
  if (name == "ram") return Style::kRam;
  if (name == "disk") return Style::kDisk;
  return name == "shared" ? Style::kShared : Style::kPlain;
}

// A tier's used share in its own style.
Tokens used_of(const Tier& tier) {
  Tokens used;
  std::uint64_t& part = tier.name == "memory" ? used.memory
                        : tier.name == "ram"  ? used.ram
                        : tier.name == "disk" ? used.disk
                                              : used.shared;
  part = tier.used;
  return used;
}

Line tier_line(const Tier& tier, std::size_t columns) {
  constexpr std::size_t kFigures = 24;
  Pen pen(columns);
  pen.cell(tier.name, 7, style_of_tier(tier.name));
  const std::size_t wide = columns > 8 + kFigures ? std::min<std::size_t>(columns - 8 - kFigures, 50) : 4;
  pen.put("[").add(bar(used_of(tier), tier.budget.value_or(std::max<std::uint64_t>(tier.used, 1)), wide)).put("] ");
  const bool counts_tokens = tier.name == "memory";
  const auto size = [&](std::uint64_t count) { return counts_tokens ? compact(count) : bytes(count); };
  pen.put(size(tier.used), Style::kStrong);
  if (tier.budget) pen.put(" of " + size(*tier.budget) + (counts_tokens ? " tokens" : ""), Style::kSoft);
  if (!tier.budget && tier.name == "shared") pen.put(" published", Style::kSoft);
  return pen.take();
}

// Returns true if it waits for something that may take long; prefills take turns all the time.
bool waits_long(const RequestView& request) { return !request.waits_for.empty() && request.waits_for != "turn"; }

std::string progress_of(const RequestView& request) {
  if (waits_long(request)) return fmt::format("for {}", request.waits_for);
  if (request.reply_tokens == 0)
    return fmt::format("{} of {}", compact(request.tokens.sum()), compact(request.prompt_tokens));
  std::string text = fmt::format("{} written", text::grouped(request.reply_tokens));
  if (request.tokens_per_s) text += fmt::format(", {:.1f}/s", *request.tokens_per_s);
  return text;
}

constexpr std::size_t kNumberColumns = 5;
constexpr std::size_t kStageColumns = 6;

// The cause stands with the figures, for which the column has no room.
std::string stage_of(const RequestView& request) {
  if (waits_long(request) || request.state == "waiting") return "waits";
  if (request.state == "loading") return "loads";
  return request.reply_tokens > 0 ? "writes" : "reads";
}

Line running_line(const RequestView& request, std::size_t columns) {
  Pen pen(columns);
  const std::string stage = stage_of(request);
  pen.right(fmt::format("#{}", request.number), kNumberColumns, Style::kSoft).cell(stage, kStageColumns, Style::kSoft);
  const std::size_t others = kNumberColumns + kStageColumns + 3 + kFigureColumns;
  pen.add(bar(request.tokens, request.prompt_tokens, bar_columns(columns, others))).put(" ");
  return pen.put(progress_of(request)).take();
}

// The parts that stand above the list.
std::vector<Line> upper_lines(const View& view, const Look& look, Size size) {
  std::vector<Line> lines = {head(view, look, size.columns)};
  add_wrapped(lines, look.trouble, Style::kFault, size.columns);
  // As a whole: the remedy stands at the end.
  for (const std::string& problem : view.problems) add_wrapped(lines, problem, Style::kFault, size.columns);
  add_totals(lines, view, size.columns);
  for (const Tier& tier : view.tiers) lines.push_back(tier_line(tier, size.columns));
  lines.push_back(title(fmt::format("Running {}, waiting {}", view.running.size(), view.waiting), size.columns));
  // Half of the rows at most, so that the list has room, too.
  const std::size_t most = std::max<std::size_t>(size.rows / 4, 1);
  for (std::size_t i = 0; i < std::min(view.running.size(), most); ++i) {
    lines.push_back(running_line(view.running[i], size.columns));
  }
  if (view.running.size() > most) {
    lines.push_back(
        Pen(size.columns).put(fmt::format("  and {} more", view.running.size() - most), Style::kSoft).take());
  }
  return lines;
}

// A list's key and name; the one that is shown stands out. A number before a name would read as a count.
void add_choice_of_lists(std::vector<Line>& lines, const Look& look, std::size_t columns) {
  std::vector<std::vector<Span>> pieces;
  for (const List list : kLists) {
    const bool is_shown = list == look.list;
    pieces.push_back({{is_shown ? "[" : " "},
                      {fmt::format("{}:", 1 + static_cast<int>(list)), Style::kStrong},
                      {std::string(name_of(list)), is_shown ? Style::kStrong : Style::kSoft},
                      {is_shown ? "]" : ""}});
  }
  add_pieces(lines, pieces, columns);
}

std::vector<Line> lower_lines(const View& view, const Look& look, Size size) {
  std::vector<Line> lines;
  if (look.explains && look.chosen < entries_of(view, look.list)) lines = details(view, look, size.columns);
  add_choice_of_lists(lines, look, size.columns);
  const auto key = [](const char* name, const char* does) {
    return std::vector<Span>{{name, Style::kStrong}, {does, Style::kSoft}};
  };
  const std::vector<Span> parts = {{"█", Style::kMemory},    {" memory ", Style::kSoft},  {"▓", Style::kRam},
                                   {" RAM ", Style::kSoft},  {"▒", Style::kDisk},         {" disk ", Style::kSoft},
                                   {"░", Style::kPrefilled}, {" prefilled", Style::kSoft}};
  add_pieces(lines, {key("q", " quits"), key("↑↓", " choose"), key("Enter", " explains"), key("p", " pauses"), parts},
             size.columns);
  return lines;
}

}  // namespace

std::size_t Line::columns() const {
  return std::accumulate(spans.begin(), spans.end(), std::size_t{0},
                         [](std::size_t sum, const Span& span) { return sum + text::columns_of(span.text); });
}

std::size_t listed(const View& view, const Look& look, Size size) {
  const std::size_t others = upper_lines(view, look, size).size() + 1 + lower_lines(view, look, size).size();
  return std::min(entries_of(view, look.list), size.rows > others ? size.rows - others : 0);
}

std::vector<Line> frame(const View& view, const Look& look, Size size) {
  if (size.columns == 0) return {};
  std::vector<Line> lines = upper_lines(view, look, size);
  const std::vector<Line> lower = lower_lines(view, look, size);
  const std::size_t all = entries_of(view, look.list);
  const std::size_t shown = listed(view, look, size);
  if (lines.size() + 1 + lower.size() <= size.rows)
    lines.push_back(title(heading_of(view, look.list, size.columns), size.columns));
  // The chosen one is always in view.
  const std::size_t first =
      look.chosen < shown ? 0 : std::min(look.chosen, all - 1) + 1 - std::max<std::size_t>(shown, 1);
  for (std::size_t i = first; i < std::min(first + shown, all); ++i) {
    Line line = entry_line(view, look, i, size.columns);
    line.chosen = i == look.chosen;
    lines.push_back(std::move(line));
  }
  // The keys stand in the last rows.
  while (lines.size() + lower.size() < size.rows) lines.push_back({});
  std::ranges::copy(lower, std::back_inserter(lines));
  if (lines.size() > size.rows) lines.resize(size.rows);
  return lines;
}

std::string plain_text(const std::vector<Line>& lines) {
  std::string text;
  bool was_empty = false;
  for (const Line& line : lines) {
    std::string row;
    for (const Span& span : line.spans) row += span.text;
    row.erase(row.find_last_not_of(' ') + 1);
    // Nothing needs to stand at a screen's end.
    if (const bool again = std::exchange(was_empty, row.empty()); again && was_empty) continue;
    text += row + "\n";
  }
  return text;
}

std::string compact(std::uint64_t count) {
  const auto value = static_cast<double>(count);
  for (const auto& [unit, letter] : {std::pair(1e12, 'T'), {1e9, 'G'}, {1e6, 'M'}, {1e3, 'k'}}) {
    if (value >= unit * 0.9995) return three_digits(value / unit) + letter;
  }
  return std::to_string(count);
}

std::string bytes(std::uint64_t count) {
  const auto value = static_cast<double>(count);
  int power = 40;
  for (const char* unit : {"TiB", "GiB", "MiB", "KiB"}) {
    if (value >= std::ldexp(0.9995, power)) return three_digits(std::ldexp(value, -power)) + " " + unit;
    power -= 10;
  }
  return fmt::format("{} B", count);
}

std::string duration(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "–";
  if (seconds < 0.9995) return fmt::format("{:.0f} ms", seconds * 1e3);
  if (seconds < 99.95) return three_digits(seconds) + " s";
  if (seconds < 3'599.5)
    return fmt::format("{:.0f} min {:.0f} s", std::floor(std::round(seconds) / 60), std::fmod(std::round(seconds), 60));
  const double minutes = std::round(seconds / 60);
  if (minutes < 24 * 60) return fmt::format("{:.0f} h {:.0f} min", std::floor(minutes / 60), std::fmod(minutes, 60));
  const double hours = std::round(seconds / 3600);
  return fmt::format("{:.0f} d {:.0f} h", std::floor(hours / 24), std::fmod(hours, 24));
}

}  // namespace kvkeep::top
