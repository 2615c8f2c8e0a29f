#pragma once

// The surroundings of a measurement: time, machine, load by other programs, and the versions of the programs. Readers
// of wall times need to know them.

#include <string>
#include <string_view>

#include "bench/report/figures.h"
#include "bench/run/interrupt.h"
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

// Returns the version in the output of `--version` of a program of that name: the text after "version: " (llama-server
// prints it after lines about its devices), or after the program's own name ("kvkeep 0.1.0"). "" if neither is there:
// an interpreter's or a wrapper's version is not that of the server it runs.
std::string version_in(std::string_view output, std::string_view program_name);

// Runs `program --version`, for some seconds at most. "" if it printed none. An empty `program` is this one.
std::string version_of_program(const std::string& program, Interrupt& interrupt);

}  // namespace kvkeep::bench
