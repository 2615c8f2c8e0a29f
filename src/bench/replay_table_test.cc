#include "bench/replay_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace kvkeep::bench {
namespace {

using testing::HasSubstr;

RequestFigures request(std::string label, int status, std::uint64_t prompt, std::uint64_t cached) {
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
  run.requests = {request("main turn 1", 200, 1000, 0), request("main turn 2", 200, 1200, 1000),
                  request("title", 400, 0, 0)};
  const std::string table = to_request_table(run);
  EXPECT_THAT(table, HasSubstr("garden, 2 requests recorded\n"));
  EXPECT_THAT(table, testing::ContainsRegex("main turn 2 +1200 +1000 +200 +200 +12.3 .*disk-token"));
  EXPECT_THAT(table, testing::ContainsRegex("title +- +- +- +- .*failed \\(400\\)"));
  EXPECT_THAT(table, testing::ContainsRegex("total of 3 +2200 +1000 +1200 +1200 +12.3 .*9 .*1 failed"));
}

TEST(RequestTable, IsNeverLongerThanATerminalCanShow) {
  RunFigures run;
  run.title = std::string(500, 't');
  run.requests.assign(2000, request(std::string(300, 'x') + "\n", 0, 4000000000, 1));
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
