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

TEST(ShareReport, FilesHaveASizeAndTakeNoMemory) {
  const ShareReport files{.address = "dir:/mnt/nas",
                          .answer_ms = 1,
                          .facts = {.description = "directory /mnt/nas",
                                    .policy = "used longest ago",
                                    .max_bytes = 4ull << 30,
                                    .used_bytes = 3ull << 30,
                                    .keys = 7,
                                    .is_on_disk = true}};
  EXPECT_EQ(share_text(files),
            "dir:/mnt/nas: directory /mnt/nas\n"
            "  answers in   1.00 ms\n"
            "  size         3.0 GiB of 4.0 GiB (the limit of this URL), evicts used longest ago\n"
            "  objects      7\n");
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

CarriedModels some_carried(Direction direction) {
  CarriedModel model{.fingerprint = "0123456789abcdef", .space = "00ff", .device = "CPU AVX2", .report = {}};
  model.report.carried = {3, ByteCount{3 << 20}};
  model.report.present = {1, ByteCount{1 << 19}};
  model.report.turns = 2;
  return {.direction = direction, .dry = false, .seconds = 1.5, .models = {model}};
}

TEST(CarriedReport, SaysWhatWasDone) {
  CarriedModels carried = some_carried(Direction::kPush);
  EXPECT_EQ(carried_text(carried),
            "0123456789ab (CPU AVX2), namespace 00ff\n"
            "  published    3 objects, 3.0 MiB, 2 sampled replies\n"
            "  there        1 object, 0.5 MiB\n");
  EXPECT_TRUE(carried.complete());
  const auto json = nlohmann::json::parse(carried_json(carried));
  EXPECT_EQ(json["models"][0]["published"]["objects"], 3);
  EXPECT_EQ(json["models"][0]["stopped"], nullptr);
  carried.dry = true;
  EXPECT_NE(carried_text(carried).find("would be     3 objects, 3.0 MiB published"), std::string::npos);
}

TEST(CarriedReport, SaysWhatWasNot) {
  CarriedModels carried = some_carried(Direction::kPull);
  carry::CarryReport& report = carried.models.front().report;
  report.left = {4, ByteCount{1 << 20}};
  EXPECT_TRUE(carried.complete()) << "a limit is what the user asked for";
  report.lost = {5, {}};
  report.turns_left = 6;
  for (int i = 0; i < 30; ++i) report.note_unusable("name" + std::to_string(i), "it is not authentic");
  report.stopped = "no answer in time";
  const std::string text = carried_text(carried);
  for (const char* words : {"added        3 objects", "left         4 objects", "no use       5", "6 left",
                            "name19: it", "and 10 more", "no answer in time; the same command goes on from here"}) {
    EXPECT_NE(text.find(words), std::string::npos) << words << " in " << text;
  }
  EXPECT_FALSE(carried.complete());
  const auto json = nlohmann::json::parse(carried_json(carried))["models"][0];
  EXPECT_EQ(json["added"]["bytes"], 3 << 20);
  EXPECT_EQ(json["unusable"], 30);
  EXPECT_EQ(json["findings"].size(), 20U);
}

TEST(NamespacesReport, ShowsWhoseStateItIs) {
  EXPECT_EQ(namespaces_text({}), "nothing is stored there\n");
  ListedNamespace own{.found = {.space = "00ff", .names = {{}, {}}}, .device = "CPU AVX2"};
  own.found.fingerprint.emplace();
  own.found.note.emplace().name = "tiny";
  const ListedNamespace foreign{.found = {.space = "11ff", .names = {{}}}, .device = "another device"};
  EXPECT_EQ(namespaces_text({own, foreign}),
            "00ff          2 objects  000000000000, CPU AVX2, tiny\n"
            "11ff          1 objects  another key, or damaged\n");
  const auto json = nlohmann::json::parse(namespaces_json({own, foreign}))["namespaces"];
  EXPECT_EQ(json[0]["name"], "tiny");
  EXPECT_EQ(json[1]["fingerprint"], nullptr);
}

}  // namespace
}  // namespace kvkeep::cli
