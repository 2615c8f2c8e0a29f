#include "policy/likely_cuts.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "policy/numbers_fixture.h"

namespace kvkeep::policy {
namespace {

TEST(TellsState, DatesAndTimes) {
  for (const char* line : {"Today's date is 2026-11-20.", "  Today's date: Fri Nov 20 2026", "now: 21:51",
                           "9:05:33 start", "-rw-r--r-- 1 user user 278 Nov  4 21:51 a.py", "Date: December 1, 2026"}) {
    EXPECT_TRUE(tells_state(line)) << line;
  }
  for (const char* line :
       {"Assistant knowledge cutoff is January 2025.", "version 1.2.3", "call 2026-11 times", "ratio 16:9",
        "a 12345:67", "May I?", "Marching 12 miles", "port 127.0.0.1:8080", "x2026-11-20", "", "2026-11-2"}) {
    EXPECT_FALSE(tells_state(line)) << line;
  }
}

TEST(TellsState, TheStateOfARepository) {
  for (const char* line : {"# gitStatus", "Status:", "Recent commits:", "Current branch: main", "On branch main",
                           "ec29d22 Initial inventory tool", "commit 1f3ac29d22ab", "d74744f"}) {
    EXPECT_TRUE(tells_state(line)) << line;
  }
  for (const char* line : {"deadbeef is a word", "1234567 apples", "ec29d2 too short", "ec29d22x", "Branches of trees",
                           "The status: none", "commit it"}) {
    EXPECT_FALSE(tells_state(line)) << line;
  }
}

TEST(TellsState, AnAgentsDescriptionOfItsEnvironment) {
  for (const char* line : {"<env>", "# Environment", "<environment_context>", "- Working directory: /home/user"}) {
    EXPECT_TRUE(tells_state(line)) << line;
  }
  EXPECT_FALSE(tells_state("</env>"));
  EXPECT_FALSE(tells_state("In this environment you can run tools."));
}

TEST(DeclaresTool, AsTemplatesWriteIt) {
  EXPECT_TRUE(declares_tool(R"({"type": "function", "function": {"name": "read"}})"));
  EXPECT_TRUE(declares_tool(R"({"type":"function","function":{"name":"read"}})"));
  EXPECT_TRUE(declares_tool(R"({"name": "read", "parameters": {}})"));
  EXPECT_FALSE(declares_tool(R"({"kvkeep": 1})"));
  EXPECT_FALSE(declares_tool("text"));
}

TEST(EndsReminder, TheTagsThatAgentsWrite) {
  EXPECT_TRUE(ends_reminder("</system-reminder>"));
  EXPECT_TRUE(ends_reminder("text</system-reminder>"));
  EXPECT_TRUE(ends_reminder("</environment_context>"));
  EXPECT_FALSE(ends_reminder("</example>"));
  EXPECT_FALSE(ends_reminder("<system-reminder>"));
}

// Each letter is a token of its own, but "|" stands for a marker and "~" for a line end with text after it.
std::string_view piece(TokenId id) {
  static const std::string kLetters = [] {
    std::string all;
    for (int c = 0; c < 128; ++c) all.push_back(static_cast<char>(c));
    return all;
  }();
  if (id == '|') return {};
  if (id == '~') return "\nx";
  return std::string_view(kLetters).substr(static_cast<std::size_t>(id), 1);
}

std::vector<TokenId> tokens(std::string_view text) { return {text.begin(), text.end()}; }

std::string told(std::string_view text, std::size_t from = 0) {
  const std::vector<TokenId> ids = tokens(text);
  std::string all;
  for (const TextLine& line : lines_of(ids, {at(from), at(ids.size())}, piece)) {
    all += std::to_string(line.at.value()) + ":" + line.text + ";";
  }
  return all;
}

TEST(LinesOf, BeginWhereATokenDoes) {
  EXPECT_EQ(told("ab\ncd\n\n e \nf"), "0:ab;3:cd;7:e;11:f;");
  EXPECT_EQ(told("ab\ncd", 1), "1:b;3:cd;");
  EXPECT_EQ(told(""), "");
  EXPECT_EQ(told("\n\n"), "");
  EXPECT_EQ(told("a|b|"), "0:a;2:b;") << "a marker ends a line";
  EXPECT_EQ(told("ab~c"), "0:ab;2:xc;") << "the line begins within the token";
  EXPECT_EQ(told(std::string(300, 'a') + "\nb"), "0:" + std::string(kLineBytes, 'a') + ";301:b;");
}

std::string found(std::string_view text, std::size_t first_answer, const ChangedBefore& changed) {
  const std::vector<TokenId> ids = tokens(text);
  const LikelyCuts cuts = find_likely_cuts(lines_of(ids, {at(0), at(ids.size())}, piece), at(first_answer), changed);
  std::string all;
  for (const Position line : cuts.lines) all += "line " + std::to_string(line.value()) + ";";
  for (const Position tool : cuts.tools) all += "tool " + std::to_string(tool.value()) + ";";
  return all;
}

bool never(std::string_view, std::string_view) { return false; }

TEST(LikelyCuts, TheFirstOfLinesThatTellAState) {
  EXPECT_EQ(found("hello\nNov 20 1\nNov 20 2\nbye\nNov 21 3\n", 99, never), "line 6;line 28;");
}

TEST(LikelyCuts, TheUsersWordsAfterTheLastReminder) {
  const std::string text = "<a>\nb\n</system-reminder>\n<a>\nc\n</system-reminder>\n\nDo it\nnow\n";
  EXPECT_EQ(found(text, 999, never), "line 51;");
  EXPECT_EQ(found(text, 20, never), "") << "after an answer it is no preamble";
}

TEST(LikelyCuts, ToolsBeforeTheFirstAnswer) {
  const std::string text = "<tools>\n{\"name\": \"a\"}\n{\"name\": \"b\"}\n";
  EXPECT_EQ(found(text, 999, never), "tool 8;tool 22;");
  EXPECT_EQ(found(text, 20, never), "tool 8;");
}

TEST(LikelyCuts, WherePromptsDifferedBefore) {
  const auto changed = [](std::string_view line, std::string_view before) { return line == "c" && before == "b"; };
  EXPECT_EQ(found("a\nb\nc\nc\n", 99, changed), "line 4;");
}

TEST(LikelyCuts, NoMoreThanTheLimit) {
  std::string text;
  for (int i = 0; i < 20; ++i) text += "a\nStatus:\n";
  const std::vector<TokenId> ids = tokens(text);
  EXPECT_EQ(find_likely_cuts(lines_of(ids, {at(0), at(ids.size())}, piece), at(999), never).lines.size(),
            kMostLikelyLines);
}

}  // namespace
}  // namespace kvkeep::policy
