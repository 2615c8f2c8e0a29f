#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "bench/html_page.h"
#include "bench/report_summary.h"
#include "bench/report_text.h"
#include "bench/svg_plot.h"

namespace kvkeep::bench {
namespace {

double excess_tokens(const RequestFigures& request) {
  return static_cast<double>(request.prefilled_tokens) - static_cast<double>(request.ideal_tokens);
}

// Failures first, then what prefilled most above its ideal.
double badness(const RequestFigures& request) {
  return failed(request) ? std::numeric_limits<double>::infinity() : excess_tokens(request);
}

double ttft_or_failure(const RequestFigures& request) {
  return failed(request) ? std::numeric_limits<double>::infinity() : request.ttft_ms;
}

std::vector<std::size_t> shown_of(const RunFigures& run, double (*score)(const RequestFigures&), std::size_t most) {
  std::vector<double> scores;
  scores.reserve(run.requests.size());
  for (const RequestFigures& request : run.requests) scores.push_back(score(request));
  return thinned(scores, most);
}

std::string tokens_figure(const RunFigures& run, const Detail& detail) {
  std::vector<Bar> bars;
  for (const std::size_t i : shown_of(run, excess_tokens, detail.points)) {
    const RequestFigures& request = run.requests[i];
    bars.push_back({i, static_cast<double>(request.prefilled_tokens), static_cast<double>(request.ideal_tokens)});
  }
  return "<figure>\n" + bar_plot(bars, run.requests.size(), "Prefilled and ideal tokens of each request") +
         "<figcaption><b>Tokens per request</b> <span class=\"entry\"><span class=\"key behind\"></span>ideal</span> "
         "<span class=\"entry\"><span class=\"key front\"></span>prefilled</span> <span class=\"entry\">"
         "<span class=\"key excess\"></span>prefilled above the ideal</span></figcaption>\n</figure>\n";
}

std::string ttft_figure(const RunFigures& run, const Detail& detail) {
  std::vector<Dot> dots;
  for (const std::size_t i : shown_of(run, ttft_or_failure, detail.points)) {
    dots.push_back({i, run.requests[i].ttft_ms, failed(run.requests[i])});
  }
  return "<figure>\n" + dot_plot(dots, run.requests.size(), "Milliseconds to the first token of each request") +
         "<figcaption><b>Time to the first token, ms</b>, per request; a cross is a failed "
         "one</figcaption>\n</figure>\n";
}

std::string note_on_thinning(const RunFigures& run, const Detail& detail) {
  const std::size_t count = run.requests.size();
  const bool plots = count > detail.points;
  const bool table = count > detail.rows;
  if (!plots && !table) return {};
  std::string note = fmt::format("<p class=\"soft\">Of {} requests ", grouped(count));
  if (plots) note += fmt::format("the plots show {}", grouped(detail.points));
  if (plots && table) note += " and ";
  if (table) note += fmt::format("the table {}{}", plots ? "" : "shows ", grouped(detail.rows));
  return note + ": of each group of neighbours the worst (failed, furthest above its ideal, or slowest).</p>\n";
}

std::string request_cell(const RequestFigures& request, const Detail& detail) {
  std::string cell = "<td class=\"name\">" + html_text(request.label, detail.characters / 2);
  if (request.error.empty()) return cell;
  return cell + "<span class=\"error\">" + html_text(request.error, detail.characters) + "</span>";
}

std::string count_cell(std::optional<std::uint64_t> count, bool bad = false) {
  return fmt::format("<td{}>{}", bad ? " class=\"bad\"" : "", count ? grouped(*count) : "–");
}

// Times of a failed request are often none at all.
std::string time_cell(double value, int digits) {
  return fmt::format("<td>{}", value == 0 ? "" : fixed(value, digits));
}

void add_request_row(std::string& page, const RunFigures& run, std::size_t index, const Detail& detail) {
  const RequestFigures& request = run.requests[index];
  const std::uint64_t prefilled = request.prefilled_tokens;
  const std::string status = request.status == 0 ? "none" : fmt::format("{}", request.status);
  page += fmt::format("<tr><td>{}{}<td{}>{}", grouped(index + 1), request_cell(request, detail),
                      failed(request) ? " class=\"bad\"" : "", status);
  const auto count = [&](std::uint64_t value) { return count_cell(known(request, value)); };
  page += count(request.prompt_tokens) + count(request.cached_tokens) +
          count_cell(known(request, prefilled), prefilled > request.ideal_tokens) + count(request.ideal_tokens);
  page +=
      request.claimed_prefill ? count_cell(*request.claimed_prefill, *request.claimed_prefill != prefilled) : "<td>";
  page += "<td>" + html_text(request.cache_source, detail.characters / 2) + count(request.reply_tokens);
  page += time_cell(request.ttft_ms, 1) + time_cell(request.total_ms, 1) +
          time_cell(request.decode_tokens_per_second, 1) + "\n";
}

void add_requests(std::string& page, const RunFigures& run, const Detail& detail) {
  page +=
      "<details>\n<summary>All figures of each request</summary>\n<div class=\"wide\"><table>\n<thead><tr><th>#"
      "<th class=\"name\">Request<th>Status<th>Prompt<th>Cached<th>Prefilled<th>Ideal<th>Claimed<th>From<th>Reply"
      "<th>TTFT ms<th>Total ms<th>Tokens/s</thead>\n<tbody>\n";
  for (const std::size_t i : shown_of(run, badness, detail.rows)) add_request_row(page, run, i, detail);
  page += "</tbody></table></div>\n</details>\n";
}

std::string run_line(const RunFigures& run) {
  const RunSummary summary = summary_of(run);
  if (!summary.answered) return fmt::format("{} requests, none was answered", grouped(run.requests.size()));
  std::string line = fmt::format("{} requests, {} tokens in prompts, {} never computed before, {} prefilled",
                                 grouped(run.requests.size()), grouped(summary.prompt_tokens),
                                 grouped(summary.ideal_tokens), grouped(summary.prefilled_tokens));
  if (summary.ratio) line += ": ratio " + fixed(*summary.ratio, 3);
  if (summary.failed != 0) line += fmt::format("; {} failed", grouped(summary.failed));
  if (run.kills != 0) line += fmt::format("; {} deliberate kill{}", grouped(run.kills), run.kills == 1 ? "" : "s");
  if (run.counted_by == CountedBy::kReply) line += "; tokens as the server's replies say";
  if (run.sum_was_counted) line += ", in all as many as counted at its engine";
  return line;
}

void add_run(std::string& page, const RunFigures& run, const Detail& detail) {
  page += fmt::format("<article>\n<h3>{} – {}</h3>\n<p class=\"soft\">{}.</p>\n",
                      html_text(title_of(run), detail.characters / 2),
                      html_text(server_and_variant(run), detail.characters / 2), run_line(run));
  page += note_on_thinning(run, detail);
  if (!run.requests.empty()) {
    page += "<div class=\"plots\">\n" + tokens_figure(run, detail) + ttft_figure(run, detail) + "</div>\n";
    add_requests(page, run, detail);
  }
  page += "</article>\n";
}

}  // namespace

void add_html_runs(std::string& page, const Report& report, const Detail& detail) {
  if (report.runs.empty()) return;
  page += "<section aria-labelledby=\"runs\">\n<h2 id=\"runs\">Runs</h2>\n";
  const std::vector<const RunFigures*> runs = by_workload(report);
  const std::size_t shown = std::min(runs.size(), detail.runs);
  for (std::size_t i = 0; i < shown; ++i) add_run(page, *runs[i], detail);
  page += html_left_out(runs.size(), shown, "runs") + "</section>\n";
}

}  // namespace kvkeep::bench
