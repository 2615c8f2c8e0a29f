// `kvkeep doctor`: why prompts are read again, and what to do.

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <iostream>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "bench/sessions/diagnosis.h"
#include "cache_place.h"
#include "cache_setup.h"
#include "commands.h"
#include "doctor.h"
#include "inspect/cache_directory.h"
#include "named_files.h"
#include "os/clock.h"
#include "os/file_system.h"
#include "os/machine.h"
#include "os/process.h"
#include "server/trace/explanations.h"
#include "server/trace/savings.h"
#include "store/layout.h"
#include "text/terminal.h"

namespace kvkeep::cli {
namespace {

constexpr std::size_t kTestBytes = 32 << 20;
constexpr std::size_t kMostOffendersShown = 10;
constexpr std::size_t kMostRequestsShown = 200;
constexpr std::size_t kDoctorColumns = 100;

std::string date_text(std::int64_t wall_ns) {
  return fmt::format("{:%Y-%m-%d}", fmt::gmtime(static_cast<std::time_t>(wall_ns / 1'000'000'000)));
}

// Prints what is found, and remembers whether anything is wrong.
class Report {
 public:
  void title(const std::string& text) { print(fmt::format("{}{}\n", std::exchange(any_, true) ? "\n" : "", text)); }
  void add(const std::vector<Finding>& found) {
    for (const Finding& finding : found) {
      wrong_ |= finding.severity == Severity::kProblem;
      print(text::wrapped(text::printable(finding_line(finding), 1'000), kDoctorColumns, 6));
    }
  }
  void offenders(const explain::Offenders& offenders) {
    std::size_t shown = 0;
    for (const explain::Offender& offender : offenders.worst()) {
      if (++shown > kMostOffendersShown) break;
      std::string line = explain::offence_text(offender, offenders.requests_of(offender.client));
      if (offender.last_ns > 0) line += "; last seen " + date_text(offender.last_ns);
      print(text::wrapped(text::printable(fmt::format("{}. {}", shown, line), 1'000), kDoctorColumns, 6));
      if (const std::string_view advice = explain::offence_advice(offender); !advice.empty()) {
        print("      " + text::wrapped(advice, kDoctorColumns - 6, 6));
      }
    }
    if (shown == 0) add({judge_no_offender(!offenders.clients().empty())});
  }
  bool wrong() const { return wrong_; }

 private:
  bool any_ = false;
  bool wrong_ = false;
};

struct Totals {
  explain::Offenders offenders;
  std::vector<ModelSpeed> models;
};

ModelSpeed speed_of(const inspect::ModelDirectory& model) {
  ModelSpeed speed{.name = model.note && !model.note->name.empty() ? model.note->name : model.fingerprint.hex(8)};
  double bytes = 0;
  double tokens = 0;
  for (const store::FoundSegment& segment : model.files.segments) {
    bytes += static_cast<double>(segment.info.size.value());
    tokens += static_cast<double>(segment.header.tokens.size());
  }
  if (tokens > 0) speed.bytes_per_token = bytes / tokens;
  const std::string path = model.path + "/" + std::string(store::kWorkName);
  const server::Work work = server::read_kept_work(os::real_file_system(), path);
  if (work.prefill_ms > 0) {
    speed.prefill_tokens_per_s = static_cast<double>(work.prefilled_tokens) / work.prefill_ms * 1e3;
  }
  return speed;
}

Totals totals_of(const inspect::CacheDirectory& directory) {
  Totals totals;
  for (const inspect::ModelDirectory& model : directory.models) {
    const std::string path = model.path + "/" + std::string(store::kOffendersName);
    totals.offenders.merge(server::read_offenders(os::real_file_system(), path));
    totals.models.push_back(speed_of(model));
  }
  return totals;
}

DirectoryFacts facts_of(const inspect::CacheDirectory& directory, const os::Space& space, const TierOptions& tiers) {
  DirectoryFacts facts{.path = directory.root,
                       .used = {},
                       .budget = tiers.disk_budget,
                       .free = space.free,
                       .reserve = disk_reserve(tiers, space.total)};
  facts.servers = directory.servers;
  facts.models = directory.models.size();
  facts.quarantined = directory.quarantine.size();
  facts.foreign_names = directory.foreign_names;
  for (const inspect::ModelDirectory& model : directory.models) {
    if (model.distrust) ++facts.distrusted;
    for (const store::FoundSegment& segment : model.files.segments) {
      facts.used += os::physical_size(segment.info.size);
    }
  }
  return facts;
}

// Writes and reads a file of the directory, and removes it. It is read from the device: the kernel has a copy in
// memory, which would tell nothing of a state that was stored a while ago.
Result<SpeedFacts> measure(const std::string& root) {
  os::FileSystem& files = os::real_file_system();
  const std::string path = fmt::format("{}/doctor.{}{}", root, os::process_id(), store::kTemporarySuffix);
  std::vector<std::byte> bytes(kTestBytes);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 2654435761U >> 13);
  const auto rate = [](std::int64_t from_ns) {
    const double ms = os::elapsed_ms(from_ns, os::real_clock().monotonic_ns());
    return ms > 0 ? static_cast<double>(kTestBytes) / 1e3 / ms : 0;
  };
  SpeedFacts facts;
  const auto test = [&]() -> Status {
    TRY_ASSIGN(const std::unique_ptr<os::File> file, files.create(path));
    const std::int64_t write_ns = os::real_clock().monotonic_ns();
    TRY(file->append(bytes));
    TRY(file->sync());
    facts.write_mb_per_s = rate(write_ns);
    TRY_ASSIGN(facts.from_device, os::drop_from_page_cache(path));
    const std::int64_t read_ns = os::real_clock().monotonic_ns();
    TRY_ASSIGN(const std::size_t read, file->read_at(0, bytes));
    facts.read_mb_per_s = rate(read_ns);
    return read == bytes.size() ? Status() : io_error(path + ": a file that was just written is shorter now");
  };
  const Status tested = test();
  (void)files.remove(path);
  if (!tested) return tested.error();
  return facts;
}

void report_speed(const std::string& root, const Totals& totals, Report& report) {
  Result<SpeedFacts> speed = measure(root);
  if (!speed) {
    return report.add({{Severity::kProblem, "the directory cannot be written: " + speed.error().message}});
  }
  speed->models = totals.models;
  report.add(judge_speed(*speed));
}

Status report_directory(const DoctorOptions& options, Report& report) {
  report.title("Cache directory");
  CacheCommandOptions place;
  place.tiers = options.tiers;
  const Result<std::string> root = cache_root(place);
  if (!root) {
    report.add({{Severity::kNote, root.error().message}});
    return {};
  }
  TRY_ASSIGN(const inspect::CacheDirectory directory, inspect::read_directory(os::real_file_system(), *root));
  TRY_ASSIGN(const os::Space space, os::real_file_system().space(*root));
  report.add(judge_directory(facts_of(directory, space, options.tiers)));
  const Totals totals = totals_of(directory);
  if (options.tests_disk) report_speed(*root, totals, report);
  report.title("Texts that kept prompts from being reused");
  report.offenders(totals.offenders);
  if (directory.servers > 0) {
    report.add({{Severity::kNote,
                 "a running server adds its requests to this list after each 64 and when it stops; GET "
                 "/cache/offenders has them at once"}});
  }
  return {};
}

void print_request(std::size_t number, const bench::DiagnosedRequest& request) {
  std::string line = fmt::format("{:>4}  {}: {} of about {} tokens known", number, request.label,
                                 text::grouped(request.known), text::grouped(request.words));
  const explain::CacheBreak& found = request.found;
  if (found.kind != explain::BreakKind::kNone) {
    line += fmt::format("; {}", explain::to_string(found.kind));
    if (found.kind == explain::BreakKind::kVolatileText) line += fmt::format(" ({})", explain::to_string(found.what));
    line += fmt::format(" in {}", explain::place_name(found));
  }
  if (found.lost_tokens >= explain::kLeastLost) {
    line += fmt::format(", {} tokens again: here \"{}\", before \"{}\"", text::grouped(found.lost_tokens),
                        text::printable(request.here, 40), text::printable(request.there, 40));
  }
  print(text::wrapped(text::printable(line, 1'000), kDoctorColumns, 6));
}

Status report_recording(const std::string& file, Report& report) {
  TRY_ASSIGN(const std::string recording, read_recording(file));
  report.title(file == "-" ? "Standard input" : file);
  explain::Offenders traced;
  if (bench::add_trace(recording, traced)) {
    report.offenders(traced);
    return {};
  }
  TRY_ASSIGN(const bench::Session session, bench::parse_session(file, recording));
  const bench::Diagnosis diagnosis = bench::diagnose(session);
  std::size_t number = 0;
  for (const bench::DiagnosedRequest& request : diagnosis.requests) {
    if (++number <= kMostRequestsShown) print_request(number, request);
  }
  if (number > kMostRequestsShown) print(fmt::format("      {} more requests\n", number - kMostRequestsShown));
  report.offenders(diagnosis.offenders);
  return {};
}

}  // namespace

Result<int> run_doctor(const DoctorOptions& options) {
  Report report;
  TRY(report_directory(options, report));
  if (options.server) {
    report.title("Settings");
    report.add(judge_settings(*options.server));
  }
  for (const std::string& file : options.files) TRY(report_recording(file, report));
  return report.wrong() ? 1 : 0;
}

}  // namespace kvkeep::cli
