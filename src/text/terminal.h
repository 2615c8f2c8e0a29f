#pragma once

// Text for a terminal: strings of unknown origin made printable, figures, and tables.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kvkeep::text {

// Printable UTF-8 of one line: bytes that are not UTF-8, control characters and marks that turn the direction of text
// become U+FFFD, tabs and line ends a space. More than `most` characters: cut, the last one kept is an ellipsis.
// Precondition: most >= 1. Costs no more than `most` characters, however long the text is.
std::string printable(std::string_view text, std::size_t most);

// The same without loss, for whole outputs: a character that printable() replaces becomes an escape as JSON has it
// (\u009b), so that JSON stays what it is. Line ends and tabs stay; after a line end come `indent` spaces, so that no
// text begins a line of its own. Bytes that are not UTF-8 become U+FFFD.
std::string escaped(std::string_view text, std::size_t indent = 0);

// Columns that printable text takes on a terminal: two for wide East Asian characters and emoji, none for marks that
// combine.
std::size_t columns_of(std::string_view printable_text);

// Printable text cut to at most that many columns, with an ellipsis. Precondition: columns >= 1.
std::string cut_to_columns(std::string_view printable_text, std::size_t columns);

// "12.346"; "n/a" if it is not finite, with an exponent if it is very large: never longer than 20 characters.
std::string fixed(double value, int digits);

// About four digits, for figures of any size: 0.082, 7.905, 98.35, 1291.
std::string measured(double value);

// 24,860
std::string grouped(std::uint64_t value);

// "24 GiB"
std::string memory_size(std::uint64_t bytes);

// Columns of text for a terminal, as wide as their contents, shortened with an ellipsis where the line would get too
// long.
class TextTable {
 public:
  enum class Align { kLeft, kRight };
  struct Column {
    std::string title;
    Align align = Align::kRight;
  };

  explicit TextTable(std::vector<Column> columns);
  // Printable text. Precondition: one cell per column.
  void add_row(std::vector<std::string> cells);
  bool empty() const { return rows_.empty(); }
  // The titles, then the rows. No line is longer than `most_columns`; text is shortened before figures are.
  std::string text(std::size_t most_columns) const;

 private:
  std::vector<std::size_t> widths_within(std::size_t most_columns) const;

  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

// Words in lines of at most `most_columns`, each ended by a line end, all but the first indented by `indent` spaces.
// A word that is longer than a line is cut. Precondition: indent < most_columns.
std::string wrapped(std::string_view printable_text, std::size_t most_columns, std::size_t indent);

}  // namespace kvkeep::text
