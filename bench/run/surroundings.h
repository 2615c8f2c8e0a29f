#pragma once

// Time, machine and load by other programs: readers of wall times have to know them.

#include <string>

#include "bench/report/figures.h"
#include "os/processes.h"

namespace kvkeep::bench {

// One sentence on the time between two readings: the share of the processors that others had, the programs of theirs
// that took most, and the share that the host of a virtual machine kept. `own` and its descendants do not count, nor
// do their children that ended meanwhile. Pure.
std::string other_work(const os::ProcessorTimes& before, const os::ProcessorTimes& after, int own);

// From its making to text(). One thread.
class OtherWork {
 public:
  OtherWork();
  // Empty: the system does not tell.
  std::string text() const;

 private:
  Result<os::ProcessorTimes> before_;
};

// A report with what is known before anything is measured: the time and the machine.
Report start_report();

}  // namespace kvkeep::bench
