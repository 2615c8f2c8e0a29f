#include "bench/report_summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>

#include "bench/report_text.h"

namespace kvkeep::bench {
namespace {

// Enough to understand an error; the JSON form has it whole.
constexpr std::size_t kMostProblemCharacters = 600;

std::optional<Quartiles> ttft_of(const RunFigures& run) {
  std::vector<double> times;
  for (const RequestFigures& request : run.requests) {
    if (!failed(request) && std::isfinite(request.ttft_ms)) times.push_back(request.ttft_ms);
  }
  if (times.empty()) return std::nullopt;
  return quartiles_of(std::move(times));
}

std::string named(const std::string& text) { return printable(text, kMostNameCharacters); }

std::string place(const RunFigures& run) { return named(run.workload) + " on " + server_and_variant(run) + ": "; }

void add_run_problems(const RunFigures& run, std::vector<std::string>& problems) {
  for (const std::string& problem : run.problems) {
    problems.push_back(place(run) + printable(problem, kMostProblemCharacters));
  }
  const RunSummary summary = summary_of(run);
  if (summary.above_bound) {
    problems.push_back(
        fmt::format("{}ratio {} is above its bound {}", place(run), fixed(*summary.ratio, 3), measured(*run.bound)));
  }
}

// The row of this workload, made if it is new.
Comparison::Row& row_of(const RunFigures& run, Comparison& into, std::map<std::string, std::size_t>& known) {
  const auto [found, is_new] = known.try_emplace(run.workload, into.rows.size());
  if (is_new) into.rows.push_back({&run, {}});
  return into.rows[found->second];
}

}  // namespace

RunSummary summary_of(const RunFigures& run) {
  RunSummary summary;
  summary.prompt_tokens = run.prompt_tokens();
  summary.prefilled_tokens = run.prefilled_tokens();
  summary.ideal_tokens = run.ideal_tokens();
  summary.ttft_ms = ttft_of(run);
  for (const RequestFigures& request : run.requests) {
    summary.cached_tokens += request.cached_tokens;
    summary.failed += failed(request) ? 1 : 0;
  }
  summary.answered = summary.failed < run.requests.size();
  summary.ratio = run.ratio();
  summary.above_bound = run.bound && summary.ratio && *summary.ratio > *run.bound;
  return summary;
}

bool failed(const RequestFigures& request) {
  return !request.error.empty() || request.status < 200 || request.status > 299;
}

std::optional<std::uint64_t> known(const RequestFigures& request, std::uint64_t count) {
  if (count == 0 && failed(request)) return std::nullopt;
  return count;
}

std::uint64_t cached_from(const RunFigures& run, std::string_view tier) {
  std::uint64_t tokens = 0;
  for (const RequestFigures& request : run.requests) {
    const std::string_view source = request.cache_source;
    if (source.substr(0, source.find('-')) == tier) tokens += request.cached_tokens;
  }
  return tokens;
}

std::string server_and_variant(const RunFigures& run) {
  const std::string server = named(run.server);
  return run.variant.empty() ? server : server + " (" + named(run.variant) + ")";
}

std::string title_of(const RunFigures& run) { return named(run.title.empty() ? run.workload : run.title); }

std::vector<const RunFigures*> by_workload(const Report& report) {
  std::map<std::string_view, std::size_t> known;
  std::vector<std::vector<const RunFigures*>> groups;
  for (const RunFigures& run : report.runs) {
    const auto [group, is_new] = known.try_emplace(run.workload, groups.size());
    if (is_new) groups.emplace_back();
    groups[group->second].push_back(&run);
  }
  std::vector<const RunFigures*> runs;
  for (const auto& group : groups) runs.insert(runs.end(), group.begin(), group.end());
  return runs;
}

Comparison compare(const Report& report) {
  Comparison comparison;
  std::map<std::string, std::size_t> columns;
  std::map<std::string, std::size_t> rows;
  for (const RunFigures& run : report.runs) {
    const auto [column, is_new] = columns.try_emplace(server_and_variant(run), comparison.columns.size());
    if (is_new) comparison.columns.push_back(column->first);
    Comparison::Row& row = row_of(run, comparison, rows);
    if (row.cells.size() <= column->second) row.cells.resize(column->second + 1);
    const RunFigures*& cell = row.cells[column->second];
    if (cell == nullptr || run.ratio() > cell->ratio()) cell = &run;
  }
  for (Comparison::Row& row : comparison.rows) row.cells.resize(comparison.columns.size());
  return comparison;
}

std::vector<std::string> problems_of(const Report& report) {
  std::vector<std::string> problems;
  for (const RunFigures& run : report.runs) add_run_problems(run, problems);
  for (const PartFigures& part : report.parts) {
    if (part.holds != false) continue;
    problems.push_back(fmt::format("{}: {} {} misses its goal {}", named(part.name), measured(part.median),
                                   named(part.unit), named(part.goal)));
  }
  for (const std::string& problem : report.problems) problems.push_back(printable(problem, kMostProblemCharacters));
  return problems;
}

std::vector<std::string> unmeasurable_parts(const Report& report) {
  std::vector<std::string> lines;
  for (const PartFigures& part : report.parts) {
    if (part.unmeasurable.empty()) continue;
    lines.push_back(fmt::format("{}: {} {} ({} to {}), goal {}: {}", named(part.name), measured(part.median),
                                named(part.unit), measured(part.low_quartile), measured(part.high_quartile),
                                named(part.goal), named(part.unmeasurable)));
  }
  return lines;
}

std::vector<std::size_t> thinned(const std::vector<double>& scores, std::size_t most) {
  const std::size_t groups = std::min(most, scores.size());
  std::vector<std::size_t> shown;
  for (std::size_t group = 0; group < groups; ++group) {
    const std::size_t begin = group * scores.size() / groups;
    const std::size_t end = (group + 1) * scores.size() / groups;
    std::size_t best = begin;
    for (std::size_t i = begin; i < end; ++i) {
      if (scores[i] > scores[best] || (std::isnan(scores[best]) && !std::isnan(scores[i]))) best = i;
    }
    shown.push_back(best);
  }
  return shown;
}

}  // namespace kvkeep::bench
