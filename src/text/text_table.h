#pragma once

// Columns of text for a terminal, as wide as their contents, shortened with an ellipsis where the line would get too
// long.

#include <string>
#include <string_view>
#include <vector>

namespace kvkeep::text {

class TextTable {
 public:
  enum class Align { kLeft, kRight };
  struct Column {
    std::string title;
    Align align = Align::kRight;
  };

  explicit TextTable(std::vector<Column> columns);
  // Printable text (printable.h). Precondition: one cell per column.
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
