#include "text/terminal.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "base/test_seed.h"
#include "base/unicode.h"

namespace kvkeep::text {
namespace {

TEST(Printable, KeepsWhatIsPrintable) {
  const std::string text = "plain é 中文 😀 e\u0301";
  EXPECT_EQ(printable(text, 100), text);
}

TEST(Printable, ReplacesControlsAndMarksOfDirection) {
  EXPECT_EQ(printable("a\tb\r\nc\x1b[0m\x7f", 100), "a b  c\uFFFD[0m\uFFFD");
  EXPECT_EQ(printable(std::string_view("a\0b", 3), 100), "a\uFFFDb");
  EXPECT_EQ(printable("a\u202Eb\u2066c\u0085d\u2028e\uFEFF", 100), "a\uFFFDb\uFFFDc\uFFFDd e\uFFFD");
}

TEST(Printable, ReplacesEachByteThatIsNoUtf8) {
  EXPECT_EQ(printable("\xff\xfe", 100), "\uFFFD\uFFFD");
  EXPECT_EQ(printable("\xc3(", 100), "\uFFFD(");
  EXPECT_EQ(printable("\xc0\xaf", 100), "\uFFFD\uFFFD") << "an overlong slash";
  EXPECT_EQ(printable("\xed\xa0\x80", 100), "\uFFFD\uFFFD\uFFFD") << "a surrogate";
  EXPECT_EQ(printable("\xf4\x90\x80\x80", 100), "\uFFFD\uFFFD\uFFFD\uFFFD") << "above U+10FFFF";
  EXPECT_EQ(printable("\xe4\xb8", 100), "\uFFFD\uFFFD") << "cut in the middle";
}

TEST(Printable, ShortensByCharacters) {
  EXPECT_EQ(printable("中文中文", 4), "中文中文");
  EXPECT_EQ(printable("中文中文中", 4), "中文中…");
  EXPECT_EQ(printable("ab", 1), "…");
  EXPECT_EQ(printable("", 1), "");
}

// The result for any bytes is UTF-8 that stays as it is.
TEST(Printable, IsStableOnRandomBytes) {
  std::mt19937_64 random(test_seed());
  for (int round = 0; round < 2'000; ++round) {
    std::string bytes(random() % 40, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random() % 4 == 0 ? 'a' : random());
    const std::string once = printable(bytes, 1000);
    EXPECT_EQ(printable(once, 1000), once);
    EXPECT_LE(columns_of(cut_to_columns(once, 7)), 7u);
  }
}

// Every character that steers a terminal or turns the direction of text: C0, DEL, C1, and the marks of direction.
std::vector<char32_t> steering_characters() {
  std::vector<char32_t> all{0x7F, 0x061C, 0x200E, 0x200F, 0x2028, 0x2029, 0xFEFF};
  for (char32_t c = 0; c < 0x20; ++c) all.push_back(c);
  for (char32_t c = 0x80; c < 0xA0; ++c) all.push_back(c);
  for (char32_t c = 0x202A; c <= 0x202E; ++c) all.push_back(c);
  for (char32_t c = 0x2066; c <= 0x2069; ++c) all.push_back(c);
  return all;
}

std::string in_utf8(char32_t character) {
  std::string text;
  append_character(text, character);
  return text;
}

TEST(Printable, LetsNoSteeringCharacterThrough) {
  for (const char32_t character : steering_characters()) {
    const std::string steering = in_utf8(character);
    const std::string text = "a" + steering + "b";
    EXPECT_EQ(printable(text, 100).find(steering), std::string::npos) << std::hex << std::uint32_t{character};
    if (character == '\n' || character == '\t') continue;
    EXPECT_EQ(escaped(text), fmt::format("a\\u{:04x}b", std::uint32_t{character}));
  }
  for (int byte = 0x80; byte <= 0xFF; ++byte) {
    EXPECT_EQ(escaped(std::string(1, static_cast<char>(byte))), "\uFFFD") << "in Latin-1, 0x9b begins a command";
  }
}

TEST(Escaped, KeepsLinesAndWhatIsPrintable) {
  EXPECT_EQ(escaped("a\tb é 中\nc"), "a\tb é 中\nc");
  EXPECT_EQ(escaped("one\nerror two\r\n", 2), "one\n  error two\\u000d\n  ") << "no line of its own";
  EXPECT_EQ(escaped(R"({"a":"\u001b \"x\""})"), R"({"a":"\u001b \"x\""})");
  EXPECT_EQ(escaped("{\"a\":\"\u009b\"}"), R"({"a":"\u009b"})") << "JSON stays the same JSON";
}

TEST(Columns, CountsWideAndCombining) {
  EXPECT_EQ(columns_of("abc"), 3u);
  EXPECT_EQ(columns_of("中文"), 4u);
  EXPECT_EQ(columns_of("😀"), 2u);
  EXPECT_EQ(columns_of("e\u0301"), 1u);
}

TEST(Columns, CutsWithAnEllipsis) {
  EXPECT_EQ(cut_to_columns("abcdef", 6), "abcdef");
  EXPECT_EQ(cut_to_columns("abcdefg", 6), "abcde…");
  EXPECT_EQ(cut_to_columns("中文中", 4), "中…") << "half a character does not exist";
}

TEST(Numbers, ReadWellAtAnySize) {
  EXPECT_EQ(measured(0.0821), "0.082");
  EXPECT_EQ(measured(0.0000123), "1.23e-05");
  EXPECT_EQ(measured(7.905), "7.905");
  EXPECT_EQ(measured(98.349), "98.35");
  EXPECT_EQ(measured(1291.4), "1291");
  EXPECT_EQ(measured(-0.0), "0.000");
  EXPECT_EQ(fixed(1.0004, 3), "1.000");
  EXPECT_EQ(fixed(std::numeric_limits<double>::quiet_NaN(), 3), "n/a");
  EXPECT_EQ(fixed(-std::numeric_limits<double>::infinity(), 3), "n/a");
  EXPECT_EQ(fixed(1e308, 3), "1.000e+308");
  EXPECT_EQ(grouped(0), "0");
  EXPECT_EQ(grouped(999), "999");
  EXPECT_EQ(grouped(24'860), "24,860");
  EXPECT_EQ(grouped(18446744073709551615u), "18,446,744,073,709,551,615");
  EXPECT_EQ(memory_size(std::uint64_t{24} << 30), "24 GiB");
  EXPECT_EQ(memory_size(std::uint64_t{1} << 29), "0.5 GiB");
}

TEST(Numbers, AreShort) {
  std::mt19937_64 random(test_seed());
  for (int round = 0; round < 10'000; ++round) {
    const double value = std::bit_cast<double>(random());
    EXPECT_LE(fixed(value, 3).size(), 20u) << value;
    EXPECT_LE(measured(value).size(), 20u) << value;
  }
}

}  // namespace
}  // namespace kvkeep::text
