// The report of a shared tier: everything that an engine tells, and nothing that it does not.

#include "share_report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace kvkeep::cli {
namespace {

ShareReport full_report() {
  return {.address = "valkey://cache.lan:6379",
          .answer_ms = 0.314,
          .facts = {.description = "valkey 9.1.2, 3 nodes",
                    .policy = "allkeys-lru",
                    .max_bytes = 32ull << 30,
                    .used_bytes = 3ull << 30,
                    .keys = 12'345,
                    .reads_found = 3'000,
                    .reads_missed = 1'000,
                    .warnings = {"set maxmemory"}}};
}

TEST(ShareReport, ShowsAllThatAnEngineTells) {
  EXPECT_EQ(share_text(full_report()),
            "valkey://cache.lan:6379: valkey 9.1.2, 3 nodes\n"
            "  answers in   0.31 ms\n"
            "  memory       3.0 GiB of 32 GiB, evicts allkeys-lru\n"
            "  keys         12,345, of all users\n"
            "  reads        3,000 of 4,000 found (75.0 %)\n"
            "  warning      set maxmemory\n");
  const auto json = nlohmann::json::parse(share_json(full_report()));
  EXPECT_EQ(json["keys"], 12'345);
  EXPECT_EQ(json["reads_missed"], 1'000);
  EXPECT_EQ(json["warnings"].size(), 1U);
}

TEST(ShareReport, LeavesOutTheRest) {
  const ShareReport little{.address = "s3://bucket", .answer_ms = 12, .facts = {.description = "S3 bucket"}};
  EXPECT_EQ(share_text(little), "s3://bucket: S3 bucket\n  answers in   12.00 ms\n");
  EXPECT_FALSE(nlohmann::json::parse(share_json(little)).contains("keys"));
}

TEST(ShareReport, SaysThatMemoryHasNoLimitAndThatNothingWasRead) {
  ShareReport report = full_report();
  report.facts.max_bytes = 0;
  report.facts.used_bytes = 3 << 19;
  report.facts.reads_found = report.facts.reads_missed = 0;
  EXPECT_NE(share_text(report).find("1.5 MiB without a limit, evicts"), std::string::npos);
  EXPECT_NE(share_text(report).find("none so far"), std::string::npos);
}

}  // namespace
}  // namespace kvkeep::cli
