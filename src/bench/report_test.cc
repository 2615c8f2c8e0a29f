#include "bench/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "bench/report_fixture.h"
#include "bench/report_summary.h"
#include "bench/report_text.h"

namespace kvkeep::bench {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

std::vector<std::string> lines_of(const std::string& text, const std::string& end = "\n") {
  std::vector<std::string> lines;
  std::size_t at = 0;
  for (std::size_t found = text.find(end); found != std::string::npos; found = text.find(end, at)) {
    lines.push_back(text.substr(at, found - at));
    at = found + end.size();
  }
  if (at < text.size()) lines.push_back(text.substr(at));
  return lines;
}

// No byte of a terminal's control, no line end but our own, nothing that is not UTF-8.
void expect_clean(const std::string& text, const std::string& line_end) {
  for (const std::string& line : lines_of(text, line_end)) {
    ASSERT_EQ(printable(line, line.size() + 1), line);
  }
}

TEST(Summary, CountsFailuresAndBounds) {
  const Report report = small_report();
  const RunSummary own = summary_of(report.runs[0]);
  EXPECT_EQ(own.failed, 0u);
  EXPECT_EQ(own.ratio, 1.0);
  EXPECT_FALSE(own.above_bound);
  ASSERT_TRUE(own.ttft_ms);
  EXPECT_EQ(own.ttft_ms->low, 16.4375);
  EXPECT_EQ(own.ttft_ms->median, 24.375);
  EXPECT_EQ(own.ttft_ms->high, 32.3125);
  EXPECT_EQ(own.cached_tokens, 1000u);
  const RunSummary peer = summary_of(report.runs[1]);
  EXPECT_EQ(peer.failed, 1u);
  EXPECT_TRUE(peer.above_bound);
  ASSERT_TRUE(peer.ttft_ms);
  EXPECT_EQ(peer.ttft_ms->median, 42.5) << "the failed request has no time to the first token";
  EXPECT_EQ(cached_from(report.runs[0], "memory"), 1000u);
  EXPECT_EQ(cached_from(report.runs[0], "disk"), 0u);
}

TEST(Summary, NothingNewHasNoRatio) {
  RunFigures run;
  run.bound = 1.02;
  run.requests = {request_of("again", 10, 10, 0, 1)};
  EXPECT_EQ(summary_of(run).ratio, std::nullopt);
  EXPECT_FALSE(summary_of(run).above_bound);
}

TEST(Summary, ListsEverythingThatIsWrong) {
  EXPECT_THAT(problems_of(small_report()),
              ElementsAre("growing on llama-server (default cache): turn main 3: status 503, Loading model",
                          "growing on llama-server (default cache): ratio 1.847 is above its bound 1.020",
                          "lookup of a 100k-token prompt: 2.500 ms misses its goal <= 2 ms"));
  EXPECT_THAT(problems_of(realistic_report(false)), IsEmpty());
}

TEST(Summary, ComparesWithTheWorstOfRepeatedRuns) {
  Report report = small_report();
  report.runs.push_back(report.runs[0]);
  report.runs.back().requests[1].prefilled_tokens = 300;
  const Comparison comparison = compare(report);
  ASSERT_THAT(comparison.columns, ElementsAre("kvkeep", "llama-server (default cache)"));
  ASSERT_EQ(comparison.rows.size(), 1u);
  EXPECT_EQ(comparison.rows[0].cells[0], &report.runs[2]);
  EXPECT_EQ(comparison.rows[0].cells[1], &report.runs[1]);
}

TEST(Summary, RunsOfAWorkloadStandTogetherInTheOrderPlayed) {
  Report report;
  for (const char* workload : {"b", "a", "b", "a"}) report.runs.push_back(run_of(workload, "", "server"));
  const auto& runs = report.runs;
  EXPECT_THAT(by_workload(report), ElementsAre(&runs[0], &runs[2], &runs[1], &runs[3]));
}

TEST(Summary, MissingPairsAreEmpty) {
  Report report = small_report();
  report.runs[1].workload = "other";
  const Comparison comparison = compare(report);
  EXPECT_THAT(comparison.rows[0].cells, ElementsAre(&report.runs[0], nullptr));
  EXPECT_THAT(comparison.rows[1].cells, ElementsAre(nullptr, &report.runs[1]));
}

TEST(Thinned, TakesTheWorstOfNeighbours) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(thinned({1, 5, 2, 2, nan, 0}, 3), ElementsAre(1, 2, 5));
  EXPECT_THAT(thinned({3, 1}, 5), ElementsAre(0, 1));
  EXPECT_THAT(thinned({}, 5), IsEmpty());
  EXPECT_THAT(thinned({nan, nan, nan}, 1), ElementsAre(0));
}

