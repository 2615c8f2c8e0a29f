#include "bench/workloads/workload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <regex>

#include "base/test_seed.h"

namespace kvkeep::bench {
namespace {

using ::testing::ElementsAre;

// Four lines; lines that a test adds begin with line 5.
const std::string kSettings = "# Title\ncontext 10\nsmall-context 5\nreply 2\n";
// Three more lines: s, a with one turn, and the quote q.
const std::string kBegun = kSettings + "system s 900\nopen a s\nturn a 7\nquote q s a 1\n";

std::string error_of(const std::string& text) {
  const Result<Workload> workload = parse_workload("some", text);
  if (workload.ok()) return "none";
  EXPECT_EQ(workload.error().kind, ErrorKind::kInvalid);
  return workload.error().message;
}

TEST(Workload, EveryStatement) {
  const Result<Workload> workload = parse_workload(
      "some",
      kSettings +
          "system s 900\n\nopen a s # why\n\tturn  a 7\nbranch b a 1\nquote t s a 1#\nkill 0.5\nturn b 10000000");
  ASSERT_TRUE(workload.ok()) << workload.error().message;
  EXPECT_EQ(workload->name, "some");
  EXPECT_EQ(workload->title, "Title");
  EXPECT_EQ(workload->context_tokens, 10u);
  EXPECT_EQ(workload->small_context_tokens, 5u);
  EXPECT_EQ(workload->reply_tokens, 2u);
  EXPECT_THAT(workload->steps, ElementsAre(Step(DefineSystem{"s", 900}), Step(OpenConversation{"a", "s"}),
                                           Step(Turn{"a", 7}), Step(Branch{"b", "a", 1}), Step(Quote{"t", "s", "a", 1}),
                                           Step(KillServer{0.5}), Step(Turn{"b", 10'000'000})));
  EXPECT_EQ(workload->requests(), 3u);
  EXPECT_EQ(workload->kills(), 1u);
  EXPECT_EQ(workload->choices, 1u);
}

TEST(Workload, TurnsMayShowPictures) {
  const Result<Workload> workload =
      parse_workload("some", kBegun + "show a 7 p\nopen b s\nshow b 8 p\nshow b 9 q\nbranch c b 1\n");
  ASSERT_TRUE(workload.ok()) << workload.error().message;
  EXPECT_EQ(workload->steps[4], Step(Show{"a", 7, "p"}));
  EXPECT_EQ(workload->requests(), 5u);
  EXPECT_EQ(workload->pictures(), 2u);
  EXPECT_EQ(parse_workload("some", kBegun).value().pictures(), 0u);
}

TEST(Workload, PicturesCannotBeQuoted) {
  const std::string shown = kBegun + "show a 7 p\n";
  EXPECT_EQ(error_of(shown + "quote t s a 1"), "some:10: 'a' has pictures, which no text can quote");
  EXPECT_EQ(error_of(shown + "branch b a 2\nquote t s b 1"), "some:11: 'b' has pictures, which no text can quote");
}

TEST(Workload, RequestsMayHaveSeveralChoices) {
  const Result<Workload> workload = parse_workload("some", kBegun + "choices 8\n");
  ASSERT_TRUE(workload.ok()) << workload.error().message;
  EXPECT_EQ(workload->choices, 8u);
  EXPECT_EQ(error_of(kBegun + "choices 8\nchoices 8\n"), "some:10: given for the second time");
  EXPECT_EQ(error_of(kBegun + "choices 65\n"), "some:9: '65' is not a whole number from 1 to 64");
}

TEST(Workload, LineEndsOfEitherKindAndTitlesInUtf8) {
  const Result<Workload> workload = parse_workload(
      "some", "#   Zw\u00f6lf \t\r\ncontext 1\r\nsmall-context 1\r\nreply 1\r\nsystem s 1\r\nopen a s\r\nturn a 1\r\n");
  ASSERT_TRUE(workload.ok()) << workload.error().message;
  EXPECT_EQ(workload->title, "Zw\u00f6lf");
}

TEST(Workload, ABranchHasTheTurnsItBeganWith) {
  const std::string branched = kBegun + "turn a 1\nturn a 1\nbranch b a 2\nturn b 1\n";
  EXPECT_EQ(error_of(branched + "branch c b 3\nturn c 1\n"), "none");
  EXPECT_EQ(error_of(branched + "branch c b 4\n"), "some:13: 'b' has 3 turns so far, not 4");
}

TEST(Workload, SystemsAndConversationsMayShareNames) {
  EXPECT_EQ(error_of(kSettings + "system s 1\nopen s s\nturn s 1\n"), "none");
}

TEST(WorkloadErrors, TheWhole) {
  EXPECT_EQ(error_of(""), "some:1: the first line has to be '# ' and the title");
  EXPECT_EQ(error_of("context 10\n"), "some:1: the first line has to be '# ' and the title");
  EXPECT_EQ(error_of("#  \n"), "some:1: the first line has to be '# ' and the title");
  EXPECT_EQ(error_of("# T\nsmall-context 5\nreply 2\n"), "some:3: 'context' is missing");
  EXPECT_EQ(error_of("# T\ncontext 10\nreply 2\n"), "some:3: 'small-context' is missing");
  EXPECT_EQ(error_of("# T\ncontext 10\nsmall-context 5\n\n"), "some:4: 'reply' is missing");
  EXPECT_EQ(error_of("# T\ncontext 5\nsmall-context 6\nreply 2"), "some:4: 'small-context' is larger than 'context'");
  EXPECT_EQ(error_of(kSettings + "system s 1\nopen a s\nkill 1\n"),
            "some:7: there is no turn and no quote: nothing to play");
}

TEST(WorkloadErrors, Statements) {
  const std::pair<const char*, const char*> kCases[] = {
      {"trun a 7", "unknown statement 'trun'; did you mean 'turn'?"},
      {"small_context 7", "unknown statement 'small_context'; did you mean 'small-context'?"},
      {"frobnicate", "unknown statement 'frobnicate'"},
      {"Turn a 7", "unknown statement 'Turn'; did you mean 'turn'?"},
      {"turn a", "'turn' takes 2 arguments (CONVERSATION N), not 1"},
      {"turn a 7 8", "'turn' takes 2 arguments (CONVERSATION N), not 3"},
      {"reply", "'reply' takes 1 argument (N), not 0"},
      {"show a 7", "'show' takes 3 arguments (CONVERSATION N PICTURE), not 2"},
      {"show q 1 p", "'q' is a quote: one request, nothing follows it"},
      {"quote t s a", "'quote' takes 4 arguments (NEW SYSTEM CONVERSATION N), not 3"},
      {"reply 7", "given for the second time"},
      {"system s 9", "there is a system 's' already"},
      {"open a s", "there is a conversation 'a' already"},
      {"open q s", "there is a conversation 'q' already"},
      {"branch a a 1", "there is a conversation 'a' already"},
      {"quote a s a 1", "there is a conversation 'a' already"},
      {"open b coder", "there is no system 'coder'"},
      {"quote t a a 1", "there is no system 'a'; did you mean 's'?"},
      {"turn main 1", "there is no conversation 'main'"},
      {"turn b 1", "there is no conversation 'b'; did you mean 'a'?"},
      {"branch b s 1", "there is no conversation 's'; did you mean 'a'?"},
      {"quote t s nobody 1", "there is no conversation 'nobody'"},
      {"turn q 1", "'q' is a quote: one request, nothing follows it"},
      {"branch b q 1", "'q' is a quote: one request, nothing follows it"},
      {"quote t s q 1", "'q' is a quote: one request, nothing follows it"},
      {"branch b a 2", "'a' has 1 turn so far, not 2"},
      {"quote t s a 2", "'a' has 1 turn so far, not 2"},
      {"title \x1b[2J", "control characters, or bytes that are not UTF-8"},
      {"# \xff", "control characters, or bytes that are not UTF-8"},
  };
  for (const auto& [line, reason] : kCases) {
    EXPECT_EQ(error_of(kBegun + line + "\n"), std::string("some:9: ") + reason) << line;
    EXPECT_EQ(error_of(kBegun + "\n" + line + " # comment\nturn a 1"), std::string("some:10: ") + reason) << line;
  }
}

TEST(WorkloadErrors, Numbers) {
  for (const std::string number : {"x", "0", "-1", "+1", "1.5", "7x", "0x7", "10000001", "99999999999999999999"}) {
    const std::string reason = "'" + number + "' is not a whole number from 1 to 10000000";
    EXPECT_EQ(error_of("# T\ncontext " + number), "some:2: " + reason);
    EXPECT_EQ(error_of("# T\nsmall-context " + number), "some:2: " + reason);
    EXPECT_EQ(error_of("# T\nreply " + number), "some:2: " + reason);
    EXPECT_EQ(error_of(kBegun + "system t " + number), "some:9: " + reason);
    EXPECT_EQ(error_of(kBegun + "turn a " + number), "some:9: " + reason);
  }
  EXPECT_EQ(error_of(kBegun + "branch b a 0"), "some:9: '0' is not a whole number from 1 to 100000");
  EXPECT_EQ(error_of(kBegun + "quote t s a 100001"), "some:9: '100001' is not a whole number from 1 to 100000");
  for (const std::string seconds : {"x", "-1", "nan", "inf", "1e1", "3600.5", "1s"})
    EXPECT_EQ(error_of(kBegun + "kill " + seconds),
              "some:9: '" + seconds + "' is not a number of seconds from 0 to 3600");
  for (const std::string ratio : {"x", "0.99", "nan", "1e1", "100.1"})
    EXPECT_EQ(error_of(kBegun + "point-bound " + ratio), "some:9: '" + ratio + "' is not a ratio from 1 to 100");
}

TEST(WorkloadTest, ABoundForPointsIsOptionalAndGivenOnce) {
  EXPECT_EQ(parse_workload("some", kBegun).value().point_bound, std::nullopt);
  EXPECT_EQ(parse_workload("some", kBegun + "point-bound 1.08\n").value().point_bound, 1.08);
  EXPECT_EQ(error_of(kBegun + "point-bound 1.08\npoint-bound 1.08"), "some:10: given for the second time");
}

TEST(WorkloadErrors, LongNames) {
  const std::string longest(64, 'n');
  EXPECT_EQ(error_of(kBegun + "system " + longest + " 1\nopen " + longest + " " + longest), "none");
  EXPECT_EQ(error_of(kBegun + "open n" + longest + " s"), "some:9: a name has at most 64 bytes");
  EXPECT_EQ(error_of(kBegun + "system n" + longest + " 1"), "some:9: a name has at most 64 bytes");
  EXPECT_EQ(error_of(kBegun + longest), "some:9: unknown statement '" + longest.substr(0, 39) + "…'");
}

TEST(WorkloadErrors, LimitsOfTheWhole) {
  std::string steps = kSettings + "system s 1\nopen a s\nturn a 1\n";
  for (int i = 3; i < 100'000; ++i) steps += "kill 0\n";
  EXPECT_EQ(error_of(steps), "none");
  EXPECT_EQ(error_of(steps + "kill 0\n"), "some:100005: more than 100000 steps");

  std::string longest = kBegun;
  longest.resize((1 << 20) - 1, '\n');
  EXPECT_EQ(error_of(longest + "#"), "none");
  EXPECT_EQ(error_of(longest + "# "), "some:1: the text is longer than 1 MiB");
}

// Statements, words of statements, numbers and any bytes, in any order.
std::string random_line(std::mt19937_64& random) {
  static const std::string kPieces[] = {"context", "small-context", "reply",  "system", "open", "turn", "show",
                                        "branch",  "quote",         "kill",   "a",      "b",    "s",    "1",
                                        "2",       "900",           "-1",     "1.5",    "nan",  "#",    "\t",
                                        "\r",      "\xff",          "# Title"};
  std::string line;
  for (std::size_t i = random() % 6; i > 0; --i) {
    if (random() % 8 == 0) {
      line += static_cast<char>(random());
    } else {
      line += kPieces[random() % std::size(kPieces)] + " ";
    }
  }
  return line + "\n";
}

// Either a consistent workload, or an error with its line.
void expect_understood_or_refused(const std::string& text) {
  static const std::regex kError("some:[0-9]+: [^\\n\\r\\x1b]+");
  const Result<Workload> workload = parse_workload("some", text);
  if (workload.ok()) {
    EXPECT_GT(workload->requests(), 0u);
    EXPECT_LE(workload->small_context_tokens, workload->context_tokens);
  } else {
    EXPECT_TRUE(std::regex_match(workload.error().message, kError)) << workload.error().message;
  }
}

TEST(Workload, GarbageIsRefusedWithItsLine) {
  std::mt19937_64 random(test_seed());
  for (int round = 0; round < 10'000; ++round) {
    std::string text = round % 2 == 0 ? kBegun : "";
    for (std::size_t lines = random() % 6; lines > 0; --lines) text += random_line(random);
    expect_understood_or_refused(text);
  }
}

TEST(Workload, DamagedFilesAreUnderstoodOrRefused) {
  std::mt19937_64 random(test_seed());
  for (int round = 0; round < 5'000; ++round) {
    std::string text(builtin_texts()[random() % builtin_texts().size()].text);
    for (std::size_t changes = 1 + random() % 3; changes > 0; --changes)
      text[random() % text.size()] = static_cast<char>(random());
    expect_understood_or_refused(text);
  }
}

TEST(BuiltinWorkloads, AreAllUnderstood) {
  for (const BuiltinText& builtin : builtin_texts()) {
    const Result<Workload> workload = parse_workload(std::string(builtin.name), builtin.text);
    EXPECT_TRUE(workload.ok()) << workload.error().message;
  }
  EXPECT_EQ(builtin_workloads().size(), builtin_texts().size());
}

TEST(BuiltinWorkloads, AreTheTenAndInOrder) {
  const char* const kNames[] = {"1-growing",       "2-growing-kill", "3-sessions", "4-branch",  "5-requests",
                                "6-side-requests", "7-over-context", "8-kills",    "9-choices", "screenshots"};
  const std::size_t kRequests[] = {12, 12, 30, 15, 30, 15, 16, 12, 3, 20};
  const std::size_t kKills[] = {0, 1, 0, 0, 0, 0, 0, 3, 0, 1};
  ASSERT_GE(builtin_workloads().size(), 10u);
  for (std::size_t i = 0; i < 10; ++i) {
    const Workload& workload = builtin_workloads()[i];
    EXPECT_EQ(workload.name, kNames[i]);
    EXPECT_EQ(workload.requests(), kRequests[i]) << workload.name;
    EXPECT_EQ(workload.kills(), kKills[i]) << workload.name;
    EXPECT_EQ(workload.choices, i == 8 ? 4u : 1u) << workload.name;
    EXPECT_EQ(workload.pictures(), i == 9 ? 6u : 0u) << workload.name;
  }
  EXPECT_EQ(builtin_workloads()[0].title, "12 growing turns");
  EXPECT_EQ(builtin_workloads()[0].steps.size(), 14u);
}

// After short system prompts every cache would do well enough.
TEST(BuiltinWorkloads, SystemPromptsOfConversationsAreLong) {
  for (const Workload& workload : builtin_workloads()) {
    std::map<std::string, std::uint32_t> tokens;
    for (const Step& step : workload.steps) {
      if (const auto* system = std::get_if<DefineSystem>(&step)) tokens[system->name] = system->tokens;
      if (const auto* open = std::get_if<OpenConversation>(&step)) {
        EXPECT_GE(tokens.at(open->system), 870u) << workload.name;
      }
    }
  }
}

}  // namespace
}  // namespace kvkeep::bench
