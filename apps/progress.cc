#include "progress.h"

#include <fmt/format.h>

#include <algorithm>

#include "bench/report/summary.h"
#include "text/terminal.h"

namespace kvkeep::cli {
namespace {

constexpr std::size_t kProgressColumns = 20;

std::string bar(std::size_t done, std::size_t total) {
  const std::size_t filled = total == 0 ? 0 : std::min(kProgressColumns, kProgressColumns * done / total);
  return fmt::format("[{}{}]", std::string(filled, '#'), std::string(kProgressColumns - filled, '-'));
}

}  // namespace

BenchProgress::BenchProgress(const bench::BenchOptions& options) {
  const std::size_t peers = options.peer_command.empty() && options.peer_url.empty() ? 0 : 1;
  const std::size_t servers = (options.variants ? 4 : 1) + peers;
  for (const bench::Workload& workload : options.workloads) total_ += servers * workload.requests();
}

bench::BenchProgress BenchProgress::callbacks() {
  return {.playing =
              [this](const bench::RunFigures& run, std::size_t done, std::size_t requests) {
                current_ = requests;
                const std::string what =
                    fmt::format("{} {:.40} {}/{}", run.workload, server_and_variant(run), done, requests);
                show(what, finished_ + done, total_);
              },
          .played =
              [this](const bench::RunFigures& run) {
                finished_ += current_;
                print_line(run);
              }};
}

void BenchProgress::show(const std::string& what, std::size_t done, std::size_t of) {
  line_.show(fmt::format("{} {:.50}", bar(done, of), what));
}

void BenchProgress::print_line(const bench::RunFigures& run) {
  const auto ratio = run.ratio();
  line_.clear();
  const char* note = !run.problems.empty() ? " (problems)" : !run.refused.empty() ? " (refused)" : "";
  print_error(
      fmt::format("{} {}: {}{}\n", run.workload, server_and_variant(run), ratio ? text::fixed(*ratio, 3) : "-", note));
}

}  // namespace kvkeep::cli
