#include <fmt/format.h>

#include <algorithm>

#include "bench/report.h"
#include "bench/report_summary.h"
#include "bench/report_text.h"
#include "bench/text_table.h"

namespace kvkeep::bench {
namespace {

constexpr std::size_t kMostColumns = 120;
constexpr std::size_t kMostFlagCharacters = 600;
constexpr std::size_t kMostProblems = 50;
constexpr std::size_t kIndent = 2;
using enum TextTable::Align;

std::string named(const std::string& text) { return printable(text, kMostNameCharacters); }

void add_line(std::string& out, const std::string& text) { out += wrapped(text, kMostColumns, kIndent); }

// What was run, on what, with which versions and flags.
void add_header(std::string& out, const Report& report) {
  add_line(out, fmt::format("{}, {}", named(report.title), named(report.started)));
  add_line(out, fmt::format("kvkeep {}, libllama {}, model {}", named(report.kvkeep_version),
                            named(report.libllama_version), named(report.model)));
  add_line(out, fmt::format("{} x {}, {} of memory, {}", report.machine.logical_cpus, named(report.machine.processor),
                            memory_size(report.machine.memory_bytes), named(report.machine.system)));
  for (const ServerInfo& server : report.servers) {
    const std::string flags = printable(server.flags, kMostFlagCharacters);
    add_line(out, fmt::format("{} {}: {}", named(server.name), named(server.version), flags));
  }
}

const char* mark_of(const RunFigures& run) {
  if (run.counted_by == CountedBy::kEngine) return " ";
  return run.sum_was_counted ? "=" : "*";
}

std::vector<std::string> row_of(const RunFigures& run, bool same_workload) {
  const RunSummary summary = summary_of(run);
  const auto count = [&](std::uint64_t tokens) { return summary.answered ? fmt::format("{}", tokens) : "-"; };
  return {
      same_workload ? "" : named(run.workload),
      server_and_variant(run),
      fmt::format("{}{}", run.requests.size(), summary.failed == 0 ? "" : fmt::format(" ({} failed)", summary.failed)),
      (summary.ratio ? fixed(*summary.ratio, 3) : "-") + (summary.above_bound ? "!" : " "),
      run.bound ? measured(*run.bound) : "",
      count(summary.prefilled_tokens) + mark_of(run),
      count(summary.ideal_tokens),
      count(summary.cached_tokens),
      summary.ttft_ms ? spread(*summary.ttft_ms, 1) : "-",
      run.server_cpu_s ? measured(*run.server_cpu_s) : "-"};
}

void add_runs(std::string& out, const Report& report) {
  TextTable table({{"workload", kLeft},
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
  if (any_confirmed) out += "= as the server's replies say, and in all as many as counted at its engine\n";
  if (any_claimed) out += "* as the server's replies say, not counted\n";
}

std::vector<std::string> row_of(const PartFigures& part) {
  const char* verdict = part.holds                  ? (*part.holds ? "met" : "MISSED")
                        : part.unmeasurable.empty() ? ""
                                                    : "not measurable";
  return {named(part.name),
          measured(part.median),
          named(part.unit),
          measured(part.low_quartile) + " to " + measured(part.high_quartile),
          fmt::format("{}", part.samples),
          named(part.goal),
          verdict};
}

void add_parts(std::string& out, const Report& report) {
  if (report.parts.empty()) return;
  TextTable table(
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

void add_unmeasurable(std::string& out, const Report& report) {
  if (!report.other_work.empty()) out += "\n", add_line(out, printable(report.other_work, kMostFlagCharacters));
  const std::vector<std::string> lines = unmeasurable_parts(report);
  if (!lines.empty()) add_list(out, "\nNot measurable here: repeat these on a machine that does nothing else\n", lines);
}

void add_problems(std::string& out, const Report& report) {
  const std::vector<std::string> problems = problems_of(report);
  if (problems.empty()) return;
  add_list(out, fmt::format("\n{} problem{}\n", problems.size(), problems.size() == 1 ? "" : "s"), problems);
}

}  // namespace

std::string to_table(const Report& report) {
  std::string out;
  add_header(out, report);
  add_runs(out, report);
  add_parts(out, report);
  add_unmeasurable(out, report);
  add_problems(out, report);
  return out;
}

}  // namespace kvkeep::bench
