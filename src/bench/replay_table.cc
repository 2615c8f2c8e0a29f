#include "bench/replay_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "bench/report_summary.h"
#include "bench/report_text.h"
#include "bench/text_table.h"

namespace kvkeep::bench {
namespace {

constexpr std::size_t kMostColumns = 120;
constexpr std::size_t kMostRows = 500;
using enum TextTable::Align;

std::string result_of(const RequestFigures& request) {
  if (!failed(request)) return "";
  return request.status == 0 ? "failed" : fmt::format("failed ({})", request.status);
}

std::string milliseconds(double value_ms) { return value_ms == 0 ? "-" : fixed(value_ms, 1); }

std::vector<std::string> row_of(const RequestFigures& request) {
  const double rate = request.decode_tokens_per_second;
  const auto count = [&](std::uint64_t value) { return known(request, value) ? fmt::format("{}", value) : "-"; };
  return {printable(request.label, kMostNameCharacters),
          count(request.prompt_tokens),
          count(request.cached_tokens),
          count(request.prefilled_tokens),
          count(request.ideal_tokens),
          milliseconds(request.ttft_ms),
          milliseconds(request.total_ms),
          count(request.reply_tokens),
          rate == 0 ? "-" : measured(rate),
          printable(request.cache_source, kMostNameCharacters),
          result_of(request)};
}

std::vector<std::string> total_of(const RunFigures& run) {
  const RunSummary summary = summary_of(run);
  std::uint64_t reply_tokens = 0;
  for (const RequestFigures& request : run.requests) reply_tokens += request.reply_tokens;
  const auto count = [&](std::uint64_t tokens) { return summary.answered ? fmt::format("{}", tokens) : "-"; };
  return {fmt::format("total of {}", run.requests.size()),
          count(summary.prompt_tokens),
          count(summary.cached_tokens),
          count(summary.prefilled_tokens),
          count(summary.ideal_tokens),
          summary.ttft_ms ? fixed(summary.ttft_ms->median, 1) : "-",
          "",
          count(reply_tokens),
          "",
          "",
          summary.failed == 0 ? "" : fmt::format("{} failed", summary.failed)};
}

}  // namespace

std::string to_request_table(const RunFigures& run) {
  TextTable table({{"request", kLeft},
                   {"prompt"},
                   {"cached"},
                   {"prefilled"},
                   {"ideal"},
                   {"TTFT ms"},
                   {"all ms"},
                   {"reply"},
                   {"tokens/s"},
                   {"from", kLeft},
                   {"", kLeft}});
  const std::size_t shown = std::min(run.requests.size(), kMostRows);
  for (std::size_t i = 0; i < shown; ++i) table.add_row(row_of(run.requests[i]));
  table.add_row(total_of(run));
  std::string out = wrapped(printable(title_of(run), kMostNameCharacters), kMostColumns, 2) + table.text(kMostColumns);
  if (shown < run.requests.size()) out += fmt::format("({} more requests)\n", run.requests.size() - shown);
  return out;
}

}  // namespace kvkeep::bench
