#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "bench/report/report.h"
#include "bench/report/report_fixture.h"
#include "bench/report/summary.h"
#include "text/terminal.h"

namespace kvkeep::bench {
namespace {

using testing::HasSubstr;
using testing::Not;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::size_t at = 0;
  for (std::size_t found = text.find('\n'); found != std::string::npos; found = text.find('\n', at)) {
    lines.push_back(text.substr(at, found - at));
    at = found + 1;
  }
  if (at < text.size()) lines.push_back(text.substr(at));
  return lines;
}

TEST(Table, IsExactlyThis) {
  EXPECT_EQ(
      to_table(small_report()),
      R"(kvkeep 1.00, llama-server (default cache) 1.85: tokens prefilled for each token that was never computed before
kvkeep bench, 2026-11-20T18:04:11Z
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
  EXPECT_THAT(table, HasSubstr("\n= as the server's replies say; their sum was counted at its engine\n"));
  EXPECT_THAT(table, Not(HasSubstr("not counted")));
  EXPECT_THAT(to_json(report), HasSubstr("\"sum_was_counted\": true"));
}

TEST(Table, ShortensLongNames) {
  Report report = small_report();
  report.runs[0].workload = std::string(300, 'w');
  report.parts[0].name = std::string(300, 'p');
  const std::string table = to_table(report);
  EXPECT_THAT(table, HasSubstr("www…"));
  EXPECT_THAT(table, HasSubstr("ppp…"));
  for (const std::string& line : lines_of(table)) EXPECT_LE(text::columns_of(line), 120u) << line;
  EXPECT_THAT(table, HasSubstr(" 1.020 ")) << "figures stay whole";
}

TEST(Table, StaysWithin120ColumnsWhateverItShows) {
  for (const Report& report : {hostile_report(), realistic_report(true), huge_report(3, 50), Report{}}) {
    const std::string table = to_table(report);
    for (const std::string& line : lines_of(table)) {
      ASSERT_LE(text::columns_of(line), 120u) << line;
      ASSERT_EQ(text::printable(line, line.size() + 1), line) << "no control of a terminal, nothing that is not UTF-8";
    }
  }
}

TEST(AllForms, AMissingMeasurementIsNoFigure) {
  const Report report = report_without_an_answer();
  EXPECT_EQ(report.runs[0].ratio(), std::nullopt);
  const std::string table = to_table(report);
  EXPECT_THAT(table, testing::ContainsRegex("growing +llama-server +0 +- +- +- +- +- +-\n"));
  EXPECT_THAT(table, testing::ContainsRegex("refused +llama-server +1 \\(1 failed\\) +- +- +- +- +- +-\n"));
  EXPECT_THAT(to_json(report), HasSubstr("\"ratio\": null"));
  EXPECT_THAT(table, Not(HasSubstr("0.000")));
}

TEST(AllForms, ARefusedWorkloadIsANoteAndNoProblem) {
  const Report report = report_with_a_refusal();
  EXPECT_EQ(report.runs[3].ratio(), std::nullopt);
  EXPECT_EQ(problems_of(report), std::vector<std::string>{});
  const std::string reason = "choices on llama-server: request 2 (turn main 2): status 400: raise -np";
  EXPECT_EQ(refusals_of(report), std::vector{reason});
  const std::string table = to_table(report);
  EXPECT_THAT(table, testing::ContainsRegex("llama-server +2 \\(refused\\) +- +- +- +- +- +-\n"));
  EXPECT_THAT(table, HasSubstr("\nNot played: the server refuses a request of the workload\n- " + reason + "\n"));
  const auto again = read_json(to_json(report));
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(refusals_of(*again), std::vector{reason});
}

TEST(AllForms, OpenWithWhatWasFound) {
  Report report = report_with_a_refusal();
  EXPECT_EQ(finding_of(report), "kvkeep 1.00, llama-server 1.85") << "the refused workload counts nothing";
  report.runs[3] = report.runs[0];
  report.runs[3].server = "llama-server";
  EXPECT_EQ(finding_of(report), "kvkeep 1.00, llama-server up to 1.85");
  EXPECT_TRUE(to_table(report).starts_with("kvkeep 1.00, llama-server up to 1.85: "));
  EXPECT_THAT(to_json(report), HasSubstr("\"finding\": \"kvkeep 1.00, llama-server up to 1.85\""));
  EXPECT_EQ(finding_of(report_without_an_answer()), "llama-server -");
  EXPECT_EQ(finding_of(Report{}), "");
}

TEST(AllForms, ProblemsOfNoRunAreListed) {
  for (const auto form : {to_table, to_json, to_html}) {
    EXPECT_THAT(form(report_without_an_answer()), HasSubstr("parity: llama-server did not start"));
  }
  EXPECT_EQ(problems_of(report_without_an_answer()).back(), "parity: llama-server did not start");
}

TEST(AllForms, SayWhatCouldNotBeMeasuredAndWhatElseRan) {
  Report report = small_report();
  report.parts[1].holds.reset();
  report.parts[1].unmeasurable = "its quartiles lie on both sides of the goal";
  report.other_work = "Other programs took 30 % of the processors (cc1plus 29.0 s).";
  const std::string table = to_table(report);
  EXPECT_THAT(table, HasSubstr("not measurable"));
  EXPECT_THAT(table, HasSubstr("Not measurable here"));
  for (const auto form : {to_table, to_json, to_html}) {
    EXPECT_THAT(form(report), HasSubstr("(cc1plus 29.0 s)"));
  }
  EXPECT_THAT(table, Not(HasSubstr("misses its goal")));
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
  for (const auto form : {to_table, to_json, to_html}) {
    EXPECT_EQ(form(realistic_report(true)), form(realistic_report(true)));
  }
}

TEST(AllForms, AnEmptyReportIsNoTrouble) {
  for (const auto form : {to_table, to_json, to_html}) EXPECT_FALSE(form(Report{}).empty());
}

TEST(Page, HoldsTheJsonAndNoNameEndsIt) {
  const std::string page = to_html(hostile_report());
  const std::string begin = "<script type=\"application/json\" id=\"report\">";
  const std::size_t from = page.find(begin) + begin.size();
  const std::string json = page.substr(from, page.find("</script>", from) - from);
  EXPECT_EQ(json.find('<'), std::string::npos);
  const auto again = read_json(json);
  ASSERT_TRUE(again.ok()) << again.error().message;
  EXPECT_EQ(to_json(*again), to_json(hostile_report()));
}

RequestFigures replayed(std::string label, int status, std::uint64_t prompt, std::uint64_t cached) {
  RequestFigures out;
  out.label = std::move(label);
  out.status = status;
  out.prompt_tokens = prompt;
  out.cached_tokens = cached;
  out.prefilled_tokens = prompt - cached;
  out.ideal_tokens = prompt - cached;
  out.reply_tokens = 3;
  out.ttft_ms = status == 200 ? 12.34 : 0;
  out.cache_source = "disk-token";
  return out;
}

TEST(RequestTable, ShowsEachRequestAndTheTotal) {
  RunFigures run;
  run.workload = "garden";
  run.title = "garden, 2 requests recorded";
  run.requests = {replayed("main turn 1", 200, 1000, 0), replayed("main turn 2", 200, 1200, 1000),
                  replayed("title", 400, 0, 0)};
  const std::string table = to_request_table(run);
  EXPECT_THAT(table, HasSubstr("garden, 2 requests recorded\n"));
  EXPECT_THAT(table, testing::ContainsRegex("main turn 2 +1200 +1000 +200 +200 +12.3 .*disk-token"));
  EXPECT_THAT(table, testing::ContainsRegex("title +- +- +- +- .*failed \\(400\\)"));
  EXPECT_THAT(table, testing::ContainsRegex("total of 3 +2200 +1000 +1200 +1200 +12.3 .*9 .*1 failed"));
}

TEST(RequestTable, IsNeverLongerThanATerminalCanShow) {
  RunFigures run;
  run.title = std::string(500, 't');
  run.requests.assign(2000, replayed(std::string(300, 'x') + "\n", 0, 4000000000, 1));
  const std::string table = to_request_table(run);
  EXPECT_THAT(table, HasSubstr("(1500 more requests)"));
  EXPECT_LT(std::ranges::count(table, '\n'), 520);
  std::size_t longest = 0, length = 0;
  for (const char c : table) {
    length = c == '\n' ? 0 : length + ((c & 0xC0) != 0x80 ? 1 : 0);
    longest = std::max(longest, length);
  }
  EXPECT_LE(longest, 120U);
}

}  // namespace
}  // namespace kvkeep::bench