TEST(Table, IsExactlyThis) {
  EXPECT_EQ(to_table(small_report()), R"(kvkeep bench, 2026-11-20T18:04:11Z
kvkeep 0.1.0, libllama 0.7.0, model small.gguf (llama, 12M parameters, F16)
2 x AMD EPYC, 24 GiB of memory, Debian GNU/Linux 12
kvkeep 0.1.0: serve -c 8192 -t 1 --restore always
llama-server 0.7.0 (build 11669): -c 8192 -t 1

Prefilled tokens / tokens never computed before (ideal); TTFT: median (quartiles); CPU: of the server's process
workload  server                            requests  ratio   bound  prefilled   ideal  cached      wall TTFT ms  CPU s
growing   kvkeep                                   2  1.000   1.020       1180    1180    1000  24.4 (16.4-32.3)  1.250
          llama-server (default cache)  3 (1 failed)  1.847!  1.020       2180*   1180       0  42.5 (41.8-43.2)      -
! above its bound
* as the server's replies say, not counted

part                                               median  unit                      quartiles  samples  goal
restoring 8,192 tokens in segments of 512 / bare…   0.780  ratio                0.750 to 0.800        9  >= 0.7   met
lookup of a 100k-token prompt                       2.500  ms                   2.250 to 2.750       15  <= 2 ms  MISSED
decode                                               1628  us of CPU per token    1600 to 1701       15

3 problems
- growing on llama-server (default cache): turn main 3: status 503, Loading model
- growing on llama-server (default cache): ratio 1.847 is above its bound 1.020
- lookup of a 100k-token prompt: 2.500 ms misses its goal <= 2 ms
)");
}

TEST(AllForms, SayWhereTheSumOfClaimsWasCounted) {
  Report report = small_report();
  EXPECT_THAT(to_table(report), Not(HasSubstr("counted at its engine")));
  report.runs[1].sum_was_counted = true;
  const std::string table = to_table(report);
  EXPECT_THAT(table, HasSubstr(" 2180= "));
  EXPECT_THAT(table, HasSubstr("\n= as the server's replies say, and in all as many as counted at its engine\n"));
  EXPECT_THAT(table, Not(HasSubstr("not counted")));
  EXPECT_THAT(to_markdown(report), HasSubstr("| reply, in all the engine |\n"));
  EXPECT_THAT(to_html(report), HasSubstr("as claimed, sum counted"));
  EXPECT_THAT(to_html(report), HasSubstr("as the server's replies say, in all as many as counted at its engine."));
  EXPECT_THAT(to_json(report), HasSubstr("\"sum_was_counted\": true"));
}

TEST(Html, HasQuartilesAndCpuTime) {
  EXPECT_THAT(to_html(small_report()), HasSubstr("<td>24.4<br><span class=\"soft\">16.4 to 32.3</span><td>1.250\n"));
}

TEST(Table, ShortensLongNames) {
  Report report = small_report();
  report.runs[0].workload = std::string(300, 'w');
  report.parts[0].name = std::string(300, 'p');
  const std::string table = to_table(report);
  EXPECT_THAT(table, HasSubstr("www…"));
  EXPECT_THAT(table, HasSubstr("ppp…"));
  for (const std::string& line : lines_of(table)) EXPECT_LE(columns_of(line), 120u) << line;
  EXPECT_THAT(table, HasSubstr(" 1.020 ")) << "figures stay whole";
}

TEST(Table, StaysWithin120ColumnsWhateverItShows) {
  for (const Report& report : {hostile_report(), realistic_report(true), huge_report(3, 50), Report{}}) {
    const std::string table = to_table(report);
    for (const std::string& line : lines_of(table)) ASSERT_LE(columns_of(line), 120u) << line;
    expect_clean(table, "\n");
  }
}

