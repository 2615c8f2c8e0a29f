#include "top/pen.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "text/terminal.h"

namespace kvkeep::top {
namespace {

constexpr std::size_t kLeastColumns = 20;  // of a paragraph

struct BarPart {
  std::uint64_t tokens;
  Style style;
  const char* glyph;  // differs also without colours
};

}  // namespace

Pen& Pen::put(std::string_view text, Style style) {
  if (left_ == 0 || text.empty()) return *this;
  std::string shown = text::cut_to_columns(text::printable(text, kMostText), left_);
  left_ -= std::min(left_, text::columns_of(shown));
  line_.spans.push_back({std::move(shown), style});
  return *this;
}

Pen& Pen::cell(std::string_view text, std::size_t columns, Style style) {
  const std::string shown = text::cut_to_columns(text::printable(text, kMostText), columns);
  return put(shown, style).put(std::string(columns - text::columns_of(shown) + 1, ' '));
}

Pen& Pen::right(std::string_view text, std::size_t columns, Style style) {
  const std::size_t wide = text::columns_of(text);
  if (wide < columns) put(std::string(columns - wide, ' '));
  return put(text, style).put(" ");
}

Pen& Pen::add(std::vector<Span> spans) {
  for (Span& span : spans) put(span.text, span.style);
  return *this;
}

Pen& Pen::leave(std::size_t columns) {
  if (left_ > columns) put(std::string(left_ - columns, ' '));
  return *this;
}

Line title(std::string_view text, std::size_t columns) { return Pen(columns).put(text, Style::kStrong).take(); }

void add_wrapped(std::vector<Line>& lines, const std::string& text, Style style, std::size_t columns) {
  if (text.empty() || columns < kLeastColumns) return;
  const std::string wrapped = text::wrapped(text::printable(text, kMostText), columns, 2);
  for (std::size_t begin = 0; begin < wrapped.size();) {
    const std::size_t end = std::min(wrapped.find('\n', begin), wrapped.size());
    lines.push_back(Pen(columns).put(wrapped.substr(begin, end - begin), style).take());
    begin = end + 1;
  }
}

void add_pieces(std::vector<Line>& lines, const std::vector<std::vector<Span>>& pieces, std::size_t columns) {
  Line line;
  for (const std::vector<Span>& piece : pieces) {
    const std::size_t used = line.columns();
    const bool fits = used == 0 || used + 2 + Line{piece}.columns() <= columns;
    if (!fits) lines.push_back(Pen(columns).add(std::exchange(line, {}).spans).take());
    if (!line.spans.empty()) line.spans.push_back({"  "});
    line.spans.insert(line.spans.end(), piece.begin(), piece.end());
  }
  lines.push_back(Pen(columns).add(line.spans).take());
}

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

std::size_t bar_columns(std::size_t columns, std::size_t others) { return columns > others + 4 ? columns - others : 4; }

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

std::string spoken(std::string kind) {
  std::ranges::replace(kind, '-', ' ');
  return kind;
}

}  // namespace kvkeep::top
