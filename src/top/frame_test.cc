#include "top/frame.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>

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
  view.ratio = 1.02;
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
  return view;
}

const Look kLook{.now_s = 1'002};

TEST(Frame, ShowsEachPartAtTheSizeOfAnOldTerminal) {
  const std::string text = plain_text(frame(sample(), kLook, {80, 24}));
  for (const char* part :
       {"kvkeep top  small.gguf  sliceable  up 1 h 7 min", "live", "reused 97.0 % of 1M", "prefilled 30k (1.02x)",
        "saved 12 min 30 s (1 d 1 h ever)", "1.5k of 32.8k tokens", "3 GiB of 8 GiB", "Running 1, waiting 1",
        "321 written, 31.2/s", "9.05k     40  1.24 s", "volatile text", "failed", "q quits"}) {
    EXPECT_THAT(text, HasSubstr(part)) << text;
  }
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
  for (const char* part : {"Why req-2 reused no more", "volatile text, in system, from token 2,118 on",
                           "It cost 4,100 tokens, 12.4 s.", "Put the date at the end"}) {
    EXPECT_THAT(text, HasSubstr(part)) << text;
  }
}

TEST(Frame, KeepsTheChosenRequestInView) {
  for (std::size_t chosen = 0; chosen < 100; ++chosen) {
    Look look = kLook;
    look.chosen = chosen;
    std::size_t marked = 0;
    for (const Line& line : frame(sample(100), look, {80, 24})) marked += line.chosen ? 1 : 0;
    EXPECT_EQ(marked, 1U) << chosen;
  }
}

TEST(Frame, SaysThatTheServerDoesNotAnswer) {
  Look look = kLook;
  look.trouble = "no connection to 127.0.0.1:8080";
  const std::string text = plain_text(frame(sample(), look, {80, 24}));
  EXPECT_THAT(text, HasSubstr("no connection to 127.0.0.1:8080"));
  EXPECT_THAT(text, HasSubstr("small.gguf")) << "the last figures stay";
}

TEST(Frame, SendsNothingThatATerminalObeys) {
  View view = sample();
  view.model = "\x1b[2J\x1b]0;title\x07";
  view.past[0].client = "\x1b[31m\xff\xfe";
  view.past[0].cause->kind = "\r\n\t\x9b";
  view.problems = {
      "a\x1b"
      "b"};
  const std::string text = plain_text(frame(view, kLook, {80, 24}));
  for (const char byte : text)
    EXPECT_TRUE(byte == '\n' || static_cast<unsigned char>(byte) >= ' ') << static_cast<int>(byte);
  EXPECT_THAT(text, Not(HasSubstr("\x7f")));
}

// No line is wider than the terminal, and no more lines than rows, at any size and whatever the figures are.
TEST(Frame, FitsIntoAnyTerminal) {
  std::mt19937_64 random(test_seed());
  const auto any = [&](std::uint64_t most) { return random() % (most + 1); };
  for (int i = 0; i < 500; ++i) {
    View view = sample(any(60));
    view.totals = {random(), any(9), random() >> any(63), any(9), random() >> any(63)};
    view.totals.memory >>= 3 + any(60);
    view.totals.disk >>= 3;
    view.totals.prefilled >>= 3;
    view.running.resize(any(40), view.running.front());
    view.problems.resize(any(3), std::string(any(200), 'x'));
    view.saved_s = any(1) ? std::ldexp(1.0, static_cast<int>(any(60))) : std::numeric_limits<double>::quiet_NaN();
    Look look{.chosen = any(70), .explains = any(1) == 1, .now_s = static_cast<double>(any(1'000'000))};
    const Size size{any(200), any(60)};
    const std::vector<Line> lines = frame(view, look, size);
    ASSERT_LE(lines.size(), size.rows);
    for (const Line& line : lines) ASSERT_LE(line.columns(), size.columns) << plain_text({line});
    ASSERT_LE(listed_past(view, look, size), view.past.size());
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
