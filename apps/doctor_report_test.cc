// The report of `kvkeep doctor`, as text and as JSON.

#include "doctor_report.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace kvkeep::cli {
namespace {

using explain::BreakKind;

bench::DiagnosedRequest a_date() {
  return {.label = "main turn 2",
          .words = 1'500,
          .known = 20,
          .found = {.kind = BreakKind::kVolatileText,
                    .at = Position{20},
                    .has_place = true,
                    .place = {PromptField::kContent, PromptRole::kSystem, 0},
                    .what = explain::VolatileText::kDate,
                    .lost_tokens = 1'400,
                    .differs = true},
          .before = "Today is ",
          .here = "2026-05-05",
          .there = "2026-05-04"};
}

DoctorSection recording() {
  DoctorSection section{.title = "a.jsonl", .requests = {{.label = "main turn 1", .words = 1'500}, a_date()}};
  section.requests[0].found.kind = BreakKind::kNothingKnown;
  section.misses.emplace();
  section.offenders.emplace();
  for (const bench::DiagnosedRequest& request : section.requests) {
    section.misses->count(request.found, request.words - request.known);
    section.offenders->count("agent");
    section.offenders->add("agent", request.found, request.before, 0, 0);
  }
  return section;
}

TEST(DoctorReport, ShowsARecordingToPeople) {
  EXPECT_EQ(section_text(recording()),
            "a.jsonl\n"
            "1  main turn 1: 0 of about 1,500 tokens known; nothing-known in the prompt\n"
            "2  main turn 2: 20 of about 1,500 tokens known; volatile-text (date) in system, 1,400 tokens again:\n"
            "      here \"2026-05-05\", before \"2026-05-04\"\n"
            "Misses beyond 100 tokens: 2 of 2 requests, 2,980 tokens\n"
            "requests  tokens  computed before  kind\n"
            "       1   1,500                0  nothing-known\n"
            "       1   1,480            1,400  volatile-text (date)\n"
            "1. agent: 1 of 2 requests: volatile-text (date) in system, after \"Today is\": 1,400 tokens prefilled\n"
            "      again\n"
            "      Put the text that changes at the end of the prompt or into the last message.\n");
}

TEST(DoctorReport, ShowsARecordingToPrograms) {
  const auto json = nlohmann::json::parse(sections_json({recording()}));
  EXPECT_EQ(json["wrong"], false);
  const auto& section = json["sections"][0];
  EXPECT_EQ(section["title"], "a.jsonl");
  EXPECT_EQ(section["requests"].size(), 2U);
  EXPECT_FALSE(section["requests"][0].contains("text"));
  const auto& second = section["requests"][1];
  EXPECT_EQ(second["label"], "main turn 2");
  EXPECT_EQ(second["tokens"], 1'500);
  EXPECT_EQ(second["known_tokens"], 20);
  EXPECT_EQ(second["kind"], "volatile-text");
  EXPECT_EQ(second["what"], "date");
  EXPECT_EQ(second["place"], "system");
  EXPECT_EQ(second["lost_tokens"], 1'400);
  EXPECT_EQ(second["text"]["there"], "2026-05-04");
  const auto& misses = section["misses"];
  EXPECT_EQ(misses["beyond"], 100);
  EXPECT_EQ(misses["of_requests"], 2);
  EXPECT_EQ(misses["requests"], 2);
  EXPECT_EQ(misses["tokens"], 2'980);
  EXPECT_EQ(misses["kinds"][1]["what"], "date");
  EXPECT_EQ(misses["kinds"][1]["lost_tokens"], 1'400);
  EXPECT_EQ(section["offenders"][0]["line"], "Today is");
}

TEST(DoctorReport, LeavesOutWhatASectionDoesNotHave) {
  const DoctorSection settings{.title = "Settings", .findings = {{Severity::kNote, "slow"}}};
  EXPECT_EQ(section_text(settings), "Settings\nnote  slow\n");
  const auto json = nlohmann::json::parse(sections_json({settings}))["sections"][0];
  EXPECT_EQ(json["findings"][0]["severity"], "note");
  for (const char* field : {"requests", "misses", "offenders"}) EXPECT_FALSE(json.contains(field)) << field;
}

TEST(DoctorReport, SaysWhetherAnythingIsWrong) {
  const DoctorSection fine{.title = "a", .findings = {{Severity::kFine, "x"}, {Severity::kNote, "y"}}};
  DoctorSection bad = fine;
  bad.findings.push_back({Severity::kProblem, "z"});
  EXPECT_FALSE(is_wrong({fine, fine}));
  EXPECT_TRUE(is_wrong({fine, bad}));
  EXPECT_EQ(nlohmann::json::parse(sections_json({fine, bad}))["wrong"], true);
}

TEST(DoctorReport, CountsRequestsThatItDoesNotShow) {
  DoctorSection section{.title = "a.jsonl"};
  section.requests.assign(203, a_date());
  const std::string text = section_text(section);
  EXPECT_TRUE(text.contains("\n200  main turn 2"));
  EXPECT_FALSE(text.contains("\n201  "));
  EXPECT_TRUE(text.ends_with("      3 more requests\n"));
  EXPECT_EQ(nlohmann::json::parse(sections_json({section}))["sections"][0]["requests"].size(), 203U);
}

// Requests of strangers reach a terminal only as printable text, and JSON only as UTF-8.
TEST(DoctorReport, MakesTextOfClientsPrintable) {
  DoctorSection section{.title = "a.jsonl", .requests = {a_date()}};
  section.requests[0].here = "\x1b[2J\xff";
  EXPECT_FALSE(section_text(section).contains('\x1b'));
  const auto json = nlohmann::json::parse(sections_json({section}));
  EXPECT_EQ(json["sections"][0]["requests"][0]["text"]["here"], "\x1b[2J\xEF\xBF\xBD");
}

}  // namespace
}  // namespace kvkeep::cli
