#include "bench/report/regression.h"

#include <fmt/format.h>

#include <algorithm>

#include "bench/report/summary.h"

namespace kvkeep::bench {
namespace {

bool same_run(const RunFigures& a, const RunFigures& b) {
  return a.workload == b.workload && a.server == b.server && a.variant == b.variant;
}

const RunFigures* find_run(const Report& report, const RunFigures& wanted) {
  const auto found = std::ranges::find_if(report.runs, [&](const RunFigures& run) { return same_run(run, wanted); });
  return found == report.runs.end() ? nullptr : &*found;
}

std::string name_of(const RunFigures& run) { return run.workload + ", " + server_and_variant(run); }

void compare_runs(const RunFigures& now, const RunFigures& kept, std::vector<std::string>& lines) {
  const auto counted = [&](const char* what, std::uint64_t is, std::uint64_t was) {
    if (is != was) lines.push_back(fmt::format("{}: {} {}, kept {}", name_of(now), what, is, was));
  };
  counted("requests", now.requests.size(), kept.requests.size());
  counted("prompt tokens", now.prompt_tokens(), kept.prompt_tokens());
  counted("ideal tokens", now.ideal_tokens(), kept.ideal_tokens());
  const auto is = now.ratio();
  const auto was = kept.ratio();  // if one of them has none, the counts above differ
  if (is && was && *is > *was + kRatioTolerance) {
    lines.push_back(fmt::format("{}: ratio {:.4f}, kept {:.4f}", name_of(now), *is, *was));
  }
  if (now.counted_by != kept.counted_by) {
    lines.push_back(fmt::format("{}: prefilled tokens were counted {}, unlike the kept ones", name_of(now),
                                now.counted_by == CountedBy::kEngine ? "at the engine" : "by the reply"));
  }
}

bool is_kept(const PartFigures& part) { return part.is_count && !part.goal.empty(); }

// Of those that shall be many, only the least is kept: how many there are beyond it is a matter of time.
bool less_is_better(const PartFigures& part) { return !part.goal.starts_with(">="); }

void compare_parts(const PartFigures& now, const Report& kept, std::vector<std::string>& lines) {
  const auto before = std::ranges::find(kept.parts, now.name, &PartFigures::name);
  if (before == kept.parts.end()) return lines.push_back(now.name + ": nothing was kept to compare with");
  if (now.goal != before->goal) lines.push_back(fmt::format("{}: goal {}, kept {}", now.name, now.goal, before->goal));
  if (less_is_better(now) && now.median > before->median + kRatioTolerance) {
    lines.push_back(fmt::format("{}: {:.4f}, kept {:.4f}", now.name, now.median, before->median));
  }
}

}  // namespace

std::vector<std::string> regressions(const Report& now, const Report& kept, Scope scope) {
  std::vector<std::string> lines;
  for (const RunFigures& run : now.runs) {
    if (const RunFigures* before = find_run(kept, run))
      compare_runs(run, *before, lines);
    else
      lines.push_back(name_of(run) + ": nothing was kept to compare with");
  }
  for (const RunFigures& run : kept.runs) {
    const bool was_played = std::ranges::find(now.runs, run.workload, &RunFigures::workload) != now.runs.end();
    const bool is_expected = was_played || scope == Scope::kAll;
    if (is_expected && find_run(now, run) == nullptr) lines.push_back(name_of(run) + ": kept, but not played");
  }
  for (const PartFigures& part : now.parts) {
    if (is_kept(part)) compare_parts(part, kept, lines);
  }
  return lines;
}

Report counts_only(Report report) {
  report.started.clear();
  report.kvkeep_version.clear();
  report.libllama_version.clear();
  report.machine = {};
  std::erase_if(report.parts, [](const PartFigures& part) { return !is_kept(part); });
  for (PartFigures& part : report.parts) {
    if (!less_is_better(part)) part.median = part.low_quartile = part.high_quartile = 0;
  }
  report.other_work.clear();
  for (ServerInfo& server : report.servers) server.version.clear();
  for (RunFigures& run : report.runs) {
    run.server_cpu_s.reset();
    for (RequestFigures& request : run.requests) {
      request.ttft_ms = request.total_ms = request.decode_tokens_per_second = 0;
      request.cache_source.clear();  // whether a prefix is still in RAM or only on disk depends on the writer's pace
    }
  }
  return report;
}

}  // namespace kvkeep::bench
