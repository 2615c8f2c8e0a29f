#include "bench/run/surroundings.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <vector>

#include "os/child_process.h"
#include "os/clock.h"
#include "os/file_system.h"
#include "os/machine.h"
#include "os/paths.h"
#include "os/process.h"

namespace kvkeep::bench {
namespace {

constexpr std::size_t kNamedPrograms = 3;
constexpr double kWorthNamingS = 0.5;

// `own` and its descendants. A parent may have any id, so that this repeats until nothing is added.
std::set<int> family_of(const std::vector<os::ProcessTime>& processes, int own) {
  std::set<int> family{own};
  for (std::size_t before = 0; before != family.size();) {
    before = family.size();
    for (const os::ProcessTime& process : processes) {
      if (family.contains(process.parent)) family.insert(process.id);
    }
  }
  return family;
}

// The same process at the earlier reading; all zeros if it began since then.
os::ProcessTime earlier(const os::ProcessorTimes& before, const os::ProcessTime& now) {
  for (const os::ProcessTime& process : before.processes) {
    if (process.id == now.id && process.started_ticks == now.started_ticks) return process;
  }
  return {};
}

struct Split {
  double own_s = 0;
  std::map<std::string, double> others_s;  // by name
};

Split split(const os::ProcessorTimes& before, const os::ProcessorTimes& after, int own) {
  const std::set<int> family = family_of(after.processes, own);
  Split out;
  for (const os::ProcessTime& now : after.processes) {
    const os::ProcessTime then = earlier(before, now);
    if (family.contains(now.id)) {
      out.own_s += now.cpu_s - then.cpu_s + now.children_cpu_s - then.children_cpu_s;
    } else {
      out.others_s[now.name] += now.cpu_s - then.cpu_s;
    }
  }
  return out;
}

std::string names_of(const std::map<std::string, double>& others_s) {
  std::vector<std::pair<double, std::string>> most;
  for (const auto& [name, seconds] : others_s) {
    if (seconds >= kWorthNamingS) most.emplace_back(seconds, name);
  }
  std::ranges::sort(most, std::greater<>());
  if (most.size() > kNamedPrograms) most.resize(kNamedPrograms);
  std::string names;
  for (const auto& [seconds, name] : most)
    names += fmt::format("{}{} {:.1f} s", names.empty() ? "" : ", ", name, seconds);
  return names;
}

std::string iso_time(std::int64_t wall_ns) {
  using namespace std::chrono;
  const sys_seconds time(duration_cast<seconds>(nanoseconds(wall_ns)));
  const auto day = floor<days>(time);
  const year_month_day date(day);
  const hh_mm_ss clock(time - day);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()), clock.hours().count(),
                     clock.minutes().count(), clock.seconds().count());
}

}  // namespace

std::string other_work(const os::ProcessorTimes& before, const os::ProcessorTimes& after, int own) {
  const double busy_s = after.busy_s - before.busy_s;
  const double stolen_s = after.stolen_s - before.stolen_s;
  const double all_s = busy_s + stolen_s + after.idle_s - before.idle_s;
  if (all_s <= 0) return {};
  const Split times = split(before, after, own);
  const double others_s = std::max(0.0, busy_s - times.own_s);
  std::string text = fmt::format("Other programs took {:.0f} % of the processors", 100 * others_s / all_s);
  if (const std::string names = names_of(times.others_s); !names.empty()) text += " (" + names + ")";
  const double stolen_percent = 100 * stolen_s / all_s;
  if (stolen_percent >= 0.5) text += fmt::format(", the virtual machine's host {:.0f} %", stolen_percent);
  return text + ".";
}

OtherWork::OtherWork() : before_(os::processor_times()) {}

std::string OtherWork::text() const {
  const auto after = os::processor_times();
  if (!before_ || !after) return {};
  return other_work(*before_, *after, os::process_id());
}

Report start_report() {
  const os::MachineInfo info = os::machine_info();
  Report report;
  report.started = iso_time(os::real_clock().wall_ns());
  report.machine = {.processor = info.processor,
                    .logical_cpus = info.logical_cpus,
                    .memory_bytes = info.memory.value(),
                    .system = info.system};
  return report;
}

namespace {

constexpr int kVersionMs = 10'000;
constexpr std::size_t kVersionBytesMax = 4'096;

}  // namespace

std::string version_in(std::string_view output, std::string_view program_name) {
  constexpr std::string_view kMark = "version: ";
  if (const auto mark = output.find(kMark); mark != std::string_view::npos) {
    output.remove_prefix(mark + kMark.size());
  } else if (output.starts_with(program_name) && output.substr(program_name.size()).starts_with(' ')) {
    output.remove_prefix(program_name.size() + 1);
  } else {
    return {};
  }
  return std::string(output.substr(0, output.find('\n')));
}

std::string version_of_program(const std::string& program, Interrupt& interrupt) {
  const auto directory = os::TemporaryDirectory::make("kvkeep-version-");
  if (!directory) return {};
  const std::string output = directory->path() + "/output";
  const auto child =
      os::start_child({.program = program, .arguments = {"--version"}, .environment = {}, .output_path = output});
  if (!child) return {};
  const Interrupt::Guard guard(interrupt, [&child] { (*child)->kill(); });
  if (!(*child)->wait(kVersionMs)) return {};
  const auto file = os::real_file_system().open(output);
  if (!file) return {};
  std::string text(kVersionBytesMax, '\0');
  const auto count = (*file)->read_at(0, std::as_writable_bytes(std::span(text)));
  text.resize(count ? *count : 0);
  return version_in(text, program.substr(program.rfind('/') + 1));
}

}  // namespace kvkeep::bench
