#pragma once

// A report for people and for programs. Pure and deterministic: the same report always gives the same bytes.
//
// Names, errors and flags come from files and servers and may contain anything. On the terminal and on the page, bytes
// that are not UTF-8, control characters and marks that turn the direction of text are replaced, and long strings are
// shortened with an ellipsis. A number that is not finite reads "n/a" (JSON: null).

#include <string>
#include <string_view>

#include "base/result.h"
#include "bench/report/figures.h"

namespace kvkeep::bench {

// For a terminal, at most 120 columns wide: workloads against servers (ratio; prefilled, ideal and cached tokens;
// median TTFT), then the parts, then problems.
std::string to_table(const Report& report);
// A table of the same width: one line per request of a replayed session, at most 500 of them, and a total.
std::string to_request_table(const RunFigures& run);
// All figures, with stable keys, documented in docs/bench-report.md. Strings are complete; bytes that are not UTF-8
// become U+FFFD.
std::string to_json(const Report& report);
// Reads what to_json() wrote. kInvalid if a key is missing or has the wrong type; the error names it
// ("runs[2].requests[0].status: ..."). Unknown keys are ignored. Never throws.
Result<Report> read_json(std::string_view text);
// One self-contained page (no outside resource, no network) with the whole JSON, which it draws: ratio per workload and
// server, prefilled against ideal per request, TTFT per request. Light and dark.
std::string to_html(const Report& report);

}  // namespace kvkeep::bench
