// int, float, round, abs, sum, min, max, filesizeformat.

#include <algorithm>
#include <charconv>
#include <cmath>

#include "chat/jinja/builtins.h"
#include "chat/jinja/operators.h"

namespace kvkeep::chat::jinja {
namespace {

// Removes white space, and single underscores between digits; nullopt if an underscore stands elsewhere.
std::optional<std::string> number_text(std::string_view text) {
  const Core core = strip_space(text, true, true);
  std::string result;
  const std::string_view inner = text.substr(core.begin, core.size);
  for (std::size_t i = 0; i < inner.size(); ++i) {
    if (inner[i] != '_') {
      result.push_back(inner[i]);
      continue;
    }
    const auto alphanumeric = [&](std::size_t at) {
      return at < inner.size() && std::isalnum(static_cast<unsigned char>(inner[at])) != 0;
    };
    if (i == 0 || !alphanumeric(i - 1) || !alphanumeric(i + 1)) return std::nullopt;
  }
  return result;
}

std::optional<std::int64_t> parse_integer(std::string_view text, std::int64_t base) {
  const auto cleaned = number_text(text);
  if (!cleaned) return std::nullopt;
  std::string_view digits = *cleaned;
  const bool negative = digits.starts_with('-');
  if (negative || digits.starts_with('+')) digits.remove_prefix(1);
  if (digits.size() > 2 && digits[0] == '0') {
    const char letter = static_cast<char>(digits[1] | 0x20);
    const std::int64_t prefixed = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 0;
    if (prefixed != 0 && (base == prefixed || base == 0)) {
      digits.remove_prefix(2);
      base = prefixed;
    }
  }
  if (base == 0) base = 10;
  if (base < 2 || base > 36 || digits.empty() || digits[0] == '-' || digits[0] == '+') return std::nullopt;
  std::string signed_digits(digits);
  if (negative) signed_digits.insert(signed_digits.begin(), '-');
  std::int64_t number = 0;
  const char* end = signed_digits.data() + signed_digits.size();
  const auto [stop, code] = std::from_chars(signed_digits.data(), end, number, static_cast<int>(base));
  if (code == std::errc::result_out_of_range) fail("integer overflow: integers have 64 bits here");
  if (code != std::errc() || stop != end) return std::nullopt;
  return number;
}

std::optional<double> parse_float(std::string_view text) {
  const auto cleaned = number_text(text);
  if (!cleaned) return std::nullopt;
  std::string_view digits = *cleaned;
  if (digits.starts_with('+')) digits.remove_prefix(1);
  if (digits.empty() || digits.starts_with("+") || digits.starts_with("-+") || digits.contains('('))
    return std::nullopt;
  double number = 0;
  const auto [stop, code] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (stop != digits.data() + digits.size()) return std::nullopt;
  if (code == std::errc::result_out_of_range) {
    const bool tiny = digits.contains("e-") || digits.contains("E-");
    return std::copysign(tiny ? 0.0 : INFINITY, digits.starts_with('-') ? -1.0 : 1.0);
  }
  return number;
}

std::optional<std::int64_t> truncated(double number) {
  if (!std::isfinite(number)) return std::nullopt;
  if (!(std::abs(number) < 9223372036854775808.0)) fail("integer overflow: integers have 64 bits here");
  return static_cast<std::int64_t>(number);
}

Value filter_int(Interpreter& /*in*/, const Value& self, const Arguments& arguments) {
  const auto [fallback, base] = place<2>("int", arguments, {"default", "base"});
  const Value absent = fallback == nullptr ? Value::integer(0) : *fallback;
  std::optional<std::int64_t> number;
  if (self.is_integral()) {
    number = self.as_integer();
  } else if (self.is(Kind::kFloat)) {
    number = truncated(self.as_double());
  } else if (self.is_undefined()) {
    fail(self.absence());
  } else if (self.is_text()) {
    number = parse_integer(self.as_view(), integer_argument(base, 10));
    if (!number) {
      if (const auto real = parse_float(self.as_view())) number = truncated(*real);
    }
  }
  return number ? Value::integer(*number) : absent;
}

Value filter_float(Interpreter& /*in*/, const Value& self, const Arguments& arguments) {
  const auto [fallback] = place<1>("float", arguments, {"default"});
  const Value absent = fallback == nullptr ? Value::number(0) : *fallback;
  if (self.is_number()) return Value::number(self.as_double());
  if (self.is_undefined()) fail(self.absence());
  if (!self.is_text()) return absent;
  const auto number = parse_float(self.as_view());
  return number ? Value::number(*number) : absent;
}

double rounded_half_even(double number, std::int64_t precision) {
  if (!std::isfinite(number) || precision > 320) return number;
  if (precision < 0) {
    const double scale = std::pow(10.0, static_cast<double>(-precision));
    return std::isfinite(scale) ? std::nearbyint(number / scale) * scale : 0.0;
  }
  std::array<char, 800> buffer{};
  const int size = std::snprintf(buffer.data(), buffer.size(), "%.*f", static_cast<int>(precision), number);
  double result = 0;
  std::from_chars(buffer.data(), buffer.data() + size, result);
  return result;
}

Value rounded_integer(std::int64_t number, std::int64_t precision) {
  if (precision >= 0) return Value::integer(number);
  if (precision < -18) return Value::integer(0);
  std::int64_t scale = 1;
  for (std::int64_t i = 0; i > precision; --i) scale *= 10;
  std::int64_t rest = number % scale;
  if (rest < 0) rest += scale;
  std::int64_t result = 0;
  bool over = __builtin_sub_overflow(number, rest, &result);
  const bool odd = (result / scale) % 2 != 0;
  if (rest > scale - rest || (rest == scale - rest && odd)) over |= __builtin_add_overflow(result, scale, &result);
  if (over) fail("integer overflow: integers have 64 bits here");
  return Value::integer(result);
}

Value filter_round(Interpreter& in, const Value& self, const Arguments& arguments) {
  const auto [precision, method] = place<2>("round", arguments, {"precision", "method"});
  const std::int64_t digits = integer_argument(precision, 0);
  const std::string_view how = method == nullptr ? "common" : text_argument(*method).view();
  if (how != "common" && how != "ceil" && how != "floor") fail("method must be common, ceil or floor");
  if (self.is_undefined()) fail(self.absence());
  if (!self.is_number()) fail("type ", type_name(self), " doesn't define __round__ method");
  if (how == "common") {
    return self.is_integral() ? rounded_integer(self.as_integer(), digits)
                              : Value::number(rounded_half_even(self.as_double(), digits));
  }
  const Value scale = binary(in, BinaryOperator::kPower, Value::integer(10), Value::integer(digits));
  const Value scaled = binary(in, BinaryOperator::kMultiply, self, scale);
  const double edge = how == "ceil" ? std::ceil(scaled.as_double()) : std::floor(scaled.as_double());
  const auto whole = truncated(edge);
  if (!whole) fail("cannot convert float infinity or NaN to integer");
  return binary(in, BinaryOperator::kDivide, Value::integer(*whole), scale);
}

Value filter_abs(Interpreter& /*in*/, const Value& self, const Arguments& arguments) {
  place<0>("abs", arguments, {});
  if (self.is(Kind::kFloat)) return Value::number(std::abs(self.as_double()));
  if (self.is_integral()) return self.as_integer() < 0 ? negative(self) : positive(self);
  if (self.is_undefined()) fail(self.absence());
  fail("bad operand type for abs(): '", type_name(self), "'");
}

Value filter_sum(Interpreter& in, const Value& self, const Arguments& arguments) {
  const auto [attribute, start] = place<2>("sum", arguments, {"attribute", "start"});
  Value total = start == nullptr ? Value::integer(0) : *start;
  if (total.is_text()) fail("sum() can't sum strings [use ''.join(seq) instead]");
  const bool whole = attribute == nullptr || attribute->is(Kind::kNone);
  for (const Value& item : in.items_of(self)) {
    in.charge(1);
    total = binary(in, BinaryOperator::kAdd, total, whole ? item : attribute_path(in, item, *attribute));
  }
  return total;
}

Value extreme(Interpreter& in, const Value& self, const Arguments& arguments, bool largest) {
  const auto [sensitive, attribute] = place<2>(largest ? "max" : "min", arguments, {"case_sensitive", "attribute"});
  const std::span<const Value> items = in.items_of(self);
  if (items.empty()) return Value::undefined("No aggregated item, sequence was empty.", Absence::kMessage);
  const SortKey key{attribute, bool_argument(sensitive, false)};
  Value best = items.front();
  Value best_key = key.of(in, best);
  for (const Value& item : items.subspan(1)) {
    in.charge(1);
    const Value item_key = key.of(in, item);
    if (largest ? less_than(best_key, item_key, ">") : less_than(item_key, best_key)) {
      best = item;
      best_key = item_key;
    }
  }
  return best;
}

Value filter_min(Interpreter& in, const Value& self, const Arguments& arguments) {
  return extreme(in, self, arguments, false);
}

Value filter_max(Interpreter& in, const Value& self, const Arguments& arguments) {
  return extreme(in, self, arguments, true);
}

constexpr NamedBuiltin kNumberFilters[] = {{"int", filter_int}, {"float", filter_float}, {"round", filter_round},
                                           {"abs", filter_abs}, {"sum", filter_sum},     {"min", filter_min},
                                           {"max", filter_max}};

}  // namespace

std::span<const NamedBuiltin> number_filters() { return kNumberFilters; }

}  // namespace kvkeep::chat::jinja
