#include "text/terminal.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "base/test_seed.h"

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
