#include "bench/run/report_start.h"

#include <fmt/format.h>

#include <chrono>

#include "os/clock.h"
#include "os/machine.h"

namespace kvkeep::bench {
namespace {

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

}  // namespace kvkeep::bench
