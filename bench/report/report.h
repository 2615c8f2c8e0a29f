#pragma once

// A report for people and for programs. Pure and deterministic: the same report gives the same bytes.
//
// Names, errors and flags come from files and servers and may hold anything. On the terminal and on the page, bytes
// that are not UTF-8, control characters and marks that turn the direction of text are replaced, and long strings are
// shortened with an ellipsis. A number that is not finite reads "n/a" (JSON: null).

#include <string>
#include <string_view>

#include "base/result.h"
#include "bench/report/figures.h"

namespace kvkeep::bench {

// For a terminal: workloads against servers (ratio; prefilled, ideal and cached tokens; median TTFT), then the parts,
// then problems. At most 120 columns.
std::string to_table(const Report& report);
// The same width: one line per request of a replayed session, at most 500 of them, and a total.
std::string to_request_table(const RunFigures& run);
// Everything, stable keys, documented in docs/bench-report.md. Strings are kept whole; bytes that are not UTF-8 become
// U+FFFD.
std::string to_json(const Report& report);
// Takes back what to_json() wrote. kInvalid naming the key ("runs[2].requests[0].status: ...") where one is missing or
// has the wrong type; keys that are not known are ignored. Never throws.
Result<Report> read_json(std::string_view text);
// One self-contained page (no outside resource, no network) that holds the JSON whole and draws it, with plots: ratio
// per workload and server, prefilled against ideal per request, TTFT per request. Light and dark.
std::string to_html(const Report& report);

}  // namespace kvkeep::bench
