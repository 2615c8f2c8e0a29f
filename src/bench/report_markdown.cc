#include <fmt/format.h>

#include <cctype>

#include "bench/report.h"
#include "bench/report_summary.h"
#include "bench/report_text.h"

namespace kvkeep::bench {
namespace {

constexpr std::size_t kMostFlagCharacters = 600;
constexpr std::size_t kMostProblems = 100;

bool is_word(char byte) { return std::isalnum(static_cast<unsigned char>(byte)) != 0; }

// A byte that Markdown would take for more than itself in the middle of a line. What cannot begin anything stays as it
// is, so that "<= 1.03" and "state_seq_set_data" read well in the source too.
bool needs_escape(char byte, char before, char after) {
  if (byte == '_') return !(is_word(before) && is_word(after));
  if (byte == '<') return is_word(after) || after == '/' || after == '!' || after == '?';
  if (byte == '&') return is_word(after) || after == '#';
  return std::string_view("\\`*[]|~$").contains(byte);
}

std::string escaped(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char before = i == 0 ? ' ' : text[i - 1];
    const char after = i + 1 == text.size() ? ' ' : text[i + 1];
    if (needs_escape(text[i], before, after)) out += '\\';
    out += text[i];
  }
  return out;
}

// The same at the beginning of a line, where more bytes mean something.
std::string escaped_line(const std::string& text) {
  const bool begins_block = !text.empty() && std::string_view("#-+>=").contains(text.front());
  return begins_block ? fmt::format("\\{}", escaped(text)) : escaped(text);
}

std::string named(const std::string& text) { return escaped(printable(text, kMostNameCharacters)); }

void add_row(std::string& out, const std::vector<std::string>& cells) {
  out += "|";
  for (const std::string& cell : cells) out += fmt::format("{}{} |", cell.empty() ? "" : " ", cell);
  out += "\n";
}

void add_head(std::string& out, const std::vector<std::string>& titles) {
  add_row(out, titles);
  out += "|---|";
  for (std::size_t i = 1; i < titles.size(); ++i) out += "---:|";
  out += "\n";
}

void add_header(std::string& out, const Report& report) {
  const Machine& machine = report.machine;
  out += fmt::format("# {}\n\n- Started: {}\n", named(report.title), named(report.started));
  out += fmt::format("- Machine: {} x {}, {} of memory, {}\n", machine.logical_cpus, named(machine.processor),
                     memory_size(machine.memory_bytes), named(machine.system));
  if (!report.other_work.empty()) {
    out += fmt::format("- Meanwhile: {}\n", escaped(printable(report.other_work, kMostFlagCharacters)));
  }
  out += fmt::format("- kvkeep: {}\n- libllama: {}\n- Model: {}\n", named(report.kvkeep_version),
                     named(report.libllama_version), named(report.model));
  for (const ServerInfo& server : report.servers) {
    const std::string flags = escaped(printable(server.flags, kMostFlagCharacters));
    out += fmt::format("- Server {}: {}, flags: {}\n", named(server.name), named(server.version), flags);
  }
}

std::string ratio_cell(const RunFigures* run) {
  if (run == nullptr) return "";
  const RunSummary summary = summary_of(*run);
  const std::string ratio = summary.ratio ? fixed(*summary.ratio, 3) : "-";
  const std::string unanswered = summary.failed == 0 ? "" : fmt::format(" ({} failed)", summary.failed);
  return (summary.above_bound ? fmt::format("**{}** (bound {})", ratio, measured(*run->bound)) : ratio) + unanswered;
}

void add_ratios(std::string& out, const Comparison& comparison) {
  out +=
      "\n## Prefilled tokens / tokens never computed before\n\n1.00 is perfect. A ratio above its bound is bold.\n\n";
  std::vector<std::string> titles{"workload"};
  for (const std::string& column : comparison.columns) titles.push_back(escaped(column));
  add_head(out, titles);
  for (const Comparison::Row& row : comparison.rows) {
    std::vector<std::string> cells{escaped(title_of(*row.first))};
    for (const RunFigures* run : row.cells) cells.push_back(ratio_cell(run));
    add_row(out, cells);
  }
}

std::vector<std::string> token_cells(const RunFigures& run) {
  const RunSummary summary = summary_of(run);
  std::vector<std::string> cells{escaped(title_of(run)), escaped(server_and_variant(run)),
                                 fmt::format("{}", run.requests.size())};
  for (const std::uint64_t count :
       {summary.prompt_tokens, summary.ideal_tokens, summary.prefilled_tokens, summary.cached_tokens,
        cached_from(run, "memory"), cached_from(run, "ram"), cached_from(run, "disk")}) {
    cells.push_back(summary.answered ? fmt::format("{}", count) : "-");
  }
  cells.push_back(summary.ttft_ms ? spread(*summary.ttft_ms, 1) : "-");
  cells.push_back(run.server_cpu_s ? measured(*run.server_cpu_s) : "-");
  cells.emplace_back(run.counted_by == CountedBy::kEngine ? "engine"
                     : run.sum_was_counted                ? "reply, in all the engine"
                                                          : "reply");
  return cells;
}

void add_tokens(std::string& out, const Report& report) {
  out +=
      "\nThe same in tokens. \"From\" says which tier the server had the cached ones from, where it says so; TTFT is "
      "the\nmedian (and quartiles) in milliseconds of wall time; CPU is the user and system time of the server's "
      "process "
      "in\nseconds; \"counted by\" is the engine, or the server's own replies.\n\n";
  add_head(out, {"workload", "server", "requests", "in prompts", "never computed", "prefilled", "cached", "from memory",
                 "from RAM", "from disk", "wall TTFT", "CPU", "counted by"});
  for (const RunFigures* run : by_workload(report)) add_row(out, token_cells(*run));
}

void add_parts(std::string& out, const Report& report) {
  out += "\n## Parts\n\n";
  add_head(out, {"", "median", "quartiles", "samples", "goal"});
  for (const PartFigures& part : report.parts) {
    const std::string unit = part.unit == "ratio" ? "" : fmt::format(" {}", named(part.unit));
    const char* missed = part.holds == false          ? " (**missed**)"
                         : !part.unmeasurable.empty() ? " (not measurable here)"
                                                      : "";
    add_row(out, {named(part.name), measured(part.median) + unit,
                  measured(part.low_quartile) + " to " + measured(part.high_quartile), fmt::format("{}", part.samples),
                  named(part.goal) + missed});
  }
}

void add_problems(std::string& out, const std::vector<std::string>& problems) {
  out += "\n## Problems\n\n";
  for (std::size_t i = 0; i < std::min(problems.size(), kMostProblems); ++i) {
    out += fmt::format("- {}\n", escaped_line(problems[i]));
  }
  if (problems.size() > kMostProblems) out += fmt::format("- and {} more\n", problems.size() - kMostProblems);
}

}  // namespace

std::string to_markdown(const Report& report) {
  std::string out;
  add_header(out, report);
  if (!report.runs.empty()) {
    add_ratios(out, compare(report));
    add_tokens(out, report);
  }
  if (!report.parts.empty()) add_parts(out, report);
  if (const auto problems = problems_of(report); !problems.empty()) add_problems(out, problems);
  return out;
}

}  // namespace kvkeep::bench
