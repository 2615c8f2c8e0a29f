#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <regex>

#include "bench/html_page.h"
#include "bench/report.h"
#include "bench/report_fixture.h"
#include "bench/report_text.h"
#include "bench/svg_plot.h"

namespace kvkeep::bench {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

std::size_t count_of(const std::string& part, const std::string& text) {
  std::size_t count = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

std::string without_text(std::string text, const std::string& part) {
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part)) text.erase(at, part.size());
  return text;
}

// Nothing that would fetch anything, nothing that would run.
void expect_self_contained(const std::string& page) {
  const std::string rest = without_text(page, "href=\"data:,\"");
  for (const char* outside :
       {"http://", "https://", "src=", "href=", "url(", "@import", "<script", "<iframe", "<img", "javascript:"}) {
    EXPECT_THAT(rest, Not(HasSubstr(outside)));
  }
}

TEST(Html, ListsProblemsBeforeAnythingElse) {
  const std::string page = to_html(small_report());
  const std::size_t problems = page.find("id=\"problems\"");
  ASSERT_NE(problems, std::string::npos);
  EXPECT_LT(problems, page.find("id=\"summary\""));
  EXPECT_LT(page.find("id=\"summary\""), page.find("id=\"parts\""));
  EXPECT_LT(page.find("id=\"parts\""), page.find("id=\"runs\""));
  EXPECT_THAT(page,
              HasSubstr("<li>growing on llama-server (default cache): turn main 3: status 503, Loading model</li>"));
  EXPECT_THAT(to_html(realistic_report(false)), Not(HasSubstr("id=\"problems\"")));
}

TEST(Html, SaysWhatWasRun) {
  const std::string page = to_html(small_report());
  for (const char* text : {"2 × AMD EPYC, 24 GiB of memory, Debian GNU/Linux 12", "2026-11-20T18:04:11Z",
                           "small.gguf (llama, 12M parameters, F16)", "0.7.0 (build 11669)",
                           "<code>serve -c 8192 -t 1 --restore always</code>"}) {
    EXPECT_THAT(page, HasSubstr(text));
  }
}

TEST(Html, RatiosAboveTheirBoundsAreRedAndSaySo) {
  const std::string page = to_html(small_report());
  EXPECT_THAT(page, HasSubstr("<td class=\"bad\">1.847<td class=\"bars\">"));
  EXPECT_THAT(page, HasSubstr("<td class=\"bad\">1.020<br>exceeded"));
  EXPECT_THAT(page, HasSubstr("<td>1.000<td class=\"bars\">"));
  EXPECT_EQ(count_of("<rect class=\"excess\"", page), 1u);
  EXPECT_EQ(count_of("<rect class=\"front\"", page), 1u);
}

TEST(Html, HasTwoPlotsPerRun) {
  const std::string page = to_html(realistic_report(true));
  EXPECT_EQ(count_of("<svg class=\"plot\"", page), 48u);
  EXPECT_EQ(count_of("<svg class=\"bar\"", page), 24u);
  EXPECT_LE(page.size(), kMostPageBytes);
  EXPECT_THAT(page, Not(HasSubstr("too long for one page"))) << "a full run fits";
}

TEST(Html, NeedsNothingFromOutside) {
  for (const Report& report : {Report{}, small_report(), realistic_report(true), huge_report(2, 500)}) {
    expect_self_contained(to_html(report));
  }
}

