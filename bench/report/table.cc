#include <fmt/format.h>

#include <algorithm>

#include "bench/report/report.h"
#include "bench/report/summary.h"
#include "text/terminal.h"

namespace kvkeep::bench {
namespace {

constexpr std::size_t kMostColumns = 120;
constexpr std::size_t kMostFlagCharacters = 600;
constexpr std::size_t kMostProblems = 50;
constexpr std::size_t kIndent = 2;
constexpr std::size_t kMostRows = 500;  // of a replay's requests
using enum text::TextTable::Align;

void add_line(std::string& out, const std::string& text) { out += text::wrapped(text, kMostColumns, kIndent); }

// The result, then the measured programs, the machine, versions and flags.
void add_header(std::string& out, const Report& report) {
  if (const std::string finding = finding_of(report); !finding.empty()) {
    add_line(out, finding + ": tokens prefilled for each token that was never computed before");
  }
  add_line(out, fmt::format("{}, {}", named(report.title), named(report.started)));
  add_line(out, fmt::format("kvkeep {}, libllama {}, model {}", named(report.kvkeep_version),
                            named(report.libllama_version), named(report.model)));
  add_line(out, fmt::format("{} x {}, {} of memory, {}", report.machine.logical_cpus, named(report.machine.processor),
                            text::memory_size(report.machine.memory_bytes), named(report.machine.system)));
  for (const ServerInfo& server : report.servers) {
    const std::string flags = text::printable(server.flags, kMostFlagCharacters);
    add_line(out, fmt::format("{} {}: {}", named(server.name), named(server.version), flags));
  }
}

const char* mark_of(const RunFigures& run) {
  if (run.counted_by == CountedBy::kEngine) return " ";
  return run.sum_was_counted ? "=" : "*";
}

std::string trouble_of(const RunFigures& run, const RunSummary& summary) {
  if (!run.refused.empty()) return " (refused)";
  return summary.failed == 0 ? "" : fmt::format(" ({} failed)", summary.failed);
}

std::vector<std::string> row_of(const RunFigures& run, bool same_workload) {
  const RunSummary summary = summary_of(run);
  const auto count = [&](std::uint64_t tokens) { return summary.answered ? fmt::format("{}", tokens) : "-"; };
  return {same_workload ? "" : named(run.workload),
          server_and_variant(run),
          fmt::format("{}{}", run.requests.size(), trouble_of(run, summary)),
          (summary.ratio ? text::fixed(*summary.ratio, 3) : "-") + (summary.above_bound ? "!" : " "),
          run.bound ? text::measured(*run.bound) : "",
          count(summary.prefilled_tokens) + mark_of(run),
          count(summary.ideal_tokens),
          count(summary.cached_tokens),
          summary.ttft_ms ? spread(*summary.ttft_ms, 1) : "-",
          run.server_cpu_s ? text::measured(*run.server_cpu_s) : "-"};
}

void add_runs(std::string& out, const Report& report) {
  text::TextTable table({{"workload", kLeft},
                         {"server", kLeft},
                         {"requests"},
                         {"ratio "},
                         {"bound"},
                         {"prefilled "},
                         {"ideal"},
                         {"cached"},
                         {"wall TTFT ms"},
                         {"CPU s"}});
  const RunFigures* before = nullptr;
  bool any_above = false;
  bool any_claimed = false;
  bool any_confirmed = false;
  for (const RunFigures* run : by_workload(report)) {
    table.add_row(row_of(*run, before != nullptr && before->workload == run->workload));
    before = run;
    any_above = any_above || summary_of(*run).above_bound;
    any_claimed = any_claimed || *mark_of(*run) == '*';
    any_confirmed = any_confirmed || *mark_of(*run) == '=';
  }
  if (table.empty()) return;
  out +=
      "\nPrefilled tokens / tokens never computed before (ideal); TTFT: median (quartiles); CPU: of the server's "
      "process\n" +
      table.text(kMostColumns);
  if (any_above) out += "! above its bound\n";
  if (any_confirmed) out += "= as the server's replies say; their sum was counted at its engine\n";
  if (any_claimed) out += "* as the server's replies say, not counted\n";
}

std::vector<std::string> row_of(const PartFigures& part) {
  const char* verdict = part.holds                  ? (*part.holds ? "met" : "MISSED")
                        : part.unmeasurable.empty() ? ""
                                                    : "not measurable";
  return {named(part.name),
          text::measured(part.median),
          named(part.unit),
          text::measured(part.low_quartile) + " to " + text::measured(part.high_quartile),
          fmt::format("{}", part.samples),
          named(part.goal),
          verdict};
}

void add_parts(std::string& out, const Report& report) {
  if (report.parts.empty()) return;
  text::TextTable table(
      {{"part", kLeft}, {"median"}, {"unit", kLeft}, {"quartiles"}, {"samples"}, {"goal", kLeft}, {"", kLeft}});
  for (const PartFigures& part : report.parts) table.add_row(row_of(part));
  out += '\n';
  out += table.text(kMostColumns);
}

void add_list(std::string& out, const std::string& title, const std::vector<std::string>& lines) {
  out += title;
  for (std::size_t i = 0; i < std::min(lines.size(), kMostProblems); ++i) add_line(out, fmt::format("- {}", lines[i]));
  if (lines.size() > kMostProblems) out += fmt::format("- and {} more\n", lines.size() - kMostProblems);
}

void add_refusals(std::string& out, const Report& report) {
  const std::vector<std::string> lines = refusals_of(report);
  if (!lines.empty()) add_list(out, "\nNot played: the server refuses a request of the workload\n", lines);
}

void add_unmeasurable(std::string& out, const Report& report) {
  if (!report.other_work.empty()) out += "\n", add_line(out, text::printable(report.other_work, kMostFlagCharacters));
  const std::vector<std::string> lines = unmeasurable_parts(report);
  if (!lines.empty()) add_list(out, "\nNot measurable here: repeat these on a machine that does nothing else\n", lines);
}

void add_problems(std::string& out, const Report& report) {
  const std::vector<std::string> problems = problems_of(report);
  if (problems.empty()) return;
  add_list(out, fmt::format("\n{} problem{}\n", problems.size(), problems.size() == 1 ? "" : "s"), problems);
}

std::string result_of(const RequestFigures& request) {
  if (!failed(request)) return "";
  return request.status == 0 ? "failed" : fmt::format("failed ({})", request.status);
}

std::string milliseconds(double value_ms) { return value_ms == 0 ? "-" : text::fixed(value_ms, 1); }

std::vector<std::string> row_of(const RequestFigures& request) {
  const double rate = request.decode_tokens_per_second;
  const auto count = [&](std::uint64_t value) { return known(request, value) ? fmt::format("{}", value) : "-"; };
  return {text::printable(request.label, kMostNameCharacters),
          count(request.prompt_tokens),
          count(request.cached_tokens),
          count(request.prefilled_tokens),
          count(request.ideal_tokens),
          milliseconds(request.ttft_ms),
          milliseconds(request.total_ms),
          count(request.reply_tokens),
          rate == 0 ? "-" : text::measured(rate),
          text::printable(request.cache_source, kMostNameCharacters),
          result_of(request)};
}

std::vector<std::string> total_of(const RunFigures& run) {
  const RunSummary summary = summary_of(run);
  std::uint64_t reply_tokens = 0;
  for (const RequestFigures& request : run.requests) reply_tokens += request.reply_tokens;
  const auto count = [&](std::uint64_t tokens) { return summary.answered ? fmt::format("{}", tokens) : "-"; };
  return {fmt::format("total of {}", run.requests.size()),
          count(summary.prompt_tokens),
          count(summary.cached_tokens),
          count(summary.prefilled_tokens),
          count(summary.ideal_tokens),
          summary.ttft_ms ? text::fixed(summary.ttft_ms->median, 1) : "-",
          "",
          count(reply_tokens),
          "",
          "",
          summary.failed == 0 ? "" : fmt::format("{} failed", summary.failed)};
}

}  // namespace

std::string to_table(const Report& report) {
  std::string out;
  add_header(out, report);
  add_runs(out, report);
  add_parts(out, report);
  add_refusals(out, report);
  add_unmeasurable(out, report);
  add_problems(out, report);
  return out;
}

std::string to_request_table(const RunFigures& run) {
  text::TextTable table({{"request", kLeft},
                         {"prompt"},
                         {"cached"},
                         {"prefilled"},
                         {"ideal"},
                         {"TTFT ms"},
                         {"all ms"},
                         {"reply"},
                         {"tokens/s"},
                         {"from", kLeft},
                         {"", kLeft}});
  const std::size_t shown = std::min(run.requests.size(), kMostRows);
  for (std::size_t i = 0; i < shown; ++i) table.add_row(row_of(run.requests[i]));
  table.add_row(total_of(run));
  std::string out = text::wrapped(text::printable(title_of(run), kMostNameCharacters), kMostColumns, kIndent) +
                    table.text(kMostColumns);
  if (shown < run.requests.size()) out += fmt::format("({} more requests)\n", run.requests.size() - shown);
  return out;
}

}  // namespace kvkeep::bench
