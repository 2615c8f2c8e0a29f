#pragma once

// How the lines of a frame are made: a pen that stays within its columns, bars, and words for figures. Pure.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "top/frame.h"

namespace kvkeep::top {

inline constexpr std::size_t kMostText = 400;  // bytes of a text of unknown origin that are shown

inline constexpr std::size_t kFigureColumns = 22;  // of a request's figures
// A narrower screen has no room for all columns of a list: some are left out, so that no figure is cut.
inline constexpr std::size_t kWideColumns = 64;

// Makes a line from the left to the right, within its columns.
class Pen {
 public:
  explicit Pen(std::size_t columns) : left_(columns) {}

  Pen& put(std::string_view text, Style style = Style::kPlain);
  // In a column of its own, filled up with blanks, and a blank after it.
  Pen& cell(std::string_view text, std::size_t columns, Style style = Style::kPlain);
  // The same at the right edge of the column.
  Pen& right(std::string_view text, std::size_t columns, Style style = Style::kPlain);
  Pen& add(std::vector<Span> spans);
  // Blanks up to where `columns` are left.
  Pen& leave(std::size_t columns);
  Line take() { return std::move(line_); }

 private:
  std::size_t left_;
  Line line_;
};

Line title(std::string_view text, std::size_t columns);
// Adds the text in as many lines as it takes; nothing if they were too narrow to read.
void add_wrapped(std::vector<Line>& lines, const std::string& text, Style style, std::size_t columns);

// Adds these pieces, two blanks apart, in as many lines as they take: none is cut that fits into a line.
void add_pieces(std::vector<Line>& lines, const std::vector<std::vector<Span>>& pieces, std::size_t columns);

// `columns` characters; `whole` fills them. A part that is there has at least one, as far as there is room.
std::vector<Span> bar(const Tokens& tokens, std::uint64_t whole, std::size_t columns);
// Columns of a bar in a line where other things take so many.
std::size_t bar_columns(std::size_t columns, std::size_t others);

std::string percent(std::uint64_t part, std::uint64_t whole);  // "97.0 %"
std::string ago(double seconds);                               // "now", "3 min"
std::string spoken(std::string kind);                          // "volatile-text" as words

}  // namespace kvkeep::top