TEST(Csv, HasOneLinePerRequest) {
  const std::vector<std::string> lines = lines_of(to_csv(small_report()), "\r\n");
  ASSERT_EQ(lines.size(), 6u);
  EXPECT_EQ(
      lines[0],
      "workload,server,variant,counted_by,request,label,status,error,prompt_tokens,cached_tokens,prefilled_tokens,"
      "ideal_tokens,claimed_prefill,reply_tokens,cache_source,ttft_ms,total_ms,decode_tokens_per_second,"
      "run_ttft_low_quartile_ms,run_ttft_median_ms,run_ttft_high_quartile_ms,run_server_cpu_seconds");
  EXPECT_EQ(
      lines[2],
      "\"growing\",\"kvkeep\",\"\",engine,2,\"turn main 2\",200,\"\",1180,1000,180,180,180,24,\"memory-token\",8.500,"
      "199.000,126.00,16.438,24.375,32.312,1.250");
  EXPECT_EQ(lines[5],
            "\"growing\",\"llama-server\",\"default cache\",reply,3,\"turn main 3\",503,\"Loading "
            "model\",,,,,,,\"\",,,,41.750,"
            "42.500,43.250,");
}

// The cells of one line, read as RFC 4180 says.
std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> cells(1);
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (quoted && line[i] == '"' && i + 1 < line.size() && line[i + 1] == '"') {
      cells.back() += line[i++];
    } else if (line[i] == '"') {
      quoted = !quoted;
    } else if (line[i] == ',' && !quoted) {
      cells.emplace_back();
    } else {
      cells.back() += line[i];
    }
  }
  EXPECT_FALSE(quoted) << line;
  return cells;
}

TEST(Csv, HostileTextStaysInItsCell) {
  const std::string csv = to_csv(hostile_report());
  expect_clean(csv, "\r\n");
  for (const std::string& line : lines_of(csv, "\r\n")) {
    const std::vector<std::string> cells = cells_of(line);
    ASSERT_EQ(cells.size(), 22u) << line;
    EXPECT_LE(cells[7].size(), 8'000u);
  }
  EXPECT_THAT(csv, Not(HasSubstr("nan")));
  EXPECT_THAT(csv, Not(HasSubstr("inf")));
}

TEST(Csv, SpreadsheetsSeeNoFormula) {
  const auto cells = cells_of(lines_of(to_csv(hostile_report()), "\r\n").back());
  EXPECT_EQ(cells[0], "'=HYPERLINK(\"x\")");
  EXPECT_EQ(cells[1], "'-2+3");
  EXPECT_EQ(cells[5], "'@SUM(A1)");
  EXPECT_EQ(cells[7], "'  +1");
  EXPECT_EQ(cells[14], "' =1");
}

TEST(Markdown, HasTheTables) {
  const std::string text = to_markdown(small_report());
  EXPECT_THAT(text, HasSubstr("# kvkeep bench\n\n- Started: 2026-11-20T18:04:11Z\n"
                              "- Machine: 2 x AMD EPYC, 24 GiB of memory, Debian GNU/Linux 12\n"));
  EXPECT_THAT(text, HasSubstr("- Server llama-server: 0.7.0 (build 11669), flags: -c 8192 -t 1\n"));
  EXPECT_THAT(text, HasSubstr("| workload | kvkeep | llama-server (default cache) |\n|---|---:|---:|\n"
                              "| 12 growing turns | 1.000 | **1.847** (bound 1.020) (1 failed) |\n"));
  EXPECT_THAT(text, HasSubstr("| 12 growing turns | kvkeep | 2 | 2180 | 1180 | 1180 | 1000 | 1000 | 0 | 0 | 24.4 "
                              "(16.4-32.3) | 1.250 | engine "
                              "|\n"));
  EXPECT_THAT(text, HasSubstr("| restoring 8,192 tokens in segments of 512 / bare state_seq_set_data | 0.780 | "
                              "0.750 to 0.800 | 9 | >= 0.7 |\n"));
  EXPECT_THAT(text,
              HasSubstr("| lookup of a 100k-token prompt | 2.500 ms | 2.250 to 2.750 | 15 | <= 2 ms (**missed**) |\n"));
  EXPECT_THAT(text, HasSubstr("\n## Problems\n\n- growing on llama-server"));
}

// Cells of a Markdown row: bars that no backslash precedes.
std::size_t bars_of(const std::string& line) {
  std::size_t bars = 0;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '\\') {
      ++i;
    } else {
      bars += line[i] == '|' ? 1 : 0;
    }
  }
  return bars;
}

