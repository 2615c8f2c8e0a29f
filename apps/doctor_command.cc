// `kvkeep doctor`: why prompts are read again, and what to do.

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "bench/sessions/diagnosis.h"
#include "cache_place.h"
#include "cache_setup.h"
#include "commands.h"
#include "doctor.h"
#include "doctor_report.h"
#include "inspect/cache_directory.h"
#include "named_files.h"
#include "os/clock.h"
#include "os/file_system.h"
#include "os/machine.h"
#include "os/process.h"
#include "output.h"
#include "server/trace/explanations.h"
#include "server/trace/savings.h"
#include "store/layout.h"

namespace kvkeep::cli {
namespace {

constexpr std::size_t kTestBytes = 32 << 20;

// Shows each section as soon as it is there, for the disk is measured for seconds; JSON is one text at the end.
class Report {
 public:
  explicit Report(bool json) : json_(json) {}

  void add(DoctorSection section) {
    if (!json_) print((sections_.empty() ? "" : "\n") + section_text(section));
    sections_.push_back(std::move(section));
  }
  int finish() const {
    if (json_) print(sections_json(sections_));
    return is_wrong(sections_) ? 1 : 0;
  }

 private:
  const bool json_;
  std::vector<DoctorSection> sections_;
};

void append(std::vector<Finding>& all, std::vector<Finding> more) {
  for (Finding& finding : more) all.push_back(std::move(finding));
}

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

std::vector<Finding> speed_findings(const std::string& root, const Totals& totals) {
  Result<SpeedFacts> speed = measure(root);
  if (!speed) return {{Severity::kProblem, "the directory cannot be written: " + speed.error().message}};
  speed->models = totals.models;
  return judge_speed(*speed);
}

Status report_directory(const DoctorOptions& options, Report& report) {
  DoctorSection found{.title = "Cache directory"};
  CacheCommandOptions place;
  place.tiers = options.tiers;
  const Result<std::string> root = cache_root(place);
  if (!root) {
    found.findings = {{Severity::kNote, root.error().message}};
    report.add(std::move(found));
    return {};
  }
  TRY_ASSIGN(const inspect::CacheDirectory directory, inspect::read_directory(os::real_file_system(), *root));
  TRY_ASSIGN(const os::Space space, os::real_file_system().space(*root));
  Totals totals = totals_of(directory);
  found.findings = judge_directory(facts_of(directory, space, options.tiers));
  if (options.tests_disk) append(found.findings, speed_findings(*root, totals));
  report.add(std::move(found));
  DoctorSection texts{.title = "Causes that kept prompts from being reused", .offenders = std::move(totals.offenders)};
  if (directory.servers > 0) {
    texts.findings = {{Severity::kNote,
                       "a running server adds its requests to this list after each 64 and when it stops; GET "
                       "/cache/offenders has them at once"}};
  }
  report.add(std::move(texts));
  return {};
}

// Recordings are looked at as if all were played on one server, one after the other.
Result<std::vector<DoctorSection>> recorded_sections(const DoctorOptions& options) {
  std::vector<DoctorSection> sections;
  bench::Diagnoser diagnoser(options.server && !options.server->stabilizers.billing_line);
  DoctorSection all{.title = fmt::format("All {} recordings", options.files.size()),
                    .misses = explain::Misses(),
                    .offenders = explain::Offenders()};
  for (const std::string& file : options.files) {
    TRY_ASSIGN(const std::string recording, read_recording(file));
    std::optional<bench::Diagnosis> found = bench::read_trace(recording);
    if (!found) {
      TRY_ASSIGN(const bench::Session session, bench::parse_session(file, recording));
      found = diagnoser.diagnose(session);
    }
    all.misses->merge(found->misses);
    all.offenders->merge(found->offenders);
    sections.push_back({.title = file == "-" ? "Standard input" : file,
                        .requests = std::move(found->requests),
                        .misses = std::move(found->misses),
                        .offenders = std::move(found->offenders)});
  }
  if (all.misses->requests() == 1 && !sections.empty()) {
    sections.back().findings = {
        {Severity::kNote,
         "one request tells little: there is none before it to compare it with. Name several files in the order in "
         "which they were sent, or ask the server that knows the others: POST /cache/lookup with this body"}};
  }
  if (options.files.size() > 1) sections.push_back(std::move(all));
  return sections;
}

}  // namespace

Result<int> run_doctor(const DoctorOptions& options) {
  // All are read before any is shown: a mistyped name should cost neither a test of the disk nor half a report.
  TRY_ASSIGN(std::vector<DoctorSection> recorded, recorded_sections(options));
  Report report(options.json);
  for (DoctorSection& section : recorded) report.add(std::move(section));
  // Who asks about recordings does not ask about this machine, which may be another one than theirs.
  const bool asks_of_directory = options.files.empty() || options.server || !options.tiers.disk_directory.empty();
  if (asks_of_directory) TRY(report_directory(options, report));
  if (options.server) report.add({.title = "Settings", .findings = judge_settings(*options.server)});
  return report.finish();
}

}  // namespace kvkeep::cli
