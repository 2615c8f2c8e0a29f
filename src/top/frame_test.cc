#include "top/frame.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/test_seed.h"
#include "text/terminal.h"

namespace kvkeep::top {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

View sample(std::size_t past = 3) {
  View view{.model = "small.gguf", .memory_class = "sliceable", .uptime_s = 4'000, .requests = 3, .waiting = 1};
  view.totals = {900'000, 50'000, 20'000, 0, 30'000};
  view.saved_s = 750;
  view.saved_ever_s = 90'000;
  view.again_tokens = 600;
  view.tiers = {{"memory", 1'500, 32'768}, {"ram", 3ULL << 30, 8ULL << 30}, {"disk", 20ULL << 30}};
  view.running = {{.number = 12,
                   .state = "decoding",
                   .prompt_tokens = 1'000,
                   .tokens = {500, 0, 400, 0, 100},
                   .reply_tokens = 321,
                   .ttft_ms = 85,
                   .tokens_per_s = 31.24}};
  const Cause cause{.kind = "volatile-text",
                    .place = "system",
                    .at_token = 2'118,
                    .lost_tokens = 4'100,
                    .lost_s = 12.4,
                    .advice = "Put the date at the end of the prompt."};
  for (std::size_t i = 0; i < past; ++i) {
    view.past.push_back({.id = "req-" + std::to_string(i),
                         .client = "opencode",
                         .tokens = {i == 0 ? 9'000U : 100U, 0, 50, 0, 40},
                         .ttft_ms = 1'240,
                         .ended_s = 1'000 - 60.0 * static_cast<double>(i),
                         .end = i == 1 ? "error" : "stop",
                         .cause = cause});
  }
  view.offenders = {{.client = "claude-cli",
                     .kind = "volatile-text",
                     .what = "git-status",
                     .place = "message 2 (user)",
                     .line = "M README.md",
                     .times = 41,
                     .requests = 50,
                     .lost_tokens = 1'104'211,
                     .lost_s = 1'104,
                     .last_s = 900,
                     .advice = "Put it last."},
                    {.client = "codex", .kind = "tools-reordered", .times = 3, .requests = 9, .lost_tokens = 7}};
  view.hottest = {{.id = "0123456789abcdef",
                   .tokens = 12'345,
                   .uses = 17,
                   .ram_bytes = 3 << 20,
                   .disk_bytes = 4 << 20,
                   .last_use_s = 940,
                   .pinned = true},
                  {.id = "fedcba9876543210", .tokens = 9, .uses = 2}};
  view.tenants = {{.number = 2,
                   .own = true,
                   .requests = 1'234,
                   .prompt_tokens = 1'000,
                   .cached_tokens = 750,
                   .prefilled_tokens = 250,
                   .ram_bytes = 1 << 20,
                   .last_s = 1'000},
                  {.number = 1, .salted = true}};
  return view;
}

const Look kLook{.now_s = 1'002};

TEST(Frame, ShowsEachPartAtTheSizeOfAnOldTerminal) {
  const std::string text = plain_text(frame(sample(), kLook, {80, 24}));
  for (const char* part :
       {"kvkeep top  small.gguf  sliceable  up 1 h 7 min", "live", "reused 97.0 % of 1M", "prefilled 30k, 600 again",
        "saved 12 min 30 s (1 d 1 h ever)", "1.5k of 32.8k tokens", "3 GiB of 8 GiB", "Running 1, waiting 1",
        "321 written, 31.2/s", "9.05k     40  1.24 s", "volatile text", "failed", "q quits"}) {
    EXPECT_THAT(text, HasSubstr(part)) << text;
  }
}

TEST(Frame, AsTextIsNoLongerThanItsWords) {
  const std::string text = plain_text(frame(sample(), kLook, {80, 60}));
  EXPECT_EQ(text, plain_text(frame(sample(), kLook, {80, 50})));
  EXPECT_THAT(text, Not(HasSubstr("\n\n\n")));
}

TEST(Frame, SaysWhatARequestWaitsFor) {
  View view = sample();
  const auto shown = [&] { return plain_text(frame(view, kLook, {80, 24})); };
  EXPECT_THAT(shown(), HasSubstr("#12 writes"));
  view.running[0].waits_for = "turn";
  EXPECT_THAT(shown(), HasSubstr("#12 writes")) << "it goes on in a moment";
  view.running[0].waits_for = "cells";
  EXPECT_THAT(shown(), HasSubstr("#12 waits"));
  EXPECT_THAT(shown(), HasSubstr("for cells"));
  view.running[0] = {.number = 13, .state = "loading", .prompt_tokens = 1'000};
  EXPECT_THAT(shown(), HasSubstr("#13 loads"));
}

TEST(Frame, AWrongKeyIsNoMissingServer) {
  const Look look{.trouble = "wrong key: the server refuses this API key", .refused = true};
  const std::string text = plain_text(frame({}, look, {80, 24}));
  EXPECT_NE(text.find("wrong key\n"), std::string::npos) << text;
  EXPECT_EQ(text.find("no connection"), std::string::npos) << text;
}

TEST(Frame, LooksAfterRefusalsComeEverLater) {
  std::vector<double> waits_s;
  for (const std::size_t refusals : {0, 1, 2, 3, 6, 7, 1000}) waits_s.push_back(seconds_to_next_look(1, refusals));
  EXPECT_EQ(waits_s, (std::vector<double>{1, 2, 4, 8, 60, 60, 60}));
  EXPECT_EQ(seconds_to_next_look(300, 5), 300) << "no sooner than asked for";
}

TEST(Frame, FillsItsRowsAndLeavesNoneOut) {
  const std::vector<Line> lines = frame(sample(100), kLook, {80, 24});
  EXPECT_EQ(lines.size(), 24U);
  EXPECT_THAT(plain_text({lines.back()}), HasSubstr("q quits"));
  EXPECT_EQ(frame(sample(0), kLook, {80, 24}).size(), 24U);
}

TEST(Frame, ExplainsTheChosenRequest) {
  Look look = kLook;
  look.chosen = 2;
  EXPECT_THAT(plain_text(frame(sample(), look, {80, 24})), Not(HasSubstr("in system")));
  look.explains = true;
  const std::string text = plain_text(frame(sample(), look, {80, 24}));
  for (const char* part : {"Why req-2 did not reuse more", "volatile text, in system, from token 2,118 on",
                           "It cost 4,100 tokens, 12.4 s.", "Put the date at the end"}) {
    EXPECT_THAT(text, HasSubstr(part)) << text;
  }
}

Look look_at(List list) {
  Look look = kLook;
  look.list = list;
  return look;
}

// "none" would read as if nothing had been reused.
TEST(Frame, SaysThatAllOfAPromptWasKnown) {
  View view = sample(1);
  view.past[0].end = "stop";
  view.past[0].cause = Cause{.kind = "none"};
  const std::string text = plain_text(frame(view, kLook, {80, 24}));
  EXPECT_THAT(text, HasSubstr("all known"));
  EXPECT_THAT(text, Not(HasSubstr("none")));
  Look look = kLook;
  look.explains = true;
  const std::string explained = plain_text(frame(view, look, {80, 24}));
  EXPECT_THAT(explained, HasSubstr("req-0 reused all that it could"));
  EXPECT_THAT(explained, HasSubstr("whole prompt was known"));
  EXPECT_THAT(explained, Not(HasSubstr("did not reuse")));
}

TEST(Frame, NamesClientsWithoutAName) {
  View view = sample();
  view.offenders[0].client = {};
  Look look = look_at(List::kCauses);
  look.explains = true;
  EXPECT_THAT(plain_text(frame(view, look, {140, 24})), HasSubstr("prompts of clients without a name are prefilled"));
}

TEST(Frame, ListsTheCausesThatCostMost) {
  Look look = look_at(List::kCauses);
  const std::string text = plain_text(frame(sample(), look, {100, 24}));
  EXPECT_THAT(text,
              HasSubstr("1.1M  18 min 24 s       41 of 50 claude-cli     volatile text: git status, in message 2"));
  EXPECT_THAT(text, HasSubstr("3 of 9 codex          tools reordered"));
  EXPECT_THAT(text, HasSubstr("[2:causes]")) << "the list that is shown is marked";
  EXPECT_THAT(text, Not(HasSubstr("Last requests")));
  EXPECT_THAT(text, Not(HasSubstr("Put it last.")));
  look.explains = true;
  const std::string explained = plain_text(frame(sample(), look, {140, 24}));
  for (const char* part : {"1,104,211 tokens were prefilled again in 41 of 50 requests", "The line begins: M README.md",
                           "Put it last.", "last seen: 1 min."}) {
    EXPECT_THAT(explained, HasSubstr(part)) << explained;
  }
  View view = sample();
  for (const char* kind : {"cache-off", "prompt-scored", "not-cacheable"}) {
    view.offenders[0].kind = kind;
    const std::string past = plain_text(frame(view, look, {140, 24}));
    EXPECT_THAT(past, HasSubstr("Why prompts of claude-cli are prefilled without the cache"));
    EXPECT_THAT(past, HasSubstr("tokens were prefilled without the cache in 41 of 50 requests"));
  }
  view.offenders = {};
  EXPECT_THAT(plain_text(frame(view, look, {100, 24})), HasSubstr("No known text was prefilled again"));
}

TEST(Frame, ListsThePrefixesUsedMost) {
  Look look = look_at(List::kPrefixes);
  const std::string text = plain_text(frame(sample(), look, {80, 24}));
  EXPECT_THAT(text, HasSubstr("12.3k      17     3 MiB     4 MiB    1 min 0123456789abcdef pinned"));
  EXPECT_THAT(text, HasSubstr("fedcba9876543210\n"));
  look.explains = true;
  EXPECT_THAT(plain_text(frame(sample(), look, {80, 24})), HasSubstr("kvkeep cache unpin 0123456789abcdef"));
  look.chosen = 1;
  EXPECT_THAT(plain_text(frame(sample(), look, {80, 24})), HasSubstr("kvkeep cache pin fedcba9876543210"));
}

TEST(Frame, ListsTheTenants) {
  Look look = look_at(List::kTenants);
  const std::string text = plain_text(frame(sample(), look, {80, 24}));
  EXPECT_THAT(text, HasSubstr("     2    1.23k  75.0 %       250     1 MiB       0 B    now you, no salt"));
  look.explains = true;
  look.chosen = 1;
  EXPECT_THAT(plain_text(frame(sample(), look, {80, 24})), HasSubstr("share no state with others"));
}

// The words above the columns end where the figures below them do.
TEST(Frame, HeadsStandAboveTheirColumns) {
  const auto ends_of = [](List list, const std::vector<const char*>& words) {
    const std::vector<Line> lines = frame(sample(), look_at(list), {100, 24});
    const auto entry = std::ranges::find(lines, true, &Line::chosen);
    const std::string head = plain_text({*(entry - 1)});
    const std::string figures = plain_text({*entry});
    for (const char* word : words) {
      const std::size_t end = head.find(word) + std::string_view(word).size();
      EXPECT_NE(figures[end - 1], ' ') << word << "\n" << head << figures;
      EXPECT_EQ(figures[end], ' ') << word << "\n" << head << figures;
    }
  };
  ends_of(List::kCauses, {"Tokens", "prefilled", "in requests"});
  ends_of(List::kPrefixes, {"Tokens", "uses", "RAM", "disk", "last use"});
  ends_of(List::kTenants, {"Tenant", "requests", "reused", "prefilled", "RAM", "disk", "last"});
}

TEST(Frame, KeepsTheChosenEntryInView) {
  View view = sample(100);
  view.offenders.resize(100, view.offenders.front());
  view.hottest.resize(100, view.hottest.front());
  view.tenants.resize(100, view.tenants.front());
  for (const List list : kLists) {
    for (std::size_t chosen = 0; chosen < 100; ++chosen) {
      Look look = look_at(list);
      look.chosen = chosen;
      std::size_t marked = 0;
      for (const Line& line : frame(view, look, {80, 24})) marked += line.chosen ? 1 : 0;
      EXPECT_EQ(marked, 1U) << name_of(list) << " " << chosen;
    }
  }
}

TEST(Frame, AnEntryKeepsItsNameWhereverItStands) {
  View view = sample();
  for (const List list : kLists) {
    EXPECT_NE(entry_name(view, list, 0), entry_name(view, list, 1)) << name_of(list);
    EXPECT_NE(entry_name(view, list, 0), "") << name_of(list);
  }
  const std::string first = entry_name(view, List::kPrefixes, 0);
  std::swap(view.hottest[0], view.hottest[1]);
  EXPECT_EQ(entry_name(view, List::kPrefixes, 1), first);
}

TEST(Frame, SaysThatTheServerDoesNotAnswer) {
  Look look = kLook;
  look.trouble = "no connection to 127.0.0.1:8080";
  const std::string text = plain_text(frame(sample(), look, {80, 24}));
  EXPECT_THAT(text, HasSubstr("no connection to 127.0.0.1:8080"));
  EXPECT_THAT(text, HasSubstr("small.gguf")) << "the last figures stay";
}

TEST(Frame, ShowsEachProblemAsAWhole) {
  View view = sample();
  view.problems = {"Nothing is stored on disk: the file system is full. Make room; storing then goes on by itself."};
  Look look = kLook;
  look.trouble = "no connection to a-host-with-a-long-name.example:8080, which this page goes on asking";
  for (const std::size_t columns : {40U, 80U}) {
    const std::string text = plain_text(frame(view, look, {columns, 30}));
    EXPECT_THAT(text, HasSubstr("itself.")) << text;
    EXPECT_THAT(text, HasSubstr("asking")) << text;
  }
}

TEST(Frame, SendsNothingThatATerminalObeys) {
  View view = sample();
  view.model = "\x1b[2J\x1b]0;title\x07";
  view.past[0].client = "\x1b[31m\xff\xfe";
  view.past[0].cause->kind = "\r\n\t\x9b";
  view.offenders[0].client = view.offenders[0].line = view.offenders[0].place = "\x1b[31m\xff\xfe\n";
  view.hottest[0].id = "\x1b]0;title\x07";
  view.problems = {
      "a\x1b"
      "b"};
  for (const List list : kLists) {
    Look look = look_at(list);
    look.explains = true;
    const std::vector<Line> lines = frame(view, look, {80, 24});
    const std::string text = plain_text(lines);
    for (const char byte : text)
      EXPECT_TRUE(byte == '\n' || static_cast<unsigned char>(byte) >= ' ') << static_cast<int>(byte);
    EXPECT_THAT(text, Not(HasSubstr("\x7f")));
    EXPECT_EQ(lines.size(), 24U);
    for (const Line& line : lines) {
      EXPECT_EQ(std::ranges::count(plain_text({line}), '\n'), 1) << "no line is broken by what it shows";
    }
  }
}

// No line is wider than the terminal, and no more lines than rows, at any size and whatever the figures are.
TEST(Frame, FitsIntoAnyTerminal) {
  std::mt19937_64 random(test_seed());
  const auto any = [&](std::uint64_t most) { return random() % (most + 1); };
  for (int i = 0; i < 500; ++i) {
    View view = sample(any(60));
    view.offenders.resize(any(60), view.offenders.front());
    view.hottest.resize(any(60), view.hottest.front());
    view.tenants.resize(any(60), view.tenants.front());
    view.totals = {random(), any(9), random() >> any(63), any(9), random() >> any(63)};
    view.totals.memory >>= 3 + any(60);
    view.totals.disk >>= 3;
    view.totals.prefilled >>= 3;
    view.running.resize(any(40), view.running.front());
    view.problems.resize(any(3), std::string(any(200), 'x'));
    view.saved_s = any(1) ? std::ldexp(1.0, static_cast<int>(any(60))) : std::numeric_limits<double>::quiet_NaN();
    Look look{.list = kLists[any(3)],
              .chosen = any(70),
              .explains = any(1) == 1,
              .now_s = static_cast<double>(any(1'000'000))};
    const Size size{any(200), any(60)};
    const std::vector<Line> lines = frame(view, look, size);
    ASSERT_LE(lines.size(), size.rows);
    for (const Line& line : lines) ASSERT_LE(line.columns(), size.columns) << plain_text({line});
    ASSERT_LE(listed(view, look, size), entries_of(view, look.list));
  }
}

// No figure is cut at 40 columns and more: each is followed by a blank, a bracket or the line's end.
TEST(Frame, CutsNoFigureOnANarrowScreen) {
  View view = sample();
  view.totals = {899'000'000'000, 99'900'000'000, 0, 0, 99'900'000'000};
  view.again_tokens = 88'800'000'000;
  view.saved_s = 86'000;
  view.saved_ever_s = 8e6;
  view.past[0].tokens = {123'000, 0, 456'000, 0, 45'600};
  view.past[0].ttft_ms = 3'500'000;
  view.past[0].client = "a-client-with-a-long-name";
  view.past[0].id = "chatcmpl-0123456789abcdef01234567";
  view.offenders[0].times = 12'345;
  view.offenders[0].requests = 45'678;
  view.tiers[2].budget = 63ULL << 30;
  for (const std::size_t columns : {40U, 44U, 50U, 63U}) {
    std::string text;
    for (const List list : kLists) text += plain_text(frame(view, look_at(list), {columns, 30}));
    EXPECT_THAT(text, Not(HasSubstr("… live"))) << columns << "\n" << text;
    Look look = kLook;
    look.explains = true;
    text += plain_text(frame(view, look, {columns, 30}));
    for (const char* part :
         {"reused 90.9 % of 1.1T", "saved 23 h 53 min (92 d 14 h ever)", "prefilled 99.9G, 88.8G again",
          "of 32.8k tokens", "20 GiB of 63 GiB", "321 written, 31.2/s", "  579k  45.6k  58 min",
          "1.1M 12.3k of 45.7k volatile te", "12.3k     17    1 min 0123456789abcdef", "1.23k  75.0 %       250    now",
          "[2:causes]", "4:tenants", "p pauses", "░ prefilled", "chatcmpl-0123456789abcdef01234567", "reuse more"}) {
      EXPECT_THAT(text, HasSubstr(part)) << columns << "\n" << text;
    }
  }
}

TEST(Frame, DrawsSharesOfABarInTheirOrder) {
  View view = sample(1);
  view.past[0].tokens = {50, 25, 0, 0, 25};
  const std::string text = plain_text(frame(view, kLook, {120, 30}));
  const auto memory = text.rfind("█ memory");
  const std::string above = text.substr(0, memory);
  const auto count = [&](std::string_view glyph) {
    std::size_t found = 0;
    const std::string_view row = std::string_view(above).substr(above.rfind("opencode"));
    for (auto at = row.find(glyph); at != std::string_view::npos; at = row.find(glyph, at + glyph.size())) ++found;
    return found;
  };
  EXPECT_NEAR(static_cast<double>(count("█")), 2.0 * static_cast<double>(count("▓")), 1.5);
  EXPECT_NEAR(static_cast<double>(count("▓")), static_cast<double>(count("░")), 1.5);
  EXPECT_EQ(count("▒"), 0U);
}

TEST(Frame, FiguresAreReadAtAGlance) {
  EXPECT_EQ(compact(0), "0");
  EXPECT_EQ(compact(999), "999");
  EXPECT_EQ(compact(1'000), "1k");
  EXPECT_EQ(compact(12'345), "12.3k");
  EXPECT_EQ(compact(999'700), "1M");
  EXPECT_EQ(compact(4'560'000), "4.56M");
  EXPECT_EQ(bytes(0), "0 B");
  EXPECT_EQ(bytes(1'024), "1 KiB");
  EXPECT_EQ(bytes(2'104'533'975), "1.96 GiB");
  EXPECT_EQ(duration(0), "0 ms");
  EXPECT_EQ(duration(0.085), "85 ms");
  EXPECT_EQ(duration(0.9999), "1 s");
  EXPECT_EQ(duration(1.24), "1.24 s");
  EXPECT_EQ(duration(252), "4 min 12 s");
  EXPECT_EQ(duration(3'599.6), "1 h 0 min");
  EXPECT_EQ(duration(11'400), "3 h 10 min");
  EXPECT_EQ(duration(187'200), "2 d 4 h");
  EXPECT_EQ(duration(-1), "–");
}

}  // namespace
}  // namespace kvkeep::top