TEST(Markdown, HostileTextStaysInItsCell) {
  const std::string text = to_markdown(hostile_report());
  expect_clean(text, "\n");
  EXPECT_THAT(text, Not(testing::ContainsRegex("[^\\]<script")));
  EXPECT_THAT(text, Not(testing::ContainsRegex("[^\\]</style")));
  std::size_t bars = 0;
  for (const std::string& line : lines_of(text)) {
    const std::size_t before = std::exchange(bars, line.starts_with("|") ? bars_of(line) : 0);
    EXPECT_TRUE(before == 0 || bars == 0 || before == bars) << line;
  }
}

TEST(Markdown, AListItemBeginsNoHeading) {
  Report report = small_report();
  report.runs[1].workload = "# big";
  EXPECT_THAT(to_markdown(report), HasSubstr("\n- \\# big on llama-server"));
}

// A server that never answered measured nothing, which no form may show as a figure.
Report report_without_an_answer() {
  Report report = empty_report();
  RunFigures run = run_of("growing", "12 growing turns", "llama-server");
  run.problems = {"llama-server did not start"};
  report.runs.push_back(run);
  run.workload = "refused";
  run.title = "Refused";
  run.requests = {failed_request("turn main 1", 0, "no connection")};
  report.runs.push_back(run);
  report.problems = {"parity: llama-server did not start"};
  return report;
}

TEST(AllForms, WhatWasNotMeasuredIsNoFigure) {
  const Report report = report_without_an_answer();
  EXPECT_EQ(report.runs[0].ratio(), std::nullopt);
  const std::string table = to_table(report);
  EXPECT_THAT(table, testing::ContainsRegex("growing +llama-server +0 +- +- +- +- +- +-\n"));
  EXPECT_THAT(table, testing::ContainsRegex("refused +llama-server +1 \\(1 failed\\) +- +- +- +- +- +-\n"));
  const std::string markdown = to_markdown(report);
  EXPECT_THAT(markdown, HasSubstr("| 12 growing turns | - |\n| Refused | - (1 failed) |\n"));
  EXPECT_THAT(markdown,
              HasSubstr("| 12 growing turns | llama-server | 0 | - | - | - | - | - | - | - | - | - | engine |\n"));
  const std::string page = to_html(report);
  EXPECT_THAT(page, HasSubstr("<td>1<br><span class=\"bad\">1 failed</span><td>–<td>–<td>–<td>–<td>–\n"));
  EXPECT_THAT(page, HasSubstr(">0 requests, none was answered.<"));
  EXPECT_THAT(page, HasSubstr("none<td>–<td>–<td>–<td>–<td><td><td>–<td><td><td>\n"));
  EXPECT_THAT(to_csv(report), HasSubstr("\"no connection\",,,,,,,\"\",,,,,,,\r\n"));
  EXPECT_THAT(to_json(report), HasSubstr("\"ratio\": null"));
  for (const std::string& text : {table, markdown, page, to_csv(report)}) {
    EXPECT_THAT(text, Not(HasSubstr("0.000")));
  }
}

TEST(AllForms, ProblemsOfNoRunAreListed) {
  for (const auto form : {to_table, to_json, to_markdown, to_html}) {
    EXPECT_THAT(form(report_without_an_answer()), HasSubstr("parity: llama-server did not start"));
  }
  EXPECT_EQ(problems_of(report_without_an_answer()).back(), "parity: llama-server did not start");
}

TEST(Goals, AreMetOnTheirEdges) {
  const auto part = [](double value, Goal goal) { return summarize("name", "ratio", {value}, goal); };
  constexpr Goal kMost{Goal::Kind::kAtMost, 1.1};
  constexpr Goal kLeast{Goal::Kind::kAtLeast, 0.7};
  constexpr Goal kWithin{Goal::Kind::kWithin, 1, 1.1};
  EXPECT_EQ(part(1.1, kMost).goal, "<= 1.1");
  EXPECT_EQ(part(1.1, kMost).holds, true);
  EXPECT_EQ(part(1.11, kMost).holds, false);
  EXPECT_EQ(part(0.7, kLeast).goal, ">= 0.7");
  EXPECT_EQ(part(0.7, kLeast).holds, true);
  EXPECT_EQ(part(0.69, kLeast).holds, false);
  EXPECT_EQ(part(1, kWithin).goal, "1 to 1.1");
  EXPECT_EQ(part(1, kWithin).holds, true);
  EXPECT_EQ(part(1.1, kWithin).holds, true);
  EXPECT_EQ(part(0.99, kWithin).holds, false);
  EXPECT_EQ(part(1.11, kWithin).holds, false);
}

