#include "server/trace/explanations.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "testing/sim/sim_executor.h"
#include "testing/sim/sim_file_system.h"

namespace kvkeep::server {
namespace {

using explain::BreakKind;

const Explanations::Wanted kAll = [](const ExplainedRequest&) { return true; };

ExplainedRequest explained(const std::string& id, std::size_t lost = 640, const Tenant& tenant = kNoTenant) {
  auto found = std::make_shared<FoundBreak>();
  found->found = {.kind = BreakKind::kVolatileText,
                  .at = Position{8},
                  .has_place = true,
                  .place = {PromptField::kContent, PromptRole::kSystem, 0},
                  .what = explain::VolatileText::kDate,
                  .lost_tokens = lost,
                  .differs = true};
  found->texts = {.before = "Today is ", .here = "May 5", .there = "May 4", .shows_there = false};
  found->line = "Today is ";
  JobStats stats;
  stats.prompt_tokens = 1'000;
  stats.cached_tokens = 8;
  stats.prefilled_tokens = 992;
  stats.prompt_ms = 100;
  return {.id = id,
          .kind = "chat",
          .owner = 1,
          .tenant = tenant,
          .client = "agent",
          .ended_ns = 5'000'000'000,
          .stats = stats,
          .found = std::move(found)};
}

struct OnDisk {
  ExplanationsOptions options(std::size_t every = 64) {
    return {.most_requests = 4, .path = "/cache/offenders", .may_write = {}, .write_every = every};
  }
  sim::SimFileSystem files;
  sim::SimExecutor executor;
};

TEST(Explanations, RememberTheLast) {
  OnDisk disk;
  Explanations kept({.most_requests = 4}, disk.files, disk.executor);
  for (int i = 0; i < 6; ++i) kept.on_explained(explained(std::to_string(i)));
  const auto last = kept.last(3, kAll);
  ASSERT_EQ(last.size(), 3U);
  EXPECT_EQ(last[0].id, "5");
  EXPECT_EQ(last[2].id, "3");
  EXPECT_EQ(kept.last(100, kAll).size(), 4U);
  EXPECT_TRUE(kept.find("2", kAll));
  EXPECT_FALSE(kept.find("1", kAll)) << "it came too long ago";
  const auto others = [](const ExplainedRequest& request) { return request.owner != 1; };
  EXPECT_FALSE(kept.find("5", others)) << "it is not for everyone";
  EXPECT_TRUE(kept.last(4, others).empty());
}

TEST(Explanations, OffendersOutliveTheProcess) {
  OnDisk disk;
  ASSERT_TRUE(disk.files.make_directories("/cache").ok());
  for (int run = 0; run < 3; ++run) {
    Explanations kept(disk.options(), disk.files, disk.executor);
    kept.on_explained(explained("a"));
    kept.on_explained(explained("b", 0));
  }
  const explain::Offenders read = read_offenders(disk.files, "/cache/offenders");
  ASSERT_EQ(read.worst().size(), 1U);
  EXPECT_EQ(read.worst()[0].times, 3U);
  EXPECT_EQ(read.worst()[0].lost_tokens, 3 * 640U);
  EXPECT_EQ(read.worst()[0].line, "Today is");
  EXPECT_EQ(read.requests_of("agent"), 6U);
}

TEST(Explanations, AreWrittenNowAndThen) {
  OnDisk disk;
  ASSERT_TRUE(disk.files.make_directories("/cache").ok());
  Explanations kept(disk.options(2), disk.files, disk.executor);
  kept.on_explained(explained("a"));
  disk.executor.run_all();
  EXPECT_TRUE(read_offenders(disk.files, "/cache/offenders").worst().empty());
  kept.on_explained(explained("b"));
  disk.executor.run_all();
  EXPECT_EQ(read_offenders(disk.files, "/cache/offenders").worst().at(0).times, 2U);
}

TEST(Explanations, LinesOfTenantsAreNotKept) {
  OnDisk disk;
  Explanations kept({}, disk.files, disk.executor);
  Tenant tenant{};
  tenant.bytes[0] = 1;
  kept.on_explained(explained("a", 640, tenant));
  ASSERT_EQ(kept.offenders().worst().size(), 1U);
  EXPECT_EQ(kept.offenders().worst()[0].line, "");
  const std::vector<float> half{0.5F};
  kept.on_explained(explained("b", 640, with_adapters({}, tenant, half)));
  EXPECT_EQ(kept.offenders().worst().size(), 1U) << "other scales, and the same salt";
  kept.on_explained(explained("c", 64, with_adapters({}, kNoTenant, half)));
  EXPECT_EQ(kept.offenders().worst().back().line, "Today is") << "no salt";
}

TEST(Explanations, AnotherServerWritesTheFile) {
  OnDisk disk;
  ASSERT_TRUE(disk.files.make_directories("/cache").ok());
  {
    ExplanationsOptions options = disk.options();
    options.may_write = [] { return false; };
    Explanations kept(std::move(options), disk.files, disk.executor);
    kept.on_explained(explained("a"));
    EXPECT_EQ(kept.offenders().worst().size(), 1U);
  }
  EXPECT_TRUE(read_offenders(disk.files, "/cache/offenders").worst().empty());
}

// The keeper works on after this server started, and then stops.
TEST(Explanations, AreAddedToWhatAnotherServerLeft) {
  OnDisk disk;
  ASSERT_TRUE(disk.files.make_directories("/cache").ok());
  bool keeps = false;
  const auto times_in_file = [&] { return read_offenders(disk.files, "/cache/offenders").worst().at(0).times; };
  const auto count = [&](Explanations& kept, int requests) {
    for (int i = 0; i < requests; ++i) kept.on_explained(explained("a"));
    disk.executor.run_all();
  };
  Explanations keeper(disk.options(1), disk.files, disk.executor);
  count(keeper, 1);
  ExplanationsOptions options = disk.options(1);
  options.may_write = [&] { return keeps; };
  Explanations member(std::move(options), disk.files, disk.executor);
  count(keeper, 4);
  count(member, 2);
  EXPECT_EQ(times_in_file(), 5U);
  keeps = true;
  count(member, 1);
  EXPECT_EQ(times_in_file(), 8U);
  EXPECT_EQ(member.offenders().worst().at(0).times, 8U);
  count(member, 1);
  EXPECT_EQ(times_in_file(), 9U);
  EXPECT_EQ(member.offenders().requests_of("agent"), 9U);
}

// What a full disk kept from the file is not lost when another server writes it meanwhile.
TEST(Explanations, FailedWritesAreMadeUpFor) {
  OnDisk disk;
  ASSERT_TRUE(disk.files.make_directories("/cache").ok());
  bool keeps = true;
  const auto count = [&](Explanations& kept, int requests) {
    for (int i = 0; i < requests; ++i) kept.on_explained(explained("a"));
    disk.executor.run_all();
  };
  ExplanationsOptions options = disk.options(1);
  options.may_write = [&] { return keeps; };
  Explanations first(std::move(options), disk.files, disk.executor);
  disk.files.set_plan({.kind = sim::FaultKind::kFailForever, .at_operation = 1, .of = sim::kGrowing});
  count(first, 2);
  disk.files.heal();
  EXPECT_TRUE(read_offenders(disk.files, "/cache/offenders").worst().empty());
  keeps = false;
  count(first, 1);
  Explanations other(disk.options(1), disk.files, disk.executor);
  count(other, 4);
  keeps = true;
  count(first, 1);
  EXPECT_EQ(read_offenders(disk.files, "/cache/offenders").worst().at(0).times, 8U);
}

// A server that may write at last finds no file that it could read: its own sums, with those it read once, stay.
TEST(Explanations, ADamagedFileLeavesWhatIsInMemory) {
  OnDisk disk;
  ASSERT_TRUE(disk.files.make_directories("/cache").ok());
  Explanations keeper(disk.options(1), disk.files, disk.executor);
  for (int i = 0; i < 3; ++i) keeper.on_explained(explained("a"));
  disk.executor.run_all();
  bool keeps = false;
  ExplanationsOptions options = disk.options(1);
  options.may_write = [&] { return keeps; };
  Explanations member(std::move(options), disk.files, disk.executor);
  ASSERT_TRUE(disk.files.remove("/cache/offenders").ok());
  keeps = true;
  member.on_explained(explained("a"));
  disk.executor.run_all();
  EXPECT_EQ(member.offenders().worst().at(0).times, 4U);
  EXPECT_EQ(read_offenders(disk.files, "/cache/offenders").worst().at(0).times, 4U);
}

TEST(Explanations, ADamagedFileIsBegunAnew) {
  OnDisk disk;
  ASSERT_TRUE(disk.files.make_directories("/cache").ok());
  const auto file = disk.files.create("/cache/offenders");
  const std::string text = "no records at all, and long enough for a head";
  ASSERT_TRUE((*file)->append(std::as_bytes(std::span(text))).ok());
  {
    Explanations kept(disk.options(), disk.files, disk.executor);
    EXPECT_TRUE(kept.offenders().worst().empty());
    kept.on_explained(explained("a"));
  }
  EXPECT_EQ(read_offenders(disk.files, "/cache/offenders").worst().at(0).times, 1U);
}

// ---- as JSON ----

TEST(OffendersJson, ShowsLinesOnlyIfAsked) {
  OnDisk disk;
  Explanations kept({}, disk.files, disk.executor);
  for (int i = 0; i < 3; ++i) kept.on_explained(explained("a"));
  const auto entry = [&](bool with_lines) { return offenders_json(kept.offenders(), with_lines)["offenders"].at(0); };
  EXPECT_EQ(entry(true)["line"], "Today is");
  EXPECT_EQ(entry(false)["line"], nullptr);
  EXPECT_EQ(entry(false)["times"], 3);
  EXPECT_EQ(entry(false)["requests"], 3);
  EXPECT_EQ(entry(false)["lost_tokens"], 3 * 640);
  EXPECT_EQ(entry(false)["place"], "system");
  EXPECT_EQ(entry(false)["last"], 5.0);
  EXPECT_FALSE(entry(false)["advice"].get<std::string>().empty());
}

// The sums of all clients are shown to all.
TEST(Explanations, SaltedRequestsAddUpWithoutTheirClientsName) {
  OnDisk disk;
  ASSERT_TRUE(disk.files.make_directories("/cache").ok());
  Tenant salted{};
  salted.bytes[0] = 1;
  {
    Explanations kept(disk.options(), disk.files, disk.executor);
    kept.on_explained(explained("a", 640, salted));
    EXPECT_EQ(kept.offenders().worst().at(0).client, "");
    EXPECT_EQ(kept.offenders().worst().at(0).line, "");
    EXPECT_EQ(kept.offenders().requests_of("agent"), 0U);
    EXPECT_EQ(kept.offenders(kAll).worst().at(0).client, "agent") << "it is shown to those who name the salt";
    EXPECT_EQ(kept.offenders(kAll).worst().at(0).line, "Today is");
  }
  EXPECT_EQ(read_offenders(disk.files, "/cache/offenders").worst().at(0).client, "") << "in the file as well";
}

TEST(Explanations, OffendersOfSomeRequestsAreOfTheseOnly) {
  OnDisk disk;
  Explanations kept({.most_requests = 3}, disk.files, disk.executor);
  for (const std::uint64_t owner : {2U, 1U, 2U, 2U}) {
    ExplainedRequest request = explained("a", 100 * owner);
    request.owner = owner;
    request.client = owner == 1 ? "acme" : "agent";
    kept.on_explained(std::move(request));
  }
  const auto of = [&](std::uint64_t owner) {
    return kept.offenders([=](const ExplainedRequest& request) { return request.owner == owner; });
  };
  ASSERT_EQ(of(2).worst().size(), 1U);
  EXPECT_EQ(of(2).worst()[0].client, "agent");
  EXPECT_EQ(of(2).worst()[0].lost_tokens, 400U) << "of the newest three requests two are its own";
  EXPECT_EQ(of(2).requests_of("agent"), 2U);
  EXPECT_EQ(of(2).requests_of("acme"), 0U);
  EXPECT_EQ(of(1).worst().at(0).lost_tokens, 100U);
  EXPECT_TRUE(of(3).worst().empty());
}

TEST(OffendersJson, ShowsTheWorst) {
  explain::Offenders offenders;
  for (std::uint64_t i = 0; i < 50; ++i) {
    offenders.merge({.client = "agent",
                     .place = std::to_string(i),
                     .kind = "volatile-text",
                     .what = "date",
                     .line = "",
                     .lost_tokens = 100 + i});
  }
  const api::Json list = offenders_json(offenders, false)["offenders"];
  ASSERT_EQ(list.size(), 20U);
  EXPECT_EQ(list[0]["lost_tokens"], 149);
}

TEST(BreakJson, TextsAreShownToThoseWhoMaySeeThem) {
  const ExplainedRequest request = explained("a");
  const auto shown = [&](BreakTexts texts) { return break_json(*request.found, request.stats, texts); };
  EXPECT_FALSE(shown(BreakTexts::kNone).contains("text"));
  EXPECT_EQ(shown(BreakTexts::kOwn)["text"]["here"], "May 5");
  EXPECT_EQ(shown(BreakTexts::kOwn)["text"]["there"], nullptr) << "another client sent it";
  EXPECT_EQ(shown(BreakTexts::kAll)["text"]["there"], "May 4");
  EXPECT_EQ(shown(BreakTexts::kNone).dump().find("May"), std::string::npos);
}

TEST(BreakJson, HasPlacePriceAndAdvice) {
  const ExplainedRequest request = explained("a");
  const api::Json json = explained_json(request, BreakTexts::kNone);
  EXPECT_EQ(json["id"], "a");
  EXPECT_EQ(json["client"], "agent");
  EXPECT_EQ(json["t"], 5.0);
  const api::Json& found = json["cache_break"];
  EXPECT_EQ(found["kind"], "volatile-text");
  EXPECT_EQ(found["what"], "date");
  EXPECT_EQ(found["place"], "system");
  EXPECT_EQ(found["field"], "content");
  EXPECT_EQ(found["message"], 0);
  EXPECT_EQ(found["lost_tokens"], 640);
  EXPECT_NEAR(found["lost_ms"].get<double>(), 100.0 * 640 / 992, 0.01);
  EXPECT_FALSE(found["advice"].get<std::string>().empty());
  EXPECT_EQ(break_json({}, {}, BreakTexts::kAll), nullptr) << "the whole prompt was reused";
}

TEST(BreakJson, ServerTimingHasTheTimesThatAreKnown) {
  ExplainedRequest request = explained("a");
  request.stats.queue_ms = 0.12;
  request.stats.load_ms = 10;
  EXPECT_EQ(server_timing(*request.found, request.stats),
            "queue;dur=0.1, restore;dur=10.0, prefill;dur=90.0, cache;desc=\"8 of 1000 tokens, volatile-text\"");
  request.stats.prompt_ms = 0;
  EXPECT_EQ(server_timing(*request.found, request.stats),
            "queue;dur=0.1, restore;dur=10.0, cache;desc=\"8 of 1000 tokens, volatile-text\"");
  EXPECT_EQ(server_timing({}, request.stats), "queue;dur=0.1, restore;dur=10.0, cache;desc=\"8 of 1000 tokens\"")
      << "all of it was reused; \"none\" would say the opposite";
}

// The page names every kind, cause and changing text, and no other ones.
TEST(BreakJson, ThePageNamesAllKinds) {
  std::ifstream file(KVKEEP_DOCS "/explain.md");
  const std::string page{std::istreambuf_iterator<char>(file), {}};
  for (std::size_t i = 1; i < explain::kBreakKinds; ++i) {
    const std::string name(to_string(static_cast<BreakKind>(i)));
    EXPECT_NE(page.find("`" + name + "`"), std::string::npos) << name;
  }
  for (int i = 0; i <= static_cast<int>(explain::LossCause::kForgotten); ++i) {
    const std::string name(to_string(static_cast<explain::LossCause>(i)));
    EXPECT_NE(page.find("`" + name + "`"), std::string::npos) << name;
  }
  for (int i = 0; i <= static_cast<int>(explain::VolatileText::kNumber); ++i) {
    const std::string name(to_string(static_cast<explain::VolatileText>(i)));
    EXPECT_NE(page.find("`" + name + "`"), std::string::npos) << name;
  }
}

}  // namespace
}  // namespace kvkeep::server
