#include "chat/stop_strings.h"

#include <gtest/gtest.h>

namespace kvkeep::chat {
namespace {

struct Outcome {
  std::string text;
  std::optional<std::string> found;
  bool operator==(const Outcome&) const = default;
};

// The naive twin: after each byte, look whether the text ends with a stop string.
Outcome naive(const std::vector<std::string>& stops, const std::string& text) {
  for (std::size_t end = 1; end <= text.size(); ++end) {
    std::optional<std::string> longest;
    for (const std::string& stop : stops) {
      if (!stop.empty() && text.substr(0, end).ends_with(stop) && (!longest || stop.size() > longest->size()))
        longest = stop;
    }
    if (longest) return {text.substr(0, end - longest->size()), longest};
  }
  return {text, std::nullopt};
}

// Feeds the text cut where `cuts` has a bit set.
Outcome fed(const std::vector<std::string>& stops, const std::string& text, std::size_t cuts) {
  StopStrings finder(stops);
  std::string out;
  std::size_t begin = 0;
  for (std::size_t end = 1; end <= text.size(); ++end) {
    if (end < text.size() && (cuts >> end & 1) == 0) continue;
    out += finder.feed(std::string_view(text).substr(begin, end - begin));
    begin = end;
  }
  return {out + finder.finish(), finder.found()};
}

TEST(StopStrings, AgreesWithItsTwinForAllShortTextsAndAllCuts) {
  const std::vector<std::vector<std::string>> sets = {{"ab"},      {"aab"},     {"aba", "b"},   {"abb", "bb"},
                                                      {"a", "ab"}, {"", "bab"}, {"aaaa", "ba"}, {}};
  for (const auto& stops : sets) {
    for (std::size_t number = 0; number < 128; ++number) {
      std::string text;
      for (std::size_t bit = 0; bit < 7; ++bit) text += (number >> bit & 1) != 0 ? 'b' : 'a';
      const Outcome expected = naive(stops, text);
      for (std::size_t cuts = 0; cuts < 128; ++cuts) ASSERT_EQ(fed(stops, text, cuts), expected) << text << " " << cuts;
    }
  }
}

TEST(StopStrings, LetsThroughWhatCannotBecomeAStop) {
  StopStrings finder({"\n\nUser:"});
  EXPECT_EQ(finder.feed("Hello\n"), "Hello");
  EXPECT_EQ(finder.feed("again\n\nUse"), "\nagain");
  EXPECT_EQ(finder.feed("less"), "\n\nUseless");
  EXPECT_EQ(finder.feed("\n\nUser: more"), "");
  EXPECT_EQ(finder.found(), "\n\nUser:");
  EXPECT_EQ(finder.feed("anything"), "");
  EXPECT_EQ(finder.finish(), "");
}

}  // namespace
}  // namespace kvkeep::chat
