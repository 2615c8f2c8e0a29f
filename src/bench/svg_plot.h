#pragma once

// Plots as inline SVG, without a script or a resource. Colours come from the page's style sheet by class: `behind`,
// `front`, `excess` (bars), `dot`, `fault` (crosses), `grid`, `bound`. Numbers that are not finite are left out, larger
// ones than 1e15 are drawn there.

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace kvkeep::bench {

// Two bars on one spot: a narrow one before a wide one. What sticks out of the front above the back is the excess.
struct Bar {
  std::size_t position = 0;  // from 0
  double front = 0;
  double behind = 0;
};

struct Dot {
  std::size_t position = 0;
  double value = 0;
  bool fault = false;  // a cross on the axis, whatever the value
};

// `positions` is the length of the x axis, whose labels count from 1. `label` is what screen readers say; it is
// escaped.
std::string bar_plot(const std::vector<Bar>& bars, std::size_t positions, const std::string& label);
std::string dot_plot(const std::vector<Dot>& dots, std::size_t positions, const std::string& label);

// A horizontal bar for a table cell, with marks at 1 and at the bound; `longest` fills the width.
std::string ratio_bar(double ratio, std::optional<double> bound, bool above_bound, double longest);

// Distance of the ticks of an axis from 0 to `largest`: 1, 2 or 5 times a power of ten, at most `most_ticks` of them.
double tick_step(double largest, int most_ticks);

// For text and attribute values of HTML and SVG.
std::string escape_markup(const std::string& text);

}  // namespace kvkeep::bench
