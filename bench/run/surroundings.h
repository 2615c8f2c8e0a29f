#pragma once

// Time, machine and load by other programs: readers of wall times need to know them.

#include <string>

#include "bench/report/figures.h"
#include "os/machine.h"

namespace kvkeep::bench {

// Returns one sentence on the time between two readings: the share of the processors that other programs used, those
// that used most, and the share that the host of a virtual machine kept. `own` and its descendants do not count, nor do
// their children that ended meanwhile. Pure.
std::string other_work(const os::ProcessorTimes& before, const os::ProcessorTimes& after, int own);

// Measures from its construction to text(). One thread.
class OtherWork {
 public:
  OtherWork();
  // Returns "" if the system does not report it.
  std::string text() const;

 private:
  Result<os::ProcessorTimes> before_;
};

// Returns a report with the facts known before any measurement: the time and the machine.
Report start_report();

}  // namespace kvkeep::bench
