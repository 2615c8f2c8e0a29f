#pragma once

#include "bench/figures.h"

namespace kvkeep::bench {

// A report with what is known before anything is measured: the time and the machine.
Report start_report();

}  // namespace kvkeep::bench
