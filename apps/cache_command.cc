#include "cache_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <utility>

#include "cache_setup.h"
#include "inspect/cache_directory.h"
#include "inspect/print/print.h"
#include "inspect/repair.h"
#include "inspect/verify.h"
#include "inspect/view.h"
#include "os/clock.h"
#include "os/machine_info.h"
#include "os/permissions.h"
#include "os/processors.h"
#include "os/resolve_links.h"

namespace kvkeep::cli {
namespace {

constexpr std::size_t kColumns = 120;
// Reading from page cache and summing takes a processor; from a disk, a few requests at a time keep it busy.
constexpr unsigned kMostReaders = 4;
constexpr std::size_t kBarColumns = 30;

void print(const std::string& text) { std::fputs(text.c_str(), stdout); }

// A bar on a terminal, else nothing.
class Bar {
 public:
  Bar() : shown_(os::errors_go_to_a_terminal()) {}
  Bar(const Bar&) = delete;
  Bar& operator=(const Bar&) = delete;
  ~Bar() {
    if (shown_) std::fputs("\r\033[K", stderr);
  }
  void show(ByteCount done, ByteCount total) {
    if (!shown_ || total == ByteCount{0}) return;
    const auto percent =
        static_cast<std::size_t>(100.0 * static_cast<double>(done.value()) / static_cast<double>(total.value()));
    if (percent == std::exchange(percent_, percent)) return;
    const std::size_t filled = kBarColumns * percent / 100;
    const std::string line =
        fmt::format("\r\033[K[{}{}] {} %", std::string(filled, '#'), std::string(kBarColumns - filled, '-'), percent);
    std::fputs(line.c_str(), stderr);
    std::fflush(stderr);
  }

 private:
  const bool shown_;
  std::size_t percent_ = SIZE_MAX;
};

// What is to be looked into: the path behind links, as for a server.
Result<std::string> root_of(const CacheCommandOptions& options) {
  CacheOptions served;
  served.disk_directory = options.directory;
  TRY_ASSIGN(const std::string named, disk_directory(served));
  auto root = os::resolve_links(named);
  if (!root && root.error().kind == ErrorKind::kNotFound) {
    return not_found(fmt::format("{}: there is no such cache directory{}", named,
                                 options.directory.empty() ? "; name one with --kv-disk-dir" : ""));
  }
  if (!root) return root;
  TRY_ASSIGN(const bool own, os::is_own(*root));
  if (!own) return invalid(*root + " belongs to another user; only that user may look into it");
  return root;
}

Result<ByteCount> budget_of(const CacheCommandOptions& options, const std::string& root) {
  CacheOptions served;
  if (options.disk_mib > 0) served.disk_mib = options.disk_mib;
  TRY_ASSIGN(const ByteCount free_space, os::real_file_system().free_space(root));
  return disk_budget(served, free_space);
}

// Those whose fingerprint begins as asked for.
Status choose_models(inspect::CacheDirectory& directory, const std::string& begins) {
  if (begins.empty()) return {};
  std::erase_if(directory.models,
                [&](const inspect::ModelDirectory& model) { return !model.fingerprint.hex().starts_with(begins); });
  if (directory.models.empty()) return not_found("no model has a fingerprint that begins with '" + begins + "'");
  return {};
}

Result<int> show_models(const CacheCommandOptions& options, const std::string& root, ByteCount budget) {
  TRY_ASSIGN(inspect::CacheDirectory directory, inspect::read_directory(os::real_file_system(), root));
  TRY(choose_models(directory, options.fingerprint));
  const inspect::Forest forest = inspect::plant(std::move(directory));
  inspect::ViewOptions shown;
  shown.now_ns = os::real_clock().wall_ns();
  shown.budget = budget;
  shown.order = options.order;
  shown.most_depth = options.most_depth;
  const bool list = options.action == CacheAction::kList;
  shown.most_runs = list ? options.most_runs : 0;
  const inspect::CacheView view = inspect::view_of(forest, shown);
  if (list) {
    print(options.json ? inspect::list_json(view) : inspect::list_text(view, kColumns));
  } else {
    print(options.json ? inspect::stat_json(view) : inspect::stat_text(view));
  }
  return 0;
}

Result<int> verify(const CacheCommandOptions& options, const std::string& root, ByteCount budget) {
  os::FileSystem& files = os::real_file_system();
  os::Clock& clock = os::real_clock();
  TRY_ASSIGN(const inspect::CacheDirectory directory, inspect::find_models(files, root));
  std::vector<std::unique_ptr<os::Executor>> threads;
  std::vector<os::Executor*> readers;
  for (unsigned i = 0; i < std::clamp(os::core_count(), 1U, kMostReaders); ++i) {
    threads.push_back(os::make_thread_executor("verify"));
    readers.push_back(threads.back().get());
  }
  const std::int64_t began_ns = clock.monotonic_ns();
  auto bar = std::make_unique<Bar>();
  const auto progress = [&](ByteCount done, ByteCount total) { bar->show(done, total); };
  TRY_ASSIGN(const inspect::VerifyReport report, inspect::verify(files, directory, readers, progress));
  const double seconds = os::elapsed_ms(began_ns, clock.monotonic_ns()) / 1e3;
  bar.reset();
  std::optional<inspect::RepairReport> repaired;
  if (options.repair) {
    TRY_ASSIGN(repaired, inspect::repair(files, clock, directory, budget, report.findings));
  }
  print(options.json ? inspect::verify_json(report, repaired, seconds)
                     : inspect::verify_text(report, repaired, seconds));
  return report.clean() ? 0 : 1;
}

}  // namespace

Result<int> run_cache(const CacheCommandOptions& options) {
  TRY_ASSIGN(const std::string root, root_of(options));
  TRY_ASSIGN(const ByteCount budget, budget_of(options, root));
  if (options.action == CacheAction::kVerify) return verify(options, root, budget);
  return show_models(options, root, budget);
}

}  // namespace kvkeep::cli
