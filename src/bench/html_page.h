#pragma once

// Pieces of the HTML form of a report: each function appends one section. Elements are closed where HTML says they must
// be.

#include <string>
#include <vector>

#include "bench/figures.h"

namespace kvkeep::bench {

// How much a page shows; to_html() goes to the next coarser one until the page is short enough.
struct Detail {
  std::size_t points = 400;      // of a plot
  std::size_t rows = 200;        // of a table or list
  std::size_t runs = 60;         // with plots and a table of their own
  std::size_t characters = 240;  // of an error or a line of flags; names have at most half of it

  Detail coarser() const;
  bool operator==(const Detail&) const = default;
};

// Printable, shortened to that many characters, and escaped.
std::string html_text(const std::string& text, std::size_t most);

void add_html_summary(std::string& page, const Report& report, const Detail& detail);
void add_html_parts(std::string& page, const Report& report, const Detail& detail);
void add_html_runs(std::string& page, const Report& report, const Detail& detail);

// "and 12 more, left out of this page" as an element of its own; nothing if all are shown.
std::string html_left_out(std::size_t count, std::size_t shown, const std::string& what);

}  // namespace kvkeep::bench
