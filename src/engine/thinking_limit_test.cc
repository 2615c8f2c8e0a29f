#include "engine/thinking_limit.h"

#include <gtest/gtest.h>

#include <vector>

namespace kvkeep::engine {
namespace {

ThinkingParams limit(std::size_t tokens, bool is_open = true) {
  return {.most_tokens = tokens, .is_open = is_open, .open = "<think>", .close = "</think>", .close_tokens = {7, 8}};
}

// How many of the pieces are the model's own before the thought is closed; all of them if it never is.
std::size_t own(ThinkingLimit& thinking, const std::vector<std::string>& pieces) {
  std::size_t count = 0;
  for (const std::string& piece : pieces) {
    if (thinking.forced()) break;
    thinking.accept(piece);
    ++count;
  }
  return count;
}

TEST(ThinkingLimit, ClosesWithItsTagAndThenLetsGo) {
  ThinkingLimit thinking(limit(2));
  EXPECT_EQ(own(thinking, {"a", "b", "c"}), 2U);
  EXPECT_EQ(thinking.forced(), 7);
  thinking.accept("</th");
  EXPECT_EQ(thinking.forced(), 8);
  thinking.accept("ink>");
  EXPECT_FALSE(thinking.forced());
  EXPECT_TRUE(thinking.is_done());
  EXPECT_EQ(own(thinking, {"a", "b", "c", "<think>", "d", "e", "f"}), 7U);
}

TEST(ThinkingLimit, NoneIsNone) {
  ThinkingLimit unlimited(
      ThinkingParams{.most_tokens = {}, .is_open = true, .open = "<t>", .close = "</t>", .close_tokens = {7}});
  EXPECT_TRUE(unlimited.is_done());
  ThinkingLimit none(limit(0));
  EXPECT_EQ(none.forced(), 7);
}

TEST(ThinkingLimit, AThoughtThatEndsByItselfIsLeftAlone) {
  ThinkingLimit thinking(limit(3));
  EXPECT_EQ(own(thinking, {"a", "x</thi", "nk>y", "b", "c", "d"}), 6U);
  EXPECT_TRUE(thinking.is_done());
}

TEST(ThinkingLimit, BeginsWithTheOpeningTag) {
  ThinkingLimit thinking(limit(1, false));
  EXPECT_EQ(own(thinking, {"\n", "<th", "ink>", "a", "b"}), 4U);
  ThinkingLimit answer(limit(1, false));
  EXPECT_EQ(own(answer, {"Well", " <think>", "a", "b"}), 4U);
  EXPECT_TRUE(answer.is_done());
}

TEST(ThinkingLimit, CutsNoCodePoint) {
  ThinkingLimit thinking(limit(2));
  EXPECT_EQ(own(thinking, {"a", "\xF0\x9F", "\x98", "\x80", "b"}), 4U);
  ThinkingLimit broken(limit(1));
  EXPECT_EQ(own(broken, {"\xF0", "\xF0", "\xF0", "\xF0", "\xF0", "\xF0", "\xF0"}), 5U);
}

// A limit that a client's wish replaces or comes before.
ThinkingParams until(const std::shared_ptr<std::atomic<bool>>& end_now, std::optional<std::size_t> tokens = {}) {
  ThinkingParams params = limit(0);
  params.most_tokens = tokens;
  params.end_now = end_now;
  return params;
}

TEST(ThinkingLimit, EndsWhenAClientWantsIt) {
  for (const std::optional<std::size_t> tokens : {std::optional<std::size_t>(), std::optional<std::size_t>(9)}) {
    const auto end_now = std::make_shared<std::atomic<bool>>(false);
    ThinkingLimit thinking(until(end_now, tokens));
    EXPECT_EQ(own(thinking, {"a", "b"}), 2U);
    *end_now = true;
    EXPECT_EQ(thinking.forced(), 7);
    thinking.accept("</th");
    EXPECT_EQ(thinking.forced(), 8);
    thinking.accept("ink>");
    EXPECT_TRUE(thinking.is_done());
  }
}

TEST(ThinkingLimit, AWishToEndItNeitherCutsACodePointNorAnAnswer) {
  const auto end_now = std::make_shared<std::atomic<bool>>(true);
  ThinkingLimit thinking(until(end_now));
  thinking.accept("\xC3");
  EXPECT_FALSE(thinking.forced());
  thinking.accept("\xA4");
  EXPECT_EQ(thinking.forced(), 7);
  ThinkingParams closed = until(end_now);
  closed.is_open = false;
  ThinkingLimit answer(closed);
  EXPECT_EQ(own(answer, {"Well", " a"}), 2U);
}

}  // namespace
}  // namespace kvkeep::engine
