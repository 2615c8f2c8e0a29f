#include "top/frame.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>

#include "text/terminal.h"

namespace kvkeep::top {
namespace {

constexpr std::size_t kMostClient = 14;
constexpr std::size_t kMostText = 400;
constexpr std::size_t kLeastColumns = 20;  // of a paragraph

// Three digits.
std::string three_digits(double value) {
  return value >= 99.95 ? fmt::format("{:.0f}", value) : fmt::format("{:.3g}", value);
}

// Makes a line from the left to the right, within its columns.
class Pen {
 public:
  explicit Pen(std::size_t columns) : left_(columns) {}

  Pen& put(std::string_view text, Style style = Style::kPlain) {
    if (left_ == 0 || text.empty()) return *this;
    std::string shown = text::cut_to_columns(text::printable(text, kMostText), left_);
    left_ -= std::min(left_, text::columns_of(shown));
    line_.spans.push_back({std::move(shown), style});
    return *this;
  }
  // In a column of its own, filled up with blanks, and a blank after it.
  Pen& cell(std::string_view text, std::size_t columns, Style style = Style::kPlain) {
    const std::string shown = text::cut_to_columns(text::printable(text, kMostText), columns);
    return put(shown, style).put(std::string(columns - text::columns_of(shown) + 1, ' '));
  }
  Pen& right(std::string_view text, std::size_t columns, Style style = Style::kPlain) {
    const std::size_t wide = text::columns_of(text);
    if (wide < columns) put(std::string(columns - wide, ' '));
    return put(text, style).put(" ");
  }
  Pen& add(std::vector<Span> spans) {
    for (Span& span : spans) put(span.text, span.style);
    return *this;
  }
  // Blanks up to where `columns` are left.
  Pen& leave(std::size_t columns) {
    if (left_ > columns) put(std::string(left_ - columns, ' '));
    return *this;
  }
  Line take() { return std::move(line_); }

