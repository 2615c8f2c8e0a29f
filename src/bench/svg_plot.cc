#include "bench/svg_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "bench/report_text.h"

namespace kvkeep::bench {
namespace {

// The drawing's own units; the page scales it.
constexpr double kWidth = 560;
constexpr double kHeight = 180;
constexpr double kLeft = 58;
constexpr double kRight = 552;
constexpr double kTop = 10;
constexpr double kBottom = 154;
constexpr double kLargestDrawn = 1e15;

double drawable(double value) { return std::isfinite(value) ? std::clamp(value, 0.0, kLargestDrawn) : 0; }

std::string axis_label(double value) {
  if (value >= 1e6) return fmt::format("{:g}M", value / 1e6);
  return value >= 1e4 ? fmt::format("{:g}k", value / 1e3) : fmt::format("{:g}", value);
}

// Where values and positions lie in the drawing.
class Axes {
 public:
  Axes(double largest, std::size_t positions) : positions_(std::max<std::size_t>(positions, 1)) {
    step_ = tick_step(largest, 4);
    top_ = std::max(step_, std::ceil(largest / step_) * step_);
  }

  double x(std::size_t position) const { return kLeft + (static_cast<double>(position) + 0.5) * slot(); }
  double y(double value) const { return kBottom - drawable(value) / top_ * (kBottom - kTop); }
  double slot() const { return (kRight - kLeft) / static_cast<double>(positions_); }

  std::string grid() const {
    std::string lines;
    std::string labels;
    for (int i = 0; i * step_ <= top_ * (1 + 1e-9); ++i) {
      lines += fmt::format("M{} {:.1f}H{}", kLeft, y(i * step_), kRight);
      labels += fmt::format("<text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>", kLeft - 6, y(i * step_) + 4,
                            axis_label(i * step_));
    }
    return fmt::format("<path class=\"grid\" d=\"{}\"/>{}{}", lines, labels, position_labels());
  }

 private:
  // 1, and then every so many.
  std::string position_labels() const {
    const auto step = static_cast<std::size_t>(std::max(1.0, tick_step(static_cast<double>(positions_), 8)));
    std::string labels;
    const auto add = [&](std::size_t number) {
      labels += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{}</text>", x(number - 1), kBottom + 17,
                            number);
    };
    if (step != 1) add(1);
    for (std::size_t number = step; number <= positions_; number += step) add(number);
    return labels;
  }

  std::size_t positions_;
  double step_ = 1;
  double top_ = 1;
};

std::string drawing(const std::string& label, const std::string& contents) {
  return fmt::format("<svg class=\"plot\" viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">{}</svg>\n", kWidth,
                     kHeight, escape_markup(label), contents);
}

std::string path(const char* style, const std::string& steps) {
  return steps.empty() ? "" : fmt::format("<path class=\"{}\" d=\"{}\"/>", style, steps);
}

// From one value up to another, as a closed shape; nothing if it has no height.
std::string upright(const Axes& axes, double centre, double width, double from, double to) {
  if (!(drawable(to) > drawable(from))) return {};
  return fmt::format("M{:.1f} {:.1f}V{:.1f}h{:.1f}V{:.1f}z", centre - width / 2, axes.y(from), axes.y(to), width,
                     axes.y(from));
}

}  // namespace

double tick_step(double largest, int most_ticks) {
  const double least = drawable(largest) / most_ticks;
  if (least <= 0) return 1;
  const double power = std::pow(10, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= least * (1 - 1e-9)) return factor * power;
  }
  return 10 * power;
}

std::string bar_plot(const std::vector<Bar>& bars, std::size_t positions, const std::string& label) {
  double largest = 1;  // tokens: an axis of nothing still has ticks
  for (const Bar& bar : bars) largest = std::max({largest, drawable(bar.front), drawable(bar.behind)});
  const Axes axes(largest, positions);
  const double slots = static_cast<double>(std::max<std::size_t>(bars.size(), 1));
  const double room = std::min((kRight - kLeft) / slots, std::max(axes.slot(), 1.0));
  const double wide = std::clamp(room * 0.8, 0.8, 22.0);
  const double narrow = std::max(wide * 0.5, 0.6);
  std::string behind;
  std::string front;
  std::string excess;
  for (const Bar& bar : bars) {
    const double centre = axes.x(bar.position);
    behind += upright(axes, centre, wide, 0, bar.behind);
    front += upright(axes, centre, narrow, 0, std::min(bar.front, bar.behind));
    excess += upright(axes, centre, narrow, bar.behind, bar.front);
  }
  return drawing(label, axes.grid() + path("behind", behind) + path("front", front) + path("excess", excess));
}

std::string dot_plot(const std::vector<Dot>& dots, std::size_t positions, const std::string& label) {
  double largest = 0;
  for (const Dot& dot : dots) largest = std::max(largest, dot.fault ? 0 : drawable(dot.value));
  const Axes axes(largest, positions);
  std::string points;
  std::string faults;
  for (const Dot& dot : dots) {
    const double x = axes.x(dot.position);
    if (dot.fault) {
      faults += fmt::format("M{:.1f} {}l8 8m-8 0l8-8", x - 4, kBottom - 4);
    } else if (std::isfinite(dot.value)) {
      points += fmt::format("M{:.1f} {:.1f}h0", x, axes.y(dot.value));  // round line ends make it a dot
    }
  }
  return drawing(label, axes.grid() + path("dot", points) + path("fault", faults));
}

std::string ratio_bar(double ratio, std::optional<double> bound, bool above_bound, double longest) {
  constexpr double kBarWidth = 130;
  const double scale = kBarWidth / std::max(drawable(longest), 1.0);
  const auto mark = [&](double at) {
    return fmt::format("M{:.1f} 0V14", std::min(drawable(at) * scale, kBarWidth - 0.5));
  };
  std::string out = fmt::format("<svg class=\"bar\" viewBox=\"0 0 {} 14\" aria-hidden=\"true\">", kBarWidth);
  out += fmt::format("<rect class=\"{}\" y=\"2\" width=\"{:.1f}\" height=\"10\"/>", above_bound ? "excess" : "front",
                     std::min(drawable(ratio) * scale, kBarWidth));
  out += path("grid", mark(1));
  if (bound) out += path("bound", mark(*bound));
  return out + "</svg>";
}

std::string escape_markup(const std::string& text) {
  std::string out;
  for (const char byte : text) {
    switch (byte) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      default: out += byte;
    }
  }
  return out;
}

}  // namespace kvkeep::bench
