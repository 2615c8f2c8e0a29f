#include "inspect/print/print.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/media_ids.h"

namespace kvkeep::inspect {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;
constexpr std::int64_t kNow = 1'700'000'000 * kSecond;

RunView run(const char* id, std::size_t depth, std::uint32_t begin, std::uint32_t end, std::int64_t age_s) {
  RunView view;
  view.id = id;
  view.hash = std::string(id).append(56, '0');
  view.depth = depth;
  view.range = {Position{begin}, Position{end}};
  view.rows.add(mebibytes(3));
  view.used_ns = kNow - age_s * kSecond;
  return view;
}

CacheView example() {
  CacheView view;
  view.root = "/home/u/.cache/kvkeep";
  view.servers = 1;
  view.now_ns = kNow;
  view.budget = mebibytes(1000);
  view.used = mebibytes(250);
  view.quarantine.add(ByteCount{8192});
  ModelView model;
  model.fingerprint = std::string(64, 'a');
  model.note = ModelNote{.name = "tiny\x1b[2J",
                         .description = "llama 26M",
                         .path = "/m/tiny.gguf",
                         .settings = "-ctk q8_0\x1b -fa off",
                         .computed_by = "CPU, libllama 0.7.0"};
  model.pins = 1;
  model.tenants = 2;
  model.rows = {.files = 1200, .bytes = mebibytes(200)};
  model.points = {.files = 3, .bytes = mebibytes(42)};
  model.built = 2;
  model.temporaries.add(ByteCount{8192});
  model.all = {.files = 1204, .bytes = mebibytes(242)};
  model.tokens = 123'456;
  model.prefixes = 3;
  model.lost = 1;
  model.versions = {{1, 1201}, {2, 2}};
  model.oldest_use_ns = kNow - 9 * 86400 * kSecond;
  model.newest_use_ns = kNow - 5 * kSecond;
  model.runs = {run("11111111", 0, 0, 9000, 5), run("22222222", 1, 8192, 12'000, 300)};
  model.runs[0].words = "You are a helpful\n\x1b[31massistant";
  model.runs[1].parent = "11111111";
  model.runs[1].tenant = "77777777";
  model.runs[1].points.add(mebibytes(40));
  model.hidden = 1;
  view.models.push_back(model);
  return view;
}

TEST(Text, StatShowsTheFindingOfAnAudit) {
  CacheView view = example();
  EXPECT_EQ(stat_text(view).find("distrusted"), std::string::npos);
  view.models[0].distrust = "tokens 3 to 9\x1b[2J";
  EXPECT_NE(stat_text(view).find("  distrusted  tokens 3 to 9"), std::string::npos);
  EXPECT_EQ(stat_text(view).find('\x1b'), std::string::npos);
  EXPECT_EQ(nlohmann::json::parse(stat_json(view))["models"][0]["distrusted"], "tokens 3 to 9\x1b[2J");
}

TEST(Text, WhatServersLeaveAloneIsNamed) {
  CacheView view = example();
  EXPECT_EQ(stat_text(view).find("set aside"), std::string::npos);
  view.models[0].set_aside = {.files = 2, .bytes = mebibytes(3)};
  view.models[0].runs[0].set_aside = view.models[0].runs[0].pinned = true;
  EXPECT_NE(stat_text(view).find("  set aside   2 files, 3.0 MiB: an earlier version named them"), std::string::npos);
  const std::string list = list_text(view, 200);
  EXPECT_NE(list.find("set aside"), std::string::npos);
  EXPECT_EQ(list.find("pinned"), std::string::npos);
  const auto stat = nlohmann::json::parse(stat_json(view))["models"][0];
  EXPECT_EQ(stat["set_aside"]["files"], 2);
  const auto listed = nlohmann::json::parse(list_json(view))["prefixes"];
  EXPECT_EQ(listed[0]["set_aside"], true);
  EXPECT_EQ(listed[1]["set_aside"], false);
}

TEST(Text, StatShowsModels) {
  EXPECT_EQ(stat_text(example()), R"(/home/u/.cache/kvkeep
  server      one is running on it
  size        250.0 MiB of 1000.0 MiB (25.0 %)
  quarantine  1 file, 8 KiB

aaaaaaaaaaaa tiny�[2J (llama 26M)
  tokens      123,456 in 3 prefixes
  files       1,200 of rows, 3 points (2 built)
  size        242.0 MiB (24.2 % of the budget)
  last used   just now (the oldest 9 days ago)
  pinned      1 prefix
  settings    -ctk q8_0� -fa off
  made by     CPU, libllama 0.7.0
  file        /m/tiny.gguf
  tenants     2
  format      1,201 of version 1, 2 of version 2
  trouble     1 below nothing, 1 unfinished
)");
}

// Without a flag there is no budget.
TEST(Text, StatWithoutABudgetShowsOnlyTheSize) {
  CacheView view = example();
  view.budget.reset();
  view.servers = 2;
  const std::string text = stat_text(view);
  EXPECT_NE(text.find("  server      2 are running on it\n  size        250.0 MiB\n"), std::string::npos) << text;
  EXPECT_NE(text.find("  size        242.0 MiB\n"), std::string::npos) << text;
  EXPECT_EQ(text.find("budget"), std::string::npos) << text;
  const auto json = nlohmann::json::parse(stat_json(view));
  EXPECT_FALSE(json.contains("budget_bytes"));
  EXPECT_EQ(json["servers"], 2);
  EXPECT_EQ(nlohmann::json::parse(stat_json(example()))["budget_bytes"], mebibytes(1000).value());
}

TEST(Text, AnEmptyDirectoryShowsNothing) {
  CacheView view;
  view.root = "/c";
  EXPECT_NE(stat_text(view).find("nothing is stored here"), std::string::npos);
  EXPECT_EQ(list_text(view, 100), "nothing is stored here\n");
}

TEST(Text, AListShowsTheTree) {
  EXPECT_EQ(list_text(example(), 100), R"(aaaaaaaaaaaa tiny�[2J (llama 26M), -ctk q8_0� -fa off: 3 prefixes, 242.0 MiB
ID          TOKENS     NEW      SIZE  USED       POINTS   TENANT    TEXT
11111111     9,000           3.0 MiB  just now   -                  You are a helpful �[31massistant
  22222222  12,000  +3,808  43.0 MiB  5 min ago  1 point  77777777
... and 1 more
)");
  CacheView alone = example();
  alone.models[0].note->settings = "default";
  EXPECT_NE(list_text(alone, 100).find("(llama 26M): 3 prefixes"), std::string::npos);
  alone.models[0].tenants = 0;
  EXPECT_EQ(list_text(alone, 100).find("TENANT"), std::string::npos);
  alone.models[0].prefixes = 0;
  EXPECT_EQ(list_text(alone, 100), "nothing is stored here\n") << "its directory stays while a server runs";
}

TEST(Text, Ages) {
  EXPECT_EQ(age_text(kNow + kSecond, kNow), "just now");
  EXPECT_EQ(age_text(kNow - 3599 * kSecond, kNow), "59 min ago");
  EXPECT_EQ(age_text(kNow - 47 * 3600 * kSecond, kNow), "47 h ago");
  EXPECT_EQ(age_text(kNow - 48 * 3600 * kSecond, kNow), "2 days ago");
}

VerifyReport damaged_report() {
  VerifyReport report;
  report.files = 40;
  report.read = mebibytes(2000);
  report.vanished = 1;
  report.findings.push_back(
      {Trouble::kDamaged, "/c/" + std::string(64, 'b'), "x.kvs", mebibytes(1), "payload checksum", {}});
  for (int i = 0; i < 22; ++i) {
    report.findings.push_back({Trouble::kOrphan, "/c/" + std::string(64, 'b'), "y.kvs", mebibytes(1), "lost", {}});
  }
  return report;
}

TEST(Text, OneFindingIsSingular) {
  VerifyReport report;
  report.files = 2;
  report.findings.resize(1);
  EXPECT_NE(verify_text(report, std::nullopt, 1).find(": 1 file is not as it should be\n"), std::string::npos);
}

TEST(Text, VerifyShowsFindingsAndRate) {
  VerifyReport clean;
  clean.files = 1;
  clean.read = mebibytes(1000);
  EXPECT_EQ(verify_text(clean, std::nullopt, 0.5), "1 file read, 1000.0 MiB in 0.5 s (2.10 GB/s): all whole\n");
  const std::string text = verify_text(damaged_report(), std::nullopt, 1);
  EXPECT_TRUE(text.starts_with("damaged    bbbbbbbbbbbb/x.kvs (1.0 MiB): payload checksum\norphan  "));
  EXPECT_NE(text.find("... and 2 more orphans\n"), std::string::npos);
  EXPECT_NE(text.find("23 files are not as they should be"), std::string::npos);
  EXPECT_NE(text.find("1 file was gone while this ran"), std::string::npos);
  EXPECT_NE(text.find("--repair"), std::string::npos);
  const std::string repaired =
      verify_text(damaged_report(), RepairReport{.set_aside = 1, .removed = 22, .freed = mebibytes(22)}, 1);
  EXPECT_NE(repaired.find("set aside 1 damaged file, removed 22 orphans (22.0 MiB)\n"), std::string::npos) << repaired;
}

TEST(Text, ARemovalShowsTheFilesItLeaves) {
  RemovalReport report;
  report.removed[Why::kAsked] = {.files = 3, .bytes = mebibytes(2)};
  report.left.useless = {.files = 2, .bytes = mebibytes(1)};
  const std::string text = removal_text(report, false);
  EXPECT_EQ(std::ranges::count(text, '\n'), 2) << text;
  EXPECT_NE(text.find("stay: 2 of no use (kvkeep cache gc)\n"), std::string::npos) << text;
  report.left.quarantine.add(mebibytes(1));
  report.left.unread.add(mebibytes(1));
  EXPECT_NE(removal_text(report, false)
                .find("(kvkeep cache gc), 1 in quarantine (kvkeep cache gc --all), 1 that could not be read (kvkeep "
                      "cache rm --model)\n"),
            std::string::npos);
  const nlohmann::json json = nlohmann::json::parse(removal_json(report, false));
  EXPECT_EQ(json["left"]["useless"]["files"], 2);
  EXPECT_EQ(json["left"]["quarantine"]["files"], 1);
  EXPECT_EQ(json["left"]["unreadable"]["files"], 1);
}

TEST(Text, ConversationsThatNobodyNamedAreTold) {
  RemovalReport report;
  report.others = 2;
  EXPECT_TRUE(
      removal_text(report, true)
          .ends_with("\namong them 2 conversations that no id names: each leaves one of the lines before its end\n"));
  EXPECT_EQ(nlohmann::json::parse(removal_json(report, true))["others"], 2);
  const ExportReport exported{.prefixes = 1, .others = 1, .foreign_tokens = 300};
  EXPECT_EQ(export_text(exported, "a"),
            "1 line with 0 files (0 KiB) to a\n"
            "with 300 tokens of other conversations, at the ends of files that the exported ones share\n"
            "without 1 conversation that no id names: each leaves one of the lines before its end\n");
  EXPECT_EQ(nlohmann::json::parse(export_json(exported))["foreign_tokens"], 300);
}

TEST(Text, ARemovalShowsCountsByReason) {
  RemovalReport report;
  EXPECT_EQ(removal_text(report, false), "removed 0 files (0 KiB)\n");
  report.removed[Why::kAsked] = {.files = 3, .bytes = mebibytes(2)};
  EXPECT_EQ(removal_text(report, true), "would remove 3 files (2.0 MiB)\n");
  report.removed[Why::kOrphan].add(mebibytes(1));
  report.failed = 1;
  EXPECT_EQ(removal_text(report, false), "removed 4 files (3.0 MiB): 3 asked, 1 orphan; 1 file could not be removed\n");
  const auto json = nlohmann::json::parse(removal_json(report, true));
  EXPECT_EQ(json["removed"]["files"], 4);
  EXPECT_EQ(json["reasons"]["orphan"]["files"], 1);
  EXPECT_EQ(json["dry_run"], true);
}

PrefixView example_prefix() {
  PrefixView view;
  view.fingerprint = std::string(64, 'a');
  view.run = run("22222222", 1, 8, 12, 300);
  view.path = {"11111111", "22222222"};
  FileView file;
  file.name = "x.kvs";
  file.kind = "rows";
  file.range = {Position{8}, Position{12}};
  file.bytes = mebibytes(3);
  file.sum = "00ff";
  file.version = 1;
  file.sampled = true;
  file.modified_ns = kNow - 300 * kSecond;
  view.files.push_back(file);
  view.ids = {5, 6, 7};
  return view;
}

TEST(Text, APrefixShowsItsFiles) {
  EXPECT_EQ(show_text(example_prefix(), kNow, true, "the\ntext"), std::string(R"(22222222
  hash        22222222)")
                                                                          .append(56, '0') +
                                                                      R"(
  model       aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa
  path        11111111 > 22222222
  tokens      12, of which 4 from 8 on are its own
  size        3.0 MiB in 1 file
  last used   5 min ago

  rows               8 .. 12          3.0 MiB  5 min ago, sampled
    x.kvs
    sum 00ff

5 6 7

the
text
)");
  EXPECT_EQ(show_text(example_prefix(), kNow, false, std::nullopt).find("5 6 7"), std::string::npos);
  const auto json = nlohmann::json::parse(show_json(example_prefix(), false, std::nullopt));
  EXPECT_FALSE(json.contains("text") || json.contains("ids"));
  EXPECT_EQ(json["files"][0]["kind"], "rows");
  const auto all = nlohmann::json::parse(show_json(example_prefix(), true, "a\xff"));
  EXPECT_EQ(all["ids"].size(), 3U);
  EXPECT_TRUE(all["text"].is_string());
}

TEST(Text, OfAPrefixTellsItsPicturesAndSounds) {
  PrefixView view = example_prefix();
  const std::vector<TokenId> picture = media_ids({}, 0, {64, 8, true});
  const std::vector<TokenId> sound = media_ids({}, 1, {1, 1, false, true});
  view.ids = {5};
  view.ids.insert(view.ids.end(), picture.begin(), picture.end());
  view.ids.insert(view.ids.end(), sound.begin(), sound.end());
  const std::string text = show_text(view, kNow, false, std::nullopt);
  const auto has = [&text](const std::string& line) { return text.find(line) != std::string::npos; };
  EXPECT_TRUE(has("\n\n  " + media_name(picture) + "         1 .. 65       64 cells, 8 positions\n")) << text;
  EXPECT_TRUE(has("\n  " + media_name(sound) + "          65 .. 71       1 cell, 1 position\n")) << text;
  const auto json = nlohmann::json::parse(show_json(view, false, std::nullopt));
  ASSERT_EQ(json["media"].size(), 2U);
  const auto& first = json["media"][0];
  EXPECT_EQ(first["name"], media_name(picture));
  EXPECT_EQ(first["begin"], 1);
  EXPECT_EQ(first["end"], 65);
  EXPECT_EQ(first["cells"], 64);
  EXPECT_EQ(first["positions"], 8);
  EXPECT_TRUE(nlohmann::json::parse(show_json(example_prefix(), false, std::nullopt))["media"].empty());
}

TEST(Text, ForATerminalIsHarmless) {
  EXPECT_EQ(harmless("a\tb\n\x1b[2Jc\r\n"), "a\tb\n\uFFFD[2Jc \n");
  EXPECT_EQ(harmless(""), "");
}

TEST(Json, HasTheFigures) {
  const auto stat = nlohmann::json::parse(stat_json(example()));
  EXPECT_EQ(stat["version"], kJsonVersion);
  EXPECT_EQ(stat["server_running"], true);
  EXPECT_EQ(stat["models"][0]["tokens"], 123'456);
  EXPECT_EQ(stat["models"][0]["model"]["path"], "/m/tiny.gguf");
  EXPECT_EQ(stat["models"][0]["model"]["settings"], "-ctk q8_0\x1b -fa off");
  EXPECT_EQ(stat["models"][0]["model"]["computed_by"], "CPU, libllama 0.7.0");
  EXPECT_EQ(stat["models"][0]["pins"], 1);
  EXPECT_EQ(stat["models"][0]["points"]["files"], 3);
  EXPECT_EQ(stat["models"][0]["format_versions"]["2"], 2);
  const auto list = nlohmann::json::parse(list_json(example()));
  EXPECT_EQ(list["prefixes"].size(), 2U);
  EXPECT_EQ(stat["models"][0]["tenants"], 2);
  EXPECT_EQ(list["prefixes"][0]["parent"], nullptr);
  EXPECT_EQ(list["prefixes"][0]["tenant"], nullptr);
  EXPECT_EQ(list["prefixes"][1]["tenant"], "77777777");
  EXPECT_EQ(list["prefixes"][1]["parent"], "11111111");
  EXPECT_EQ(list["prefixes"][1]["begin"], 8192);
  EXPECT_EQ(list["hidden"], 1);
  const auto report = nlohmann::json::parse(verify_json(damaged_report(), std::nullopt, 2));
  EXPECT_EQ(report["findings"][0]["trouble"], "damaged");
  EXPECT_EQ(report["repaired"], nullptr);
}

}  // namespace
}  // namespace kvkeep::inspect