TEST(Html, HostileTextIsText) {
  const std::string page = to_html(hostile_report());
  expect_self_contained(page);
  EXPECT_EQ(count_of("<script", page), 0u);
  EXPECT_EQ(count_of("</style>", page), 1u);
  EXPECT_EQ(count_of("</title>", page), 1u);
  EXPECT_THAT(page, Not(HasSubstr("<!--")));
  EXPECT_THAT(page, HasSubstr("&lt;script&gt;alert(1)&lt;/script&gt;&quot;&#39; onload=x"));
  std::string one_line = page;
  std::replace(one_line.begin(), one_line.end(), '\n', ' ');
  EXPECT_EQ(printable(one_line, one_line.size() + 1), one_line) << "controls and broken UTF-8 are gone";
  EXPECT_LE(page.size(), kMostPageBytes);
  EXPECT_THAT(page, Not(HasSubstr(std::string(1'000, 'x')))) << "errors of 100 kB are shortened";
}

TEST(Html, NumbersThatAreNotFiniteReachNoDrawing) {
  const std::string page = to_html(hostile_report());
  const std::regex attribute(" (d|x|y|width|height)=\"[^\"]*(nan|inf|e[+-]?[0-9])[^\"]*\"");
  std::smatch found;
  EXPECT_FALSE(std::regex_search(page, found, attribute)) << found.str().substr(0, 200);
}

TEST(Html, TenThousandRequestsAreThinnedAndThePageSaysSo) {
  Report report = huge_report(1, 10'000);
  report.runs.back().requests[4321].prefilled_tokens = 9'999'999;
  const std::string page = to_html(report);
  EXPECT_LE(page.size(), kMostPageBytes);
  EXPECT_THAT(page, HasSubstr("Of 10,000 requests the plots show 400 and the table 200: "));
  EXPECT_THAT(page, HasSubstr("<td class=\"bad\">9,999,999<td>")) << "the worst one is shown";
}

TEST(Html, AnyReportFits) {
  Report wide = hostile_report();
  for (int i = 0; i < 300; ++i) {
    wide.servers.push_back(wide.servers[0]);
    wide.parts.push_back(wide.parts[0]);
    wide.runs.push_back(wide.runs[static_cast<std::size_t>(i) % 7]);
    wide.runs.back().workload += std::to_string(i);
  }
  for (const Report& report : {wide, huge_report(70, 2'000)}) {
    const std::string page = to_html(report);
    EXPECT_LE(page.size(), kMostPageBytes);
    EXPECT_GT(page.size(), kMostPageBytes / 10) << "thinned more than needed";
    EXPECT_THAT(page, HasSubstr("too long for one page"));
    EXPECT_THAT(page, ContainsRegex("more runs are left out of this page"));
  }
}

TEST(Html, CoarserEndsAtOneOfEverything) {
  Detail detail;
  for (int steps = 0; detail != detail.coarser(); ++steps) {
    ASSERT_LT(steps, 30);
    detail = detail.coarser();
  }
  EXPECT_EQ(detail, (Detail{.points = 1, .rows = 1, .runs = 1, .characters = 40}));
}

TEST(Plot, TicksAreRoundAndFew) {
  EXPECT_EQ(tick_step(0, 4), 1);
  EXPECT_EQ(tick_step(4, 4), 1);
  EXPECT_EQ(tick_step(5, 4), 2);
  EXPECT_EQ(tick_step(1234, 4), 500);
  EXPECT_DOUBLE_EQ(tick_step(0.3, 4), 0.1);
  EXPECT_EQ(tick_step(std::numeric_limits<double>::infinity(), 4), 1);
  for (double largest = 1e-9; largest < 1e15; largest *= 1.7) {
    EXPECT_LE(largest / tick_step(largest, 4), 4.0001) << largest;
    EXPECT_GE(largest / tick_step(largest, 4), 1.5) << largest;
  }
}

TEST(Plot, ExcessIsDrawnAboveTheIdeal) {
  const std::string equal = bar_plot({{0, 100, 100}, {1, 40, 60}}, 2, "label");
  EXPECT_THAT(equal, Not(HasSubstr("excess")));
  const std::string more = bar_plot({{0, 100, 100}, {1, 80, 60}}, 2, "label");
  EXPECT_THAT(more, HasSubstr("<path class=\"excess\""));
}

TEST(Plot, FailedRequestsAreCrosses) {
  const std::string plot = dot_plot({{0, 10, false}, {1, 0, true}}, 2, "label \"<x>\"");
  EXPECT_THAT(plot, HasSubstr("<path class=\"dot\""));
  EXPECT_THAT(plot, HasSubstr("<path class=\"fault\""));
  EXPECT_THAT(plot, HasSubstr("aria-label=\"label &quot;&lt;x&gt;&quot;\""));
}

}  // namespace
}  // namespace kvkeep::bench
