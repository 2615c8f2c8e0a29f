#include "text/text_table.h"

#include <algorithm>
#include <numeric>

#include "base/assert.h"
#include "text/printable.h"

namespace kvkeep::text {
namespace {

constexpr std::size_t kGapColumns = 2;
constexpr std::size_t kLeastTextColumns = 12;

std::string padded(const std::string& cell, std::size_t width, TextTable::Align align) {
  std::string text = cut_to_columns(cell, width);
  const std::string space(width - columns_of(text), ' ');
  return align == TextTable::Align::kLeft ? text + space : space + text;
}

void trim_end(std::string& line) { line.erase(line.find_last_not_of(' ') + 1); }

}  // namespace

TextTable::TextTable(std::vector<Column> columns) : columns_(std::move(columns)) {}

void TextTable::add_row(std::vector<std::string> cells) {
  KVKEEP_ASSERT(cells.size() == columns_.size(), "one cell per column");
  rows_.push_back(std::move(cells));
}

std::vector<std::size_t> TextTable::widths_within(std::size_t most_columns) const {
  std::vector<std::size_t> widths;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    std::size_t width = columns_of(columns_[i].title);
    for (const auto& row : rows_) width = std::max(width, columns_of(row[i]));
    widths.push_back(std::max<std::size_t>(width, 1));
  }
  const auto total = [&] { return std::accumulate(widths.begin(), widths.end(), kGapColumns * (widths.size() - 1)); };
  while (total() > most_columns) {
    std::size_t* widest_text = nullptr;
    for (std::size_t i = 0; i < widths.size(); ++i) {
      const bool shrinks = columns_[i].align == Align::kLeft && widths[i] > kLeastTextColumns;
      if (shrinks && (widest_text == nullptr || widths[i] > *widest_text)) widest_text = &widths[i];
    }
    --*(widest_text != nullptr ? widest_text : &*std::max_element(widths.begin(), widths.end()));
  }
  return widths;
}

std::string TextTable::text(std::size_t most_columns) const {
  const std::vector<std::size_t> widths = widths_within(most_columns);
  std::string out;
  const auto add_line = [&](const auto& cell_of) {
    std::string line;
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      if (i != 0) line.append(kGapColumns, ' ');
      line += padded(cell_of(i), widths[i], columns_[i].align);
    }
    trim_end(line);
    out += line + "\n";
  };
  add_line([&](std::size_t i) { return columns_[i].title; });
  for (const auto& row : rows_) add_line([&](std::size_t i) { return row[i]; });
  return out;
}

std::string wrapped(std::string_view printable_text, std::size_t most_columns, std::size_t indent) {
  std::string out;
  std::string line;
  while (!printable_text.empty()) {
    const std::size_t end = std::min(printable_text.find(' '), printable_text.size());
    const std::string word = cut_to_columns(printable_text.substr(0, end), most_columns - indent);
    printable_text.remove_prefix(std::min(end + 1, printable_text.size()));
    if (!line.empty() && columns_of(line) + 1 + columns_of(word) > most_columns) {
      out += line + "\n";
      line.assign(indent, ' ');
      line += word;
    } else {
      if (!line.empty()) line += ' ';
      line += word;
    }
  }
  trim_end(line);
  return out + line + "\n";
}

}  // namespace kvkeep::text
