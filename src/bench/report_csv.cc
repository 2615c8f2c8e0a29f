#include <fmt/format.h>

#include <cmath>

#include "bench/report.h"
#include "bench/report_summary.h"
#include "bench/report_text.h"

namespace kvkeep::bench {
namespace {

// Spreadsheets refuse cells above 32,767 characters, and errors may quote a whole page.
constexpr std::size_t kMostCellCharacters = 2'000;
constexpr std::string_view kHeader =
    "workload,server,variant,counted_by,request,label,status,error,prompt_tokens,cached_tokens,prefilled_tokens,"
    "ideal_tokens,claimed_prefill,reply_tokens,cache_source,ttft_ms,total_ms,decode_tokens_per_second,"
    "run_ttft_low_quartile_ms,run_ttft_median_ms,run_ttft_high_quartile_ms,run_server_cpu_seconds\r\n";

std::string text_cell(std::string_view text) {
  const std::string shown = printable(text, kMostCellCharacters);
  const std::size_t first = shown.find_first_not_of(' ');
  const bool formula = first != std::string::npos && std::string_view("=+-@").contains(shown[first]);
  std::string cell = formula ? "\"'" : "\"";
  for (const char byte : shown) cell.append(byte == '"' ? 2 : 1, byte);
  return cell + "\"";
}

std::string number_cell(double value, int digits) { return std::isfinite(value) ? fixed(value, digits) : ""; }

std::string number_cell(std::optional<std::uint64_t> value) { return value ? fmt::format("{}", *value) : ""; }

// The cells that every request of a run begins with.
std::string run_cells(const RunFigures& run) {
  return fmt::format("{},{},{},{}", text_cell(run.workload), text_cell(run.server), text_cell(run.variant),
                     run.counted_by == CountedBy::kEngine ? "engine" : "reply");
}

void add_request(std::string& out, const RequestFigures& request) {
  out += fmt::format(",{},{},{}", text_cell(request.label), request.status, text_cell(request.error));
  const auto count = [&](std::uint64_t value) { return number_cell(known(request, value)); };
  out += fmt::format(",{},{},{},{},{},{}", count(request.prompt_tokens), count(request.cached_tokens),
                     count(request.prefilled_tokens), count(request.ideal_tokens), number_cell(request.claimed_prefill),
                     count(request.reply_tokens));
  const auto time = [&](double value, int digits) {
    return value == 0 && failed(request) ? "" : number_cell(value, digits);
  };
  out += fmt::format(",{},{},{},{}", text_cell(request.cache_source), time(request.ttft_ms, 3),
                     time(request.total_ms, 3), time(request.decode_tokens_per_second, 2));
}

// The cells that every request of a run ends with.
std::string spread_cells(const RunFigures& run) {
  const std::optional<Quartiles> ttft_ms = summary_of(run).ttft_ms;
  const std::string cpu_s = run.server_cpu_s ? number_cell(*run.server_cpu_s, 3) : "";
  if (!ttft_ms) return ",,,," + cpu_s;
  return fmt::format(",{},{},{},{}", number_cell(ttft_ms->low, 3), number_cell(ttft_ms->median, 3),
                     number_cell(ttft_ms->high, 3), cpu_s);
}

}  // namespace

std::string to_csv(const Report& report) {
  std::string out(kHeader);
  for (const RunFigures& run : report.runs) {
    const std::string begin = run_cells(run);
    const std::string end = spread_cells(run);
    for (std::size_t i = 0; i < run.requests.size(); ++i) {
      out += fmt::format("{},{}", begin, i + 1);
      add_request(out, run.requests[i]);
      out += end + "\r\n";
    }
  }
  return out;
}

}  // namespace kvkeep::bench