TEST(Goals, AreNotJudgedByFiguresThatSpreadAcrossThem) {
  const auto part = [](std::vector<double> values, Goal goal) { return summarize("name", "ratio", values, goal); };
  constexpr Goal kLeast{Goal::Kind::kAtLeast, 0.9};
  const PartFigures wide = part({0.67, 0.67, 0.93, 1.26, 1.26}, kLeast);
  EXPECT_EQ(wide.holds, std::nullopt);
  EXPECT_EQ(wide.unmeasurable, "its quartiles lie on both sides of the goal");
  EXPECT_EQ(wide.goal, ">= 0.9");
  EXPECT_EQ(part({0.1, 0.5, 0.8, 0.85, 5}, kLeast).holds, false) << "all but an outlier are on one side";
  EXPECT_EQ(part({0.1, 0.95, 0.97, 0.99, 5}, kLeast).holds, true);
  EXPECT_EQ(part({0.5, 0.6, 1, 1.2, 1.3}, {Goal::Kind::kAtMost, 1.1}).holds, std::nullopt);
  EXPECT_EQ(part({0.9, 0.9, 1.05, 1.2, 1.2}, {Goal::Kind::kWithin, 1, 1.1}).holds, std::nullopt);
  EXPECT_EQ(part({0.8, 0.8, 0.9, 0.95, 0.95}, {Goal::Kind::kWithin, 1, 1.1}).holds, false);
}

TEST(Goals, AreNotJudgedByWhatIsImpossible) {
  constexpr Goal kGoal{.kind = Goal::Kind::kAtLeast, .value = 0.9, .possible_most = 1.05};
  const PartFigures impossible = summarize("name", "ratio", {1.38, 1.39, 1.4}, kGoal);
  EXPECT_EQ(impossible.holds, std::nullopt);
  EXPECT_EQ(impossible.unmeasurable, "its median is above 1.05, the most that is possible");
  EXPECT_EQ(summarize("name", "ratio", {1.02, 1.03, 1.06}, kGoal).holds, true);
}

TEST(AllForms, SayWhatCouldNotBeMeasuredAndWhatElseRan) {
  Report report = small_report();
  report.parts[1].holds.reset();
  report.parts[1].unmeasurable = "its quartiles lie on both sides of the goal";
  report.other_work = "Other programs took 30 % of the processors (cc1plus 29.0 s).";
  const std::string table = to_table(report);
  EXPECT_THAT(table, HasSubstr("not measurable"));
  EXPECT_THAT(table, HasSubstr("Not measurable here"));
  EXPECT_THAT(to_markdown(report), HasSubstr("(not measurable here)"));
  EXPECT_THAT(to_html(report), HasSubstr("not measurable here"));
  for (const auto form : {to_table, to_json, to_markdown, to_html}) {
    EXPECT_THAT(form(report), HasSubstr("(cc1plus 29.0 s)"));
    EXPECT_THAT(form(report), Not(HasSubstr("misses its goal")));
  }
  EXPECT_THAT(unmeasurable_parts(report),
              testing::ElementsAre("lookup of a 100k-token prompt: 2.500 ms (2.250 to 2.750), goal <= 2 ms: its "
                                   "quartiles lie on both sides of the goal"));
  const auto again = read_json(to_json(report));
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(to_json(*again), to_json(report));
}

TEST(AllForms, ARatioIsNotShownWhereTheServerKnewTheTokensBefore) {
  Report report = small_report();
  report.runs[0].known_before = 900;
  EXPECT_EQ(report.runs[0].ratio(), std::nullopt);
  EXPECT_THAT(to_table(report), testing::ContainsRegex("growing +kvkeep +2 +- "));
  EXPECT_EQ(read_json(to_json(report))->runs[0].known_before, 900);
}

TEST(AllForms, AreTheSameEveryTime) {
  for (const auto form : {to_table, to_json, to_csv, to_markdown, to_html}) {
    EXPECT_EQ(form(realistic_report(true)), form(realistic_report(true)));
  }
}

TEST(AllForms, AnEmptyReportIsNoTrouble) {
  for (const auto form : {to_table, to_json, to_csv, to_markdown, to_html}) EXPECT_FALSE(form(Report{}).empty());
}

}  // namespace
}  // namespace kvkeep::bench
