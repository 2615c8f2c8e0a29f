#include "chat/jinja/formatting.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "chat/jinja/builtins.h"
#include "chat/jinja/unicode.h"
#include "chat/jinja/written.h"

namespace kvkeep::chat::jinja {
namespace {

constexpr std::int64_t kWidestField = 1'000'000;
constexpr std::int64_t kMostPrecise = 400;

std::string with_separators(std::string digits, char separator, std::size_t group) {
  const std::size_t whole = std::min(digits.find_first_not_of("0123456789abcdefABCDEF"), digits.size());
  for (std::size_t at = whole; at > group;) {
    at -= group;
    digits.insert(at, 1, separator);
  }
  return digits;
}

std::string integer_digits(std::uint64_t magnitude, const NumberFormat& format) {
  const int base = format.type == 'x' || format.type == 'X' ? 16 : format.type == 'o' ? 8 : format.type == 'b' ? 2 : 10;
  std::array<char, 65> buffer{};
  const char* end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), magnitude, base).ptr;
  std::string digits(buffer.data(), static_cast<std::size_t>(end - buffer.data()));
  const auto wanted = static_cast<std::size_t>(std::clamp<std::int64_t>(format.precision, 0, kMostPrecise));
  if (digits.size() < wanted) digits.insert(0, wanted - digits.size(), '0');
  if (format.thousands) digits = with_separators(digits, format.separator, base == 10 ? 3 : 4);
  if (format.alternate && base != 10) digits.insert(0, base == 16 ? "0x" : base == 8 ? "0o" : "0b");
  if (format.type == 'X')
    std::ranges::transform(digits, digits.begin(),
                           [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; });
  return digits;
}

std::string float_digits(double magnitude, const NumberFormat& format) {
  const bool percent = format.type == '%';
  const char type = percent ? 'f' : format.type;
  if (format.precision > kMostPrecise) fail_unsupported("a precision of more than 400 digits");
  const int precision = format.precision < 0 ? 6 : static_cast<int>(format.precision);
  const std::string pattern = std::string(format.alternate ? "%#.*" : "%.*") + type;
  std::array<char, 1024> buffer{};
  const int size =
      std::snprintf(buffer.data(), buffer.size(), pattern.c_str(), precision, percent ? magnitude * 100 : magnitude);
  std::string digits(buffer.data(), static_cast<std::size_t>(size));
  if (format.thousands) digits = with_separators(digits, format.separator, 3);
  return percent ? digits + "%" : digits;
}

}  // namespace

std::string formatted_number(const Value& value, const NumberFormat& format) {
  const bool integral = std::string_view("dboxX").contains(format.type) && format.type != '\0';
  bool negative = false;
  std::string digits;
  if (integral) {
    if (!value.is_integral()) fail("an integer is required, not ", type_name(value));
    const std::int64_t number = value.as_integer();
    negative = number < 0;
    digits =
        integer_digits(negative ? 0 - static_cast<std::uint64_t>(number) : static_cast<std::uint64_t>(number), format);
  } else {
    if (!value.is_number()) fail("must be real number, not ", type_name(value));
    const double number = value.as_double();
    negative = std::signbit(number);
    if (format.type == '\0') {
      digits = written_number(std::abs(number));
    } else if (std::string_view("eEfFgG%").contains(format.type)) {
      digits = float_digits(std::abs(number), format);
    } else {
      fail("Unknown format code '", std::string(1, format.type), "'");
    }
  }
  if (negative || format.sign != '-') digits.insert(digits.begin(), negative ? '-' : format.sign);
  return digits;
}

void append_padded(Interpreter& in, TextBuilder& builder, const Text& text, const NumberFormat& format,
                   char default_align) {
  if (format.width > kWidestField) fail_unsupported("a width of more than a million characters");
  const std::size_t size = count_characters(text.view());
  const std::size_t missing =
      static_cast<std::int64_t>(size) < format.width ? static_cast<std::size_t>(format.width) - size : 0;
  in.charge_bytes(missing + text.size());
  const auto fill = [&](std::size_t count) { builder.append(std::string(count, format.fill), Origin::kTemplate); };
  const char align = format.align == '\0' ? default_align : format.align;
  if (align == '=') {  // between the sign and the digits
    const bool sign = !text.empty() && (text.view()[0] == '-' || text.view()[0] == '+' || text.view()[0] == ' ');
    builder.append(text.part(0, sign ? 1 : 0));
    fill(missing);
    return builder.append(text.from(sign ? 1 : 0));
  }
  const std::size_t before = align == '<' ? 0 : align == '>' ? missing : missing / 2;
  fill(before);
  builder.append(text);
  fill(missing - before);
}

}  // namespace kvkeep::chat::jinja
