#pragma once

// A report as text, in five forms. Pure and deterministic: the same report gives the same bytes.
//
// Names, errors and flags come from files and servers and may hold anything. In every form but JSON, bytes that are not
// UTF-8, control characters and marks that turn the direction of text are replaced, and long strings are shortened with
// an ellipsis. A number that is not finite reads "n/a" (JSON: null; CSV: an empty cell).

#include <string>
#include <string_view>

#include "base/result.h"
#include "bench/figures.h"

namespace kvkeep::bench {

// No page of to_html() is longer than this.
inline constexpr std::size_t kMostPageBytes = 500'000;

// For a terminal: workloads against servers (ratio; prefilled, ideal and cached tokens; median TTFT), then the parts,
// then problems. At most 120 columns.
std::string to_table(const Report& report);
// Everything, stable keys, documented in docs/bench-report.md. Strings are kept whole; bytes that are not UTF-8 become
// U+FFFD.
std::string to_json(const Report& report);
// Takes back what to_json() wrote. kInvalid naming the key ("runs[2].requests[0].status: ...") where one is missing or
// has the wrong type; keys that are not known are ignored. Never throws.
Result<Report> read_json(std::string_view text);
// One line per request, with a header line; RFC 4180 (CRLF). Text cells are always quoted; one that a spreadsheet would
// take for a formula (first character other than a space is = + - @) gets an apostrophe before it.
std::string to_csv(const Report& report);
// Tables for docs/benchmarks.md.
std::string to_markdown(const Report& report);
// One self-contained page (no outside resource, no network, no script, at most kMostPageBytes whatever the report's
// size: long runs are thinned and say so), with plots as inline SVG: ratio per workload and server, prefilled against
// ideal per request, TTFT per request. Light and dark.
std::string to_html(const Report& report);

}  // namespace kvkeep::bench
