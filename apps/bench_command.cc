#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>

#include "bench/parts/parts.h"
#include "bench/report/regression.h"
#include "bench/report/report.h"
#include "bench/report/summary.h"
#include "bench/run/bench.h"
#include "bench/run/contestant.h"
#include "bench/run/load.h"
#include "bench/run/parity.h"
#include "bench/run/pictured_prompt.h"
#include "bench/run/sharing.h"
#include "bench/run/speed.h"
#include "bench/run/surroundings.h"
#include "command_words.h"
#include "commands.h"
#include "engine/llama/library.h"
#include "named_files.h"
#include "os/clock.h"
#include "os/file_system.h"
#include "os/paths.h"
#include "os/signals.h"
#include "output.h"
#include "progress.h"
#include "write_reports.h"

namespace kvkeep::cli {
namespace {

constexpr std::size_t kQuickParityPairs = 3;
constexpr std::size_t kQuickLoadRounds = 1;

Result<bench::Workload> workload_of(const std::string& word) {
  if (word.ends_with(".txt")) {
    TRY_ASSIGN(const std::string text, read_file(word));
    const std::string file = word.substr(word.rfind('/') + 1);
    return bench::parse_workload(file.substr(0, file.size() - 4), text);
  }
  std::vector<std::string> names;
  for (const bench::Workload& workload : bench::builtin_workloads()) {
    if (workload.name == word) return workload;
    names.push_back(workload.name);
  }
  const std::string meant = did_you_mean(word, names);
  return not_found("unknown workload '" + word + "'" + (meant.empty() ? "; kvkeep bench --list names them" : meant));
}

// Returns true if the model under test has a projector, or gets one, that takes pictures.
bool shows_pictures(const BenchCommandOptions& options) {
  if (!options.model.empty()) return !options.projector.empty();
  return !gguf::picture_projector(options.architecture).empty();
}

Error no_pictures(const std::string& what) {
  return invalid(
      fmt::format("{} needs a model that sees: --model with --mmproj, or --arch of a recurrent or opaque model or one "
                  "of these ({})",
                  what, gguf::architectures_by_medium()));
}

bool needs_projector(const BenchCommandOptions& options, const bench::BenchOptions& bench) {
  return options.pictures || std::ranges::any_of(bench.workloads, [](const auto& each) { return each.pictures() > 0; });
}

// Without a word, those that the model can be asked; pictures only through a projector of its own.
Result<std::vector<bench::Workload>> chosen_workloads(const BenchCommandOptions& options) {
  std::vector<bench::Workload> workloads;
  if (options.workloads.empty()) {
    const bool sees = options.model.empty() ? gguf::sees_pictures(options.architecture) : shows_pictures(options);
    std::ranges::copy_if(bench::builtin_workloads(), std::back_inserter(workloads),
                         [&](const auto& each) { return each.pictures() == 0 || sees; });
    return workloads;
  }
  for (const std::string& word : options.workloads) {
    TRY_ASSIGN(bench::Workload workload, workload_of(word));
    if (workload.pictures() > 0 && !shows_pictures(options)) return no_pictures(workload.name);
    if (std::ranges::find(workloads, workload.name, &bench::Workload::name) != workloads.end()) {
      return invalid("the workload '" + workload.name + "' is named twice");
    }
    workloads.push_back(std::move(workload));
  }
  return workloads;
}

Status check_scenarios(const std::vector<std::string>& chosen) {
  const std::vector<std::string> known = bench::load_scenario_names();
  for (const std::string& name : chosen) {
    if (std::ranges::find(known, name) != known.end()) continue;
    return invalid(fmt::format("--scenarios: there is no '{}', only {}", name, fmt::join(known, ", ")));
  }
  return {};
}

void print_list() {
  for (const bench::Workload& workload : bench::builtin_workloads()) {
    print(fmt::format("{:<18} {}: {} requests, context {}\n", workload.name, workload.title, workload.requests(),
                      workload.context_tokens));
  }
}

Result<bench::Report> read_kept(const std::string& path) {
  const Result<std::string> text = read_file(path);
  if (!text) return Error{text.error().kind, "--check " + text.error().message};  // which begins with the path
  Result<bench::Report> report = bench::read_json(*text);
  if (report) return report;
  return Error{report.error().kind,
               fmt::format("--check {}: no report that --keep or --json wrote: {}", path, report.error().message)};
}

// Inputs of a run other than its flags, read and made before the first server starts.
struct Prepared {
  bench::BenchOptions options;
  std::optional<bench::Report> kept;
};

Status check_files_and_peer(const BenchCommandOptions& options, const bench::BenchOptions& bench,
                            bench::Interrupt& interrupt) {
  std::vector<NamedOutput> outputs = outputs_of(options.reports);
  outputs.push_back({"--keep", options.keep});
  TRY(check_outputs(outputs));
  if (!options.model.empty()) TRY(check_model(options.model));
  if (!options.projector.empty()) TRY(check_model(options.projector, "--mmproj"));
  return bench::check_peer(bench, interrupt);
}

Result<Prepared> prepare(const BenchCommandOptions& options, const std::string& directory,
                         bench::Interrupt& interrupt) {
  Prepared prepared;
  bench::BenchOptions& bench = prepared.options;
  bench.peer_command = options.peer_command;
  bench.peer_url = options.peer_url;
  TRY(check_scenarios(options.scenarios));
  if (!options.no_workloads) {
    TRY_ASSIGN(bench.workloads, chosen_workloads(options));
  }
  if (options.pictures && !shows_pictures(options)) return no_pictures("--pictures");
  if (!options.check.empty()) {
    TRY_ASSIGN(prepared.kept, read_kept(options.check));
  }
  TRY(check_files_and_peer(options, bench, interrupt));
  bench.model = options.model;
  bench.projector = options.projector;
  bench.model_is_generated = options.model.empty();
  if (bench.model_is_generated) {
    gguf::MakeModelOptions model;
    model.size = options.model_size();
    const char* name = model.size == gguf::ModelSize::kTiny ? "tiny"
                       : options.size.empty()               ? "small"
                                                            : options.size.c_str();
    if (!options.architecture.empty()) model.architecture = options.architecture;
    const std::string architecture = options.architecture.empty() ? "" : options.architecture + "-";
    bench.model = fmt::format("{}/generated-{}{}.gguf", directory, architecture, name);
    TRY(gguf::make_model(model, bench.model));
    if (needs_projector(options, bench)) {
      model.projector = true;
      model.architecture = gguf::picture_projector(options.architecture);
      bench.projector = fmt::format("{}/generated-{}{}-mmproj.gguf", directory, architecture, name);
      TRY(gguf::make_model(model, bench.projector));
    }
  }
  bench.quick = options.quick;
  bench.variants = options.variants;
  bench.kvkeep_flags = options.kvkeep_flags;
  return prepared;
}

// The rows of the tiny model are so small that libllama's fixed cost per cell would hide the times to be measured.
Result<std::string> model_for_parts(const bench::BenchOptions& bench_options, const std::string& architecture) {
  if (!bench_options.model_is_generated) return bench_options.model;
  const std::string path = bench_options.model + ".parts";
  gguf::MakeModelOptions model;
  model.size = gguf::ModelSize::kSmall;
  if (!architecture.empty()) model.architecture = architecture;
  TRY(gguf::make_model(model, path));
  return path;
}

Result<std::vector<bench::PartFigures>> measure_parts(const BenchCommandOptions& options,
                                                      const bench::BenchOptions& bench_options, BenchProgress& progress,
                                                      const bench::Interrupt& interrupt) {
  bench::PartsOptions parts;
  TRY_ASSIGN(parts.model.path, model_for_parts(bench_options, options.architecture));
  parts.model.threads = 1;
  parts.model.class_test_program = "/proc/self/exe";
  const auto show = [&](std::size_t done, std::size_t of) {
    progress.show("parts", done, of);
    return !interrupt.raised();
  };
  TRY_ASSIGN(std::vector<bench::PartFigures> figures, bench::measure_parts(parts, os::real_clock(), show));
  bench::RoundOptions rounds{.model = parts.model};
  if (options.quick) rounds.repetitions = 1;
  TRY_ASSIGN(std::vector<bench::PartFigures> of_rounds, bench::measure_rounds(rounds, os::real_clock(), show));
  std::ranges::move(of_rounds, std::back_inserter(figures));
  return figures;
}

// After an error the report keeps the figures that were measured before, and names the error.
void add_parts(bench::Report& report, const char* what, Result<std::vector<bench::PartFigures>> figures) {
  if (figures)
    std::ranges::move(*figures, std::back_inserter(report.parts));
  else
    report.problems.push_back(fmt::format("{}: {}", what, figures.error().message));
}

void add_load(bench::Report& report, Result<bench::LoadFigures> load) {
  if (!load) return add_parts(report, "load", load.error());
  std::ranges::move(load->counts, std::back_inserter(report.runs));
  std::ranges::move(load->problems, std::back_inserter(report.problems));
  add_parts(report, "load", std::move(load->parts));
}

bench::LoadOptions load_options(const BenchCommandOptions& options) {
  bench::LoadOptions load{.scenarios = options.scenarios, .quick = options.quick};
  if (options.quick) load.rounds = kQuickLoadRounds;
  if (options.pairs > 0) load.rounds = options.pairs;
  return load;
}

Result<bench::Report> measure(const BenchCommandOptions& options, const bench::BenchOptions& bench_options,
                              bench::Interrupt& interrupt) {
  BenchProgress progress(bench_options);
  const bench::OtherWork other_work;
  TRY_ASSIGN(bench::Report report, bench::run_bench(bench_options, progress.callbacks(), interrupt));
  if (options.parts) {
    add_parts(report, "parts", measure_parts(options, bench_options, progress, interrupt));
    TRY(interrupt.check());
  }
  if (options.parity) {
    const auto show = [&](std::size_t done, std::size_t of) { progress.show("parity", done, of); };
    const std::size_t pairs = options.pairs > 0 ? options.pairs
                              : options.quick   ? kQuickParityPairs
                                                : bench::ParityOptions{}.pairs;
    add_parts(report, "parity", bench::run_parity(bench_options, pairs, show, interrupt));
    TRY(interrupt.check());
  }
  if (options.speed) {
    const auto show = [&](std::size_t done, std::size_t of) { progress.show("speed", done, of); };
    bench::SpeedOptions speed;
    if (options.quick) speed = {.rounds = 1, .has_goals = false};
    add_parts(report, "speed", bench::measure_speed(bench_options, speed, show, interrupt));
    TRY(interrupt.check());
  }
  if (options.pictures) {
    const auto show = [&](std::size_t done, std::size_t of) { progress.show("pictures", done, of); };
    bench::KnownPicturesOptions pictures;
    if (options.quick) pictures = {.pairs = 3, .has_goal = false};
    if (options.pairs > 0) pictures.pairs = options.pairs;
    add_parts(report, "pictures", bench::measure_known_pictures(bench_options, pictures, show, interrupt));
    TRY(interrupt.check());
  }
  if (!options.share_url.empty()) {
    const auto show = [&](std::size_t done, std::size_t of) { progress.show("share", done, of); };
    bench::SharingOptions sharing{.url = options.share_url};
    if (options.quick) sharing.rounds = 1;
    add_parts(report, "share", bench::measure_sharing(bench_options, sharing, show, interrupt));
    TRY(interrupt.check());
  }
  if (options.load) {
    const auto show = [&](std::size_t done, std::size_t of) { progress.show("load", done, of); };
    add_load(report, bench::measure_load(bench_options, load_options(options), show, interrupt));
    TRY(interrupt.check());
  }
  report.other_work = other_work.text();
  report.title = options.quick ? "kvkeep bench --quick" : "kvkeep bench";
  report.kvkeep_version = KVKEEP_VERSION;
  report.libllama_version = engine::llama::library_versions();
  report.servers.front().version = KVKEEP_VERSION;
  return report;
}

// Exit statuses: something is wrong; nothing is wrong, but a goal could not be judged on this machine.
constexpr int kWrong = 1;
constexpr int kUnmeasurable = 3;

Result<int> conclude(const BenchCommandOptions& options, const bench::Report& report,
                     const std::optional<bench::Report>& kept) {
  print(bench::to_table(report));
  TRY(write_reports(report, options.reports));
  if (!options.keep.empty()) {
    ReportFiles files;
    files.json = options.keep;
    TRY(write_reports(bench::counts_only(report), files));
  }
  bool wrong = !bench::problems_of(report).empty();
  if (kept) {
    const bool all = options.workloads.empty() && !options.no_workloads;
    const std::vector<std::string> worse =
        bench::regressions(report, *kept, all ? bench::Scope::kAll : bench::Scope::kChosen);
    for (const std::string& line : worse) print("REGRESSION: " + line + "\n");
    if (worse.empty()) print("No regression against " + options.check + ".\n");
    wrong = wrong || !worse.empty();
  }
  if (wrong) return kWrong;
  return bench::unmeasurable_parts(report).empty() ? 0 : kUnmeasurable;
}

}  // namespace

Result<int> run_bench(const BenchCommandOptions& options) {
  if (options.list) {
    print_list();
    return 0;
  }
  bench::Interrupt interrupt;
  const os::SignalWatch watch([&] { interrupt.raise(); });
  TRY_ASSIGN(const os::TemporaryDirectory directory, os::TemporaryDirectory::make("kvkeep-bench-model-"));
  const Result<Prepared> prepared = prepare(options, directory.path(), interrupt);
  Result<bench::Report> report =
      prepared ? measure(options, prepared->options, interrupt) : Result<bench::Report>(prepared.error());
  if (watch.exit_status() != 0) {
    print_error("kvkeep: interrupted\n");
    return watch.exit_status();
  }
  if (!report) return std::move(report).error();
  return conclude(options, *report, prepared->kept);
}

}  // namespace kvkeep::cli
