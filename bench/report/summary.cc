#include "bench/report/summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>
#include <utility>

#include "text/terminal.h"

namespace kvkeep::bench {
namespace {

// Enough to understand an error; the JSON form has the whole text.
constexpr std::size_t kMostProblemCharacters = 600;

std::optional<Quartiles> ttft_of(const RunFigures& run) {
  std::vector<double> times;
  if (!run.refused.empty()) return std::nullopt;
  for (const RequestFigures& request : run.requests) {
    if (!failed(request) && std::isfinite(request.ttft_ms)) times.push_back(request.ttft_ms);
  }
  if (times.empty()) return std::nullopt;
  return quartiles_of(std::move(times));
}

// The highest, and whether all others print the same.
std::string range_of(const std::vector<double>& ratios) {
  if (ratios.empty()) return "-";
  const auto [least, most] = std::ranges::minmax(ratios);
  const std::string highest = text::fixed(most, 2);
  return text::fixed(least, 2) == highest ? highest : "up to " + highest;
}

std::string place(const RunFigures& run) { return named(run.workload) + " on " + server_and_variant(run) + ": "; }

void add_run_problems(const RunFigures& run, std::vector<std::string>& problems) {
  for (const std::string& problem : run.problems) {
    problems.push_back(place(run) + text::printable(problem, kMostProblemCharacters));
  }
  const RunSummary summary = summary_of(run);
  if (summary.above_bound) {
    problems.push_back(fmt::format("{}ratio {} is above its bound {}", place(run), text::fixed(*summary.ratio, 3),
                                   text::measured(*run.bound)));
  }
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
  summary.answered = run.refused.empty() && summary.failed < run.requests.size();
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

std::string named(const std::string& text) { return text::printable(text, kMostNameCharacters); }

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

std::string finding_of(const Report& report) {
  std::vector<std::pair<std::string, std::vector<double>>> servers;  // in the order played
  for (const RunFigures& run : report.runs) {
    const std::string name = server_and_variant(run);
    auto server = std::ranges::find(servers, name, &std::pair<std::string, std::vector<double>>::first);
    if (server == servers.end()) server = servers.insert(servers.end(), {name, {}});
    if (const auto ratio = run.ratio()) server->second.push_back(*ratio);
  }
  std::string finding;
  for (const auto& [name, ratios] : servers) finding += (finding.empty() ? "" : ", ") + name + " " + range_of(ratios);
  return finding;
}

std::vector<std::string> refusals_of(const Report& report) {
  std::vector<std::string> lines;
  for (const RunFigures& run : report.runs) {
    if (!run.refused.empty()) lines.push_back(place(run) + text::printable(run.refused, kMostProblemCharacters));
  }
  return lines;
}

std::vector<std::string> problems_of(const Report& report) {
  std::vector<std::string> problems;
  for (const RunFigures& run : report.runs) add_run_problems(run, problems);
  for (const PartFigures& part : report.parts) {
    if (part.holds != false) continue;
    problems.push_back(fmt::format("{}: {} {} misses its goal {}", named(part.name), text::measured(part.median),
                                   named(part.unit), named(part.goal)));
  }
  for (const std::string& problem : report.problems)
    problems.push_back(text::printable(problem, kMostProblemCharacters));
  return problems;
}

std::vector<std::string> unmeasurable_parts(const Report& report) {
  std::vector<std::string> lines;
  for (const PartFigures& part : report.parts) {
    if (part.unmeasurable.empty()) continue;
    lines.push_back(fmt::format("{}: {} {} ({} to {}), goal {}: {}", named(part.name), text::measured(part.median),
                                named(part.unit), text::measured(part.low_quartile), text::measured(part.high_quartile),
                                named(part.goal), named(part.unmeasurable)));
  }
  return lines;
}

}  // namespace kvkeep::bench
