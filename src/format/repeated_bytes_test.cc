#include "format/repeated_bytes.h"

#include <gtest/gtest.h>

#include <string_view>

namespace kvkeep::format {
namespace {

std::size_t repeated(std::string_view base, std::string_view fresh) {
  const auto bytes = [](std::string_view text) { return std::as_bytes(std::span(text.data(), text.size())); };
  return repeated_bytes(bytes(base), bytes(fresh), 3);
}

TEST(RepeatedBytes, CountsEachByteOfAKnownWindowOnce) {
  EXPECT_EQ(repeated("abcdef", "abcdef"), 6U) << "windows that overlap";
  EXPECT_EQ(repeated("abcdef", "xxdefxabcx"), 6U) << "at whatever place";
  EXPECT_EQ(repeated("abcdef", "abxcdx"), 0U) << "shorter than a window";
  EXPECT_EQ(repeated("abc", "abcabc"), 6U);
  EXPECT_EQ(repeated("abcd", "xabcdx"), 4U);
  EXPECT_EQ(repeated("", "abc"), 0U);
  EXPECT_EQ(repeated("ab", "ab"), 0U);
  EXPECT_EQ(repeated("abc", ""), 0U);
}

}  // namespace
}  // namespace kvkeep::format
