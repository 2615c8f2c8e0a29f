#include "bench/html_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "bench/report_summary.h"
#include "bench/report_text.h"
#include "bench/svg_plot.h"

namespace kvkeep::bench {
namespace {

// Bars longer than this are cut: one very bad ratio must not make all others look alike.
constexpr double kLongestRatioDrawn = 4;

std::string ratio_cells(const RunFigures& run, const RunSummary& summary, double longest) {
  const std::string bar = summary.ratio ? ratio_bar(*summary.ratio, run.bound, summary.above_bound, longest) : "";
  const char* style = summary.above_bound ? " class=\"bad\"" : "";
  const std::string ratio = summary.ratio ? fixed(*summary.ratio, 3) : "–";
  return fmt::format("<td{}>{}<td class=\"bars\">{}<td{}>{}{}", style, ratio, bar, style,
                     run.bound ? measured(*run.bound) : "", summary.above_bound ? "<br>exceeded" : "");
}

std::string request_count(const RunFigures& run, const RunSummary& summary) {
  std::string cell = "<td>" + grouped(run.requests.size());
  if (summary.failed != 0) cell += fmt::format("<br><span class=\"bad\">{} failed</span>", grouped(summary.failed));
  return cell;
}

// Time to the first token, and CPU seconds.
std::string time_cells(const RunFigures& run, const RunSummary& summary) {
  const std::string cpu = run.server_cpu_s ? measured(*run.server_cpu_s) : "–";
  if (!summary.ttft_ms) return "–<td>" + cpu;
  const Quartiles& ttft_ms = *summary.ttft_ms;
  return fmt::format("{}<br><span class=\"soft\">{} to {}</span><td>{}", fixed(ttft_ms.median, 1),
                     fixed(ttft_ms.low, 1), fixed(ttft_ms.high, 1), cpu);
}

void add_summary_row(std::string& page, const RunFigures& run, const std::string& workload, double longest,
                     const Detail& detail) {
  const RunSummary summary = summary_of(run);
  const std::string server = html_text(server_and_variant(run), detail.characters / 2);
  const char* claimed = run.counted_by == CountedBy::kEngine ? ""
                        : run.sum_was_counted                ? "<br><span class=\"soft\">as claimed, sum counted</span>"
                                                             : "<br><span class=\"soft\">as claimed</span>";
  page += fmt::format("<tr>{}<td class=\"name\">{}{}{}", workload, server, ratio_cells(run, summary, longest),
                      request_count(run, summary));
  const auto count = [&](std::uint64_t tokens) { return summary.answered ? grouped(tokens) : "–"; };
  page += fmt::format("<td>{}{}<td>{}<td>{}<td>{}\n", count(summary.prefilled_tokens), claimed,
                      count(summary.ideal_tokens), count(summary.cached_tokens), time_cells(run, summary));
}

double longest_ratio(const Report& report) {
  double longest = 1.25;
  for (const RunFigures& run : report.runs) longest = std::max(longest, run.ratio().value_or(0));
  return std::min(longest, kLongestRatioDrawn);
}

// One header cell for all rows of a workload: its title, and the short name that problems are listed under.
std::string workload_cell(const RunFigures& run, std::size_t rows, const Detail& detail) {
  const std::size_t most = detail.characters / 2;
  return fmt::format("<th class=\"name\" scope=\"rowgroup\" rowspan=\"{}\">{}<br><span class=\"soft\">{}</span>", rows,
                     html_text(title_of(run), most), html_text(run.workload, most));
}

}  // namespace

// Tables go first: their rows are what people miss least, for the other forms have them all.
Detail Detail::coarser() const {
  constexpr std::size_t kFewRows = 25;
  const auto half = [](std::size_t count) { return std::max<std::size_t>(count / 2, 1); };
  Detail coarser = *this;
  coarser.rows = half(rows);
  if (rows > kFewRows) return coarser;
  coarser.points = half(points);
  coarser.runs = half(runs);
  coarser.characters = std::max<std::size_t>(characters / 2, 40);
  return coarser;
}

std::string html_text(const std::string& text, std::size_t most) { return escape_markup(printable(text, most)); }

std::string html_left_out(std::size_t count, std::size_t shown, const std::string& what) {
  if (count <= shown) return {};
  return fmt::format("<p class=\"soft\">{} more {} are left out of this page.</p>\n", grouped(count - shown), what);
}

void add_html_summary(std::string& page, const Report& report, const Detail& detail) {
  if (report.runs.empty()) return;
  page +=
      "<section aria-labelledby=\"summary\">\n<h2 id=\"summary\">Prefilled tokens / tokens never computed before</h2>\n"
      "<p class=\"soft\">1.00 is perfect: nothing that was ever computed is computed again. The solid mark stands at "
      "1, the dashed one at the bound. TTFT is the wall time to the first token, median and quartiles; CPU is the time "
      "of the server's process; tokens are counted at the engine "
      "unless it says that the server claims them.</p>\n"
      "<div class=\"wide\"><table>\n<thead><tr><th class=\"name\">Workload<th "
      "class=\"name\">Server<th>Ratio<th><th>Bound"
      "<th>Requests<th>Prefilled<th>Ideal<th>Cached<th>TTFT ms<th>CPU s</thead>\n";
  const std::vector<const RunFigures*> runs = by_workload(report);
  const std::size_t shown = std::min(runs.size(), detail.rows);
  const double longest = longest_ratio(report);
  for (std::size_t i = 0; i < shown;) {
    const auto same = [&](const RunFigures* run) { return run->workload == runs[i]->workload; };
    const std::size_t end = std::find_if_not(runs.begin() + i, runs.begin() + shown, same) - runs.begin();
    page += "<tbody>\n";
    std::string name = workload_cell(*runs[i], end - i, detail);
    for (; i < end; ++i) add_summary_row(page, *runs[i], std::exchange(name, {}), longest, detail);
    page += "</tbody>\n";
  }
  page += "</table></div>\n" + html_left_out(runs.size(), shown, "runs") + "</section>\n";
}

void add_html_parts(std::string& page, const Report& report, const Detail& detail) {
  if (report.parts.empty()) return;
  page +=
      "<section aria-labelledby=\"parts\">\n<h2 id=\"parts\">Parts</h2>\n<div class=\"wide\"><table>\n<thead><tr>"
      "<th class=\"name\">Figure<th>Median<th "
      "class=\"name\">Unit<th>Quartiles<th>Samples<th>Goal<th></thead>\n<tbody>\n";
  const std::size_t shown = std::min(report.parts.size(), detail.rows);
  for (std::size_t i = 0; i < shown; ++i) {
    const PartFigures& part = report.parts[i];
    const char* verdict = !part.unmeasurable.empty() ? "<td class=\"soft\">not measurable here"
                          : !part.holds              ? "<td>"
                          : *part.holds              ? "<td class=\"good\">met"
                                                     : "<td class=\"bad\">missed";
    page += fmt::format("<tr><th class=\"name\">{}<td>{}<td class=\"name\">{}<td>{} to {}<td>{}<td>{}{}\n",
                        html_text(part.name, detail.characters / 2), measured(part.median),
                        html_text(part.unit, detail.characters / 2), measured(part.low_quartile),
                        measured(part.high_quartile), grouped(part.samples),
                        html_text(part.goal, detail.characters / 2), verdict);
  }
  page += "</tbody></table></div>\n" + html_left_out(report.parts.size(), shown, "figures") + "</section>\n";
}

}  // namespace kvkeep::bench