 private:
  std::size_t left_;
  Line line_;
};

struct BarPart {
  std::uint64_t tokens;
  Style style;
  const char* glyph;  // differs also without colours
};

// `columns` characters; `whole` fills them. A part that is there has at least one, as far as there is room.
std::vector<Span> bar(const Tokens& tokens, std::uint64_t whole, std::size_t columns) {
  const std::array<BarPart, 5> parts = {{{tokens.memory, Style::kMemory, "█"},
                                         {tokens.ram, Style::kRam, "▓"},
                                         {tokens.disk, Style::kDisk, "▒"},
                                         {tokens.shared, Style::kShared, "▚"},
                                         {tokens.prefilled, Style::kPrefilled, "░"}}};
  std::vector<Span> spans;
  std::size_t used = 0;
  std::uint64_t sum = 0;
  for (const BarPart& part : parts) {
    if (part.tokens == 0) continue;
    sum += part.tokens;
    const double share = static_cast<double>(sum) / static_cast<double>(std::max<std::uint64_t>(whole, 1));
    const auto end = std::clamp(static_cast<std::size_t>(std::lround(share * static_cast<double>(columns))),
                                std::min(used + 1, columns), columns);
    std::string text;
    for (; used < end; ++used) text += part.glyph;
    if (!text.empty()) spans.push_back({std::move(text), part.style});
  }
  if (used < columns) spans.push_back({std::string(columns - used, ' '), Style::kPlain});
  return spans;
}

std::string percent(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? "–" : fmt::format("{:.1f} %", 100 * static_cast<double>(part) / static_cast<double>(whole));
}

std::string ago(double seconds) {
  if (seconds < 5) return "now";
  if (seconds < 60) return fmt::format("{:.0f} s", seconds);
  if (seconds < 3600) return fmt::format("{:.0f} min", std::floor(seconds / 60));
  if (seconds < 86'400) return fmt::format("{:.0f} h", std::floor(seconds / 3600));
  return fmt::format("{:.0f} d", std::floor(seconds / 86'400));
}

Line head(const View& view, const Look& look, std::size_t columns) {
  const std::string state = !look.trouble.empty() ? "no connection" : look.paused ? "paused" : "live";
  Pen pen(columns);
  pen.put("kvkeep top", Style::kStrong);
  const std::size_t kept = state.size() + 1;
  std::string facts;
  for (const std::string& fact : {view.model, view.memory_class}) {
    if (!fact.empty()) facts += "  " + fact;
  }
  if (view.uptime_s) facts += "  up " + duration(*view.uptime_s);
  const std::size_t room = columns > kept + 10 ? columns - kept - 10 : 1;
  pen.put(text::cut_to_columns(text::printable(facts + " ", kMostText), room), Style::kSoft).leave(state.size());
  return pen.put(state, look.trouble.empty() ? Style::kStrong : Style::kFault).take();
}

Line totals(const View& view, std::size_t columns) {
  Pen pen(columns);
  pen.put("reused ").put(percent(view.totals.cached(), view.totals.sum()), Style::kStrong);
  pen.put(fmt::format(" of {}", compact(view.totals.sum())), Style::kSoft);
  if (view.saved_s) {
    pen.put("  saved ").put(duration(*view.saved_s), Style::kStrong);
    if (view.saved_ever_s && *view.saved_ever_s > *view.saved_s) {
      pen.put(fmt::format(" ({} ever)", duration(*view.saved_ever_s)), Style::kSoft);
    }
  }
  pen.put("  prefilled ").put(compact(view.totals.prefilled), Style::kStrong);
  if (view.ratio) pen.put(fmt::format(" ({:.2f}x)", *view.ratio), Style::kSoft);
  return pen.take();
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

Line title(std::string text, std::size_t columns) { return Pen(columns).put(std::move(text), Style::kStrong).take(); }

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
constexpr std::size_t kFigureColumns = 22;

std::size_t bar_columns(std::size_t columns, std::size_t others) { return columns > others + 8 ? columns - others : 8; }

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

// "volatile-text" as words.
std::string spoken(std::string kind) {
  std::ranges::replace(kind, '-', ' ');
  return kind;
}

std::string figures_of(const RequestView& request) {
  std::string text = fmt::format("{:>6} {:>6}", compact(request.tokens.cached()), compact(request.tokens.prefilled));
  if (request.ttft_ms) text += fmt::format(" {:>7}", duration(*request.ttft_ms / 1e3));
  return text;
}

Line past_line(const RequestView& request, std::uint64_t longest, const Look& look, bool chosen, std::size_t columns) {
  constexpr std::size_t kAgo = 6;
  constexpr std::size_t kKind = 16;
  const bool has_kind = columns >= 72;
  Pen pen(columns);
  pen.right(ago(look.now_s - request.ended_s), kAgo, Style::kSoft).cell(request.client, kMostClient);
  const std::size_t others = kAgo + kMostClient + 3 + kFigureColumns + (has_kind ? kKind + 1 : 0);
  pen.add(bar(request.tokens, longest, bar_columns(columns, others)))
      .put(" ")
      .cell(figures_of(request), kFigureColumns - 1);
  const bool failed = request.end == "error";
  if (has_kind)
    pen.put(failed          ? "failed"
            : request.cause ? spoken(request.cause->kind)
                            : "",
            failed ? Style::kFault : Style::kSoft);
  Line line = pen.take();
  line.chosen = chosen;
  return line;
}

void add_wrapped(std::vector<Line>& lines, const std::string& text, Style style, std::size_t columns) {
  if (text.empty() || columns < kLeastColumns) return;
  const std::string wrapped = text::wrapped(text::printable(text, kMostText), columns, 2);
  for (std::size_t begin = 0; begin < wrapped.size();) {
    const std::size_t end = std::min(wrapped.find('\n', begin), wrapped.size());
    lines.push_back(Pen(columns).put(wrapped.substr(begin, end - begin), style).take());
    begin = end + 1;
  }
}

std::vector<Line> explanation(const RequestView& request, std::size_t columns) {
  std::vector<Line> lines = {title("Why " + request.id + " reused no more", columns)};
  if (!request.cause) {
    add_wrapped(lines, "The server keeps no explanation of this request.", Style::kSoft, columns);
    return lines;
  }
  const Cause& cause = *request.cause;
  std::string text = cause.kind == "none" ? "all of it was known" : spoken(cause.kind);
  if (!cause.place.empty()) text += fmt::format(", in {}", cause.place);
  if (cause.at_token) text += fmt::format(", from token {} on", text::grouped(*cause.at_token));
  add_wrapped(lines, text, Style::kPlain, columns);
  if (cause.lost_tokens > 0) {
    add_wrapped(lines,
                fmt::format("It cost {} tokens{}.", text::grouped(cause.lost_tokens),
                            cause.lost_s > 0 ? ", " + duration(cause.lost_s) : ""),
                Style::kPlain, columns);
  }
  add_wrapped(lines, cause.advice, Style::kStrong, columns);
  return lines;
}

// The parts that stand above the list of past requests.
std::vector<Line> upper_lines(const View& view, const Look& look, Size size) {
  std::vector<Line> lines = {head(view, look, size.columns)};
  if (!look.trouble.empty()) lines.push_back(Pen(size.columns).put(look.trouble, Style::kFault).take());
  for (const std::string& problem : view.problems)
    lines.push_back(Pen(size.columns).put(problem, Style::kFault).take());
  lines.push_back(totals(view, size.columns));
  for (const Tier& tier : view.tiers) lines.push_back(tier_line(tier, size.columns));
  lines.push_back(title(fmt::format("Running {}, waiting {}", view.running.size(), view.waiting), size.columns));
  // Half of the rows at most, so that past requests have room, too.
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

std::vector<Line> lower_lines(const View& view, const Look& look, Size size) {
  std::vector<Line> lines;
  if (look.explains && look.chosen < view.past.size()) lines = explanation(view.past[look.chosen], size.columns);
  lines.push_back(Pen(size.columns)
                      .put("q", Style::kStrong)
                      .put(" quits  ", Style::kSoft)
                      .put("↑↓", Style::kStrong)
                      .put(" choose  ", Style::kSoft)
                      .put("Enter", Style::kStrong)
                      .put(" explains  ", Style::kSoft)
                      .put("p", Style::kStrong)
                      .put(" pauses  ", Style::kSoft)
                      .add({{"█", Style::kMemory},
                            {" memory ", Style::kSoft},
                            {"▓", Style::kRam},
                            {" RAM ", Style::kSoft},
                            {"▒", Style::kDisk},
                            {" disk ", Style::kSoft},
                            {"░", Style::kPrefilled},
                            {" prefilled", Style::kSoft}})
                      .take());
  return lines;
}

}  // namespace

std::size_t Line::columns() const {
  return std::accumulate(spans.begin(), spans.end(), std::size_t{0},
                         [](std::size_t sum, const Span& span) { return sum + text::columns_of(span.text); });
}

std::size_t listed_past(const View& view, const Look& look, Size size) {
  const std::size_t others = upper_lines(view, look, size).size() + 1 + lower_lines(view, look, size).size();
  return std::min(view.past.size(), size.rows > others ? size.rows - others : 0);
}

std::vector<Line> frame(const View& view, const Look& look, Size size) {
  if (size.columns == 0) return {};
  std::vector<Line> lines = upper_lines(view, look, size);
  const std::vector<Line> lower = lower_lines(view, look, size);
  const std::size_t listed = listed_past(view, look, size);
  if (lines.size() + 1 + lower.size() <= size.rows) {
    lines.push_back(title("Last requests: tokens cached and prefilled, time to the first token", size.columns));
  }
  std::uint64_t longest = 1;
  for (const RequestView& request : view.past) longest = std::max(longest, request.tokens.sum());
  // The chosen one is always in view.
  const std::size_t first =
      look.chosen < listed ? 0 : std::min(look.chosen, view.past.size() - 1) + 1 - std::max<std::size_t>(listed, 1);
  for (std::size_t i = first; i < std::min(first + listed, view.past.size()); ++i) {
    lines.push_back(past_line(view.past[i], longest, look, i == look.chosen, size.columns));
  }
  // The keys stand in the last row.
  while (lines.size() + lower.size() < size.rows) lines.push_back({});
  std::ranges::copy(lower, std::back_inserter(lines));
  if (lines.size() > size.rows) lines.resize(size.rows);
  return lines;
}

std::string plain_text(const std::vector<Line>& lines) {
  std::string text;
  for (const Line& line : lines) {
    std::string row;
    for (const Span& span : line.spans) row += span.text;
    row.erase(row.find_last_not_of(' ') + 1);
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
