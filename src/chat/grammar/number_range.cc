#include "chat/grammar/number_range.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <utility>
#include <vector>

#include "chat/grammar/code_point_set.h"

namespace kvkeep::chat::grammar {
namespace {

constexpr std::size_t kMostDigits = 40;
constexpr std::size_t kUsualDigits = 15;  // numbers that differ in these are different doubles

std::string join(const std::vector<std::string>& ways) {
  std::string text;
  for (const std::string& way : ways) text += (text.empty() ? "" : " | ") + way;
  return text;
}

std::string digit_class(char first, char last) {
  return first == last ? GrammarBuilder::literal({&first, 1}) : std::string("[") + first + "-" + last + "]";
}

std::string any_digits(std::size_t count) {
  if (count == 0) return "";
  return count == 1 ? "[0-9]" : fmt::format("[0-9]{{{}}}", count);
}

bool all_are(std::string_view digits, char one) { return digits.find_first_not_of(one) == std::string_view::npos; }

// Numbers of one length from `low` to `high`, both of that length.
std::string same_length(GrammarBuilder& grammar, const std::string& low, const std::string& high) {
  if (low.empty()) return "\"\"";
  if (all_are(low, '0') && all_are(high, '9')) return any_digits(low.size());
  const std::string low_rest = low.substr(1);
  const std::string high_rest = high.substr(1);
  const auto with_first = [&](char first, const std::string& from, const std::string& to) {
    const std::string head = GrammarBuilder::literal({&first, 1});
    return from.empty() ? head : head + " " + grammar.add("digits", same_length(grammar, from, to));
  };
  if (low[0] == high[0]) return with_first(low[0], low_rest, high_rest);
  char first = low[0];
  char last = high[0];
  std::vector<std::string> ways;
  if (!all_are(low_rest, '0')) {
    ways.push_back(with_first(first, low_rest, std::string(low_rest.size(), '9')));
    ++first;
  }
  const bool whole_end = all_are(high_rest, '9');
  if (!whole_end) --last;
  if (first <= last) {
    const std::string rest = any_digits(low_rest.size());
    ways.push_back(digit_class(first, last) + (rest.empty() ? "" : " " + rest));
  }
  if (!whole_end) ways.push_back(with_first(high[0], std::string(high_rest.size(), '0'), high_rest));
  return join(ways);
}

bool less(const std::string& a, const std::string& b) { return a.size() != b.size() ? a.size() < b.size() : a < b; }

std::string plus_one(std::string digits) {
  for (std::size_t i = digits.size(); i-- > 0;) {
    if (digits[i] != '9') {
      ++digits[i];
      return digits;
    }
    digits[i] = '0';
  }
  return digits.insert(0, 1, '1');
}

// Precondition: digits is not "0".
std::string minus_one(std::string digits) {
  for (std::size_t i = digits.size(); i-- > 0;) {
    if (digits[i] != '0') {
      --digits[i];
      break;
    }
    digits[i] = '9';
  }
  if (digits.size() > 1 && digits[0] == '0') digits.erase(0, 1);
  return digits;
}

// Whole numbers from `low` to `high`; "" if there are none. Without `high`: a few digits more than a double has.
std::string magnitudes(GrammarBuilder& grammar, const std::string& low, const std::optional<std::string>& high) {
  if (high && less(*high, low)) return "";
  std::vector<std::string> ways;
  const std::size_t longest = high ? high->size() : low.size();
  for (std::size_t length = low.size(); length <= longest; ++length) {
    const std::string from = length == low.size() ? low : std::string(1, '1').append(length - 1, '0');
    const std::string to = high && length == longest ? *high : std::string(length, '9');
    ways.push_back(same_length(grammar, from, to));
  }
  if (!high) {
    const std::size_t most = std::max(low.size() + 1, kUsualDigits + 1);
    ways.push_back(fmt::format("[1-9] [0-9]{{{},{}}}", low.size(), most - 1));
  }
  return grammar.add("magnitude", join(ways));
}

// ---- after the point ----

// A bound on digits that are still to come; nullopt if earlier digits decided.
using Tight = std::optional<std::string>;

class Fractions {
 public:
  Fractions(GrammarBuilder& grammar, bool low_exclusive, bool high_exclusive)
      : grammar_(grammar), low_exclusive_(low_exclusive), high_exclusive_(high_exclusive) {}

  // Digits, maybe none, of a value between the bounds; at most `room` of them; "" if there are none.
  std::string digits(Tight low, const Tight& high, std::size_t room) {
    if (low && low->empty() && !low_exclusive_) low.reset();
    if (!low && !high) return room == 0 ? "\"\"" : fmt::format("[0-9]{{0,{}}}", room);
    std::vector<std::string> ways;
    if (room > 0) add_digits(low, high, room, ways);
    if (may_end(low, high)) ways.push_back("\"\"");
    return ways.empty() ? "" : grammar_.add("fraction", join(ways));
  }

  // The same, with its point, unless digits are left out.
  std::string with_point(const Tight& low, const Tight& high, std::size_t room) {
    std::vector<std::string> ways;
    if (room > 0) {
      std::vector<std::string> some;
      add_digits(low && low->empty() && !low_exclusive_ ? Tight() : low, high, room, some);
      if (!some.empty()) ways.push_back("\".\" " + grammar_.add("decimals", join(some)));
    }
    if (may_end(low, high)) ways.push_back("\"\"");
    return ways.empty() ? "" : grammar_.add("fraction", join(ways));
  }

 private:
  bool may_end(const Tight& low, const Tight& high) const {
    const bool above = !low || (low->empty() && !low_exclusive_);
    const bool below = !high || !high->empty() || !high_exclusive_;
    return above && below;
  }

  // At least one digit.
  void add_digits(const Tight& low, const Tight& high, std::size_t room, std::vector<std::string>& ways) {
    const char from = low && !low->empty() ? low->front() : '0';
    const char to = high ? (high->empty() ? '0' : high->front()) : '9';
    const auto rest = [](const std::string& digits) { return digits.empty() ? digits : digits.substr(1); };
    // Digits strictly between the bounds leave the rest free; those at a bound do not.
    char free_first = low ? static_cast<char>(from + 1) : from;
    char free_last = high ? static_cast<char>(to - 1) : to;
    for (char digit = from; digit <= to; ++digit) {
      if (digit >= free_first && digit <= free_last) continue;
      const Tight low_rest = low && digit == from ? Tight(rest(*low)) : Tight();
      const Tight high_rest = high && digit == to ? Tight(rest(*high)) : Tight();
      add_way(GrammarBuilder::literal({&digit, 1}), digits(low_rest, high_rest, room - 1), ways);
    }
    if (free_first <= free_last) add_way(digit_class(free_first, free_last), digits({}, {}, room - 1), ways);
  }

  static void add_way(const std::string& head, const std::string& rest, std::vector<std::string>& ways) {
    if (!rest.empty()) ways.push_back(rest == "\"\"" ? head : head + " " + rest);
  }

  GrammarBuilder& grammar_;
  bool low_exclusive_;
  bool high_exclusive_;
};

// Non-negative numbers from `low` to `high`; "" if there are none.
std::string decimals(GrammarBuilder& grammar, const NumberBound& low, const std::optional<NumberBound>& high,
                     std::size_t room) {
  Fractions fractions(grammar, low.exclusive, high && high->exclusive);
  std::vector<std::string> ways;
  const auto add = [&](const std::string& whole, const std::string& fraction) {
    if (!whole.empty() && !fraction.empty()) ways.push_back(fraction == "\"\"" ? whole : whole + " " + fraction);
  };
  const std::string& first = low.value.whole;
  if (high && high->value.whole == first) {
    add(GrammarBuilder::literal(first), fractions.with_point(low.value.fraction, high->value.fraction, room));
    return join(ways);
  }
  add(GrammarBuilder::literal(first), fractions.with_point(low.value.fraction, {}, room));
  const std::string between = plus_one(first);
  if (high) {
    if (high->value.whole != "0") {
      add(magnitudes(grammar, between, minus_one(high->value.whole)), fractions.with_point({}, {}, room));
    }
    add(GrammarBuilder::literal(high->value.whole), fractions.with_point({}, high->value.fraction, room));
  } else {
    add(magnitudes(grammar, between, {}), fractions.with_point({}, {}, room));
  }
  return join(ways);
}

Decimal without_sign(Decimal value) {
  value.negative = false;
  return value;
}

std::size_t digits_behind_the_point(const NumberRange& range) {
  std::size_t whole = 1;
  std::size_t fraction = 1;
  for (const auto& bound : {range.min, range.max}) {
    if (!bound) continue;
    whole = std::max(whole, bound->value.whole.size());
    fraction = std::max(fraction, bound->value.fraction.size() + 1);
  }
  return std::max(fraction, kUsualDigits - std::min(kUsualDigits - 1, whole));
}

Error no_such_number() { return invalid("no number is within the bounds"); }

// Both parts of the number line; `make(low, high)` writes the non-negative part between two bounds.
template <typename Make>
Result<std::string> both_signs(GrammarBuilder& grammar, const NumberRange& range, Make make) {
  if (range.min && range.max && compare(range.min->value, range.max->value) > 0) return no_such_number();
  std::vector<std::string> ways;
  const NumberBound zero;
  const bool negative_max = range.max && range.max->value.negative;
  if (!negative_max) {
    const NumberBound low = range.min && !range.min->value.negative ? *range.min : zero;
    ways.push_back(make(low, range.max));
  }
  if (!range.min || range.min->value.negative) {
    const NumberBound low = negative_max ? NumberBound{without_sign(range.max->value), range.max->exclusive}
                                         : NumberBound{zero.value, true};
    std::optional<NumberBound> high;
    if (range.min) high = NumberBound{without_sign(range.min->value), range.min->exclusive};
    const std::string part = make(low, high);
    if (!part.empty()) ways.push_back("\"-\" " + grammar.add("negative", part));
  }
  std::erase(ways, std::string());
  if (ways.empty()) return no_such_number();
  return ways.size() == 1 ? ways.front() : grammar.add("number", join(ways));
}

}  // namespace

Result<Decimal> read_decimal(std::string_view text) {
  Decimal value;
  value.negative = text.starts_with('-');
  if (value.negative) text.remove_prefix(1);
  std::int64_t exponent = 0;
  if (const std::size_t at = text.find_first_of("eE"); at != std::string_view::npos) {
    std::string_view written = text.substr(at + 1);
    if (written.starts_with('+')) written.remove_prefix(1);
    const auto [end, error] = std::from_chars(written.data(), written.data() + written.size(), exponent);
    if (error != std::errc() || end != written.data() + written.size()) return invalid("a bound is no number");
    text = text.substr(0, at);
  }
  const std::size_t point = std::min(text.find('.'), text.size());
  std::string whole(text.substr(0, point));
  std::string fraction(point < text.size() ? text.substr(point + 1) : std::string_view());
  constexpr std::int64_t kMost = kMostDigits;
  if (exponent > kMost || exponent < -kMost) return invalid("a bound has too many digits");
  for (; exponent > 0; --exponent) {
    whole += fraction.empty() ? '0' : fraction.front();
    if (!fraction.empty()) fraction.erase(0, 1);
  }
  for (; exponent < 0; ++exponent) {
    fraction.insert(fraction.begin(), whole.empty() ? '0' : whole.back());
    if (!whole.empty()) whole.pop_back();
  }
  whole.erase(0, std::min(whole.find_first_not_of('0'), whole.size()));
  fraction.erase(fraction.find_last_not_of('0') + 1);
  if (whole.size() > kMostDigits || fraction.size() > kMostDigits) return invalid("a bound has too many digits");
  value.whole = whole.empty() ? "0" : whole;
  value.fraction = fraction;
  if (value.whole == "0" && value.fraction.empty()) value.negative = false;
  return value;
}

int compare(const Decimal& a, const Decimal& b) {
  if (a.negative != b.negative) return a.negative ? -1 : 1;
  const int sign = a.negative ? -1 : 1;
  if (a.whole != b.whole) return less(a.whole, b.whole) ? -sign : sign;
  if (a.fraction == b.fraction) return 0;
  return a.fraction < b.fraction ? -sign : sign;  // without zeros at the end, digits compare as text
}

Result<std::string> integer_expression(GrammarBuilder& grammar, const NumberRange& range) {
  return both_signs(grammar, range, [&](const NumberBound& low, const std::optional<NumberBound>& high) {
    const bool above = low.exclusive || !low.value.fraction.empty();
    std::optional<std::string> last;
    if (high) {
      last = high->value.whole;
      if (high->exclusive && high->value.fraction.empty()) {
        if (*last == "0") return std::string();
        last = minus_one(*last);
      }
    }
    return magnitudes(grammar, above ? plus_one(low.value.whole) : low.value.whole, last);
  });
}

Result<std::string> number_expression(GrammarBuilder& grammar, const NumberRange& range,
                                      std::optional<std::size_t> most_digits) {
  const std::size_t room = most_digits.value_or(digits_behind_the_point(range));
  return both_signs(grammar, range, [&](const NumberBound& low, const std::optional<NumberBound>& high) {
    return decimals(grammar, low, high, room);
  });
}

std::string multiple_expression(GrammarBuilder& grammar, std::size_t step, bool may_be_negative) {
  std::vector<std::string> names;
  const std::string prefix = "multiple-" + std::to_string(step);
  const auto [first, fresh] = grammar.reserve_once(prefix, prefix);
  const auto name_of = [&](std::size_t remainder) { return prefix + "-" + std::to_string(remainder); };
  std::vector<std::string> states;
  for (std::size_t remainder = 0; remainder < step; ++remainder) {
    states.push_back(grammar.reserve_once(name_of(remainder), name_of(remainder)).first);
  }
  const auto ways_from = [&](std::size_t remainder, char first_digit) {
    std::vector<CodePointSet> digits(step);
    for (char digit = first_digit; digit <= '9'; ++digit) {
      digits[(remainder * 10 + static_cast<std::size_t>(digit - '0')) % step].add(static_cast<char32_t>(digit));
    }
    std::vector<std::string> ways;
    for (std::size_t next = 0; next < step; ++next) {
      if (!digits[next].empty()) ways.push_back(to_gbnf(digits[next]) + " " + states[next]);
    }
    return ways;
  };
  if (fresh) {
    for (std::size_t remainder = 0; remainder < step; ++remainder) {
      std::vector<std::string> ways = ways_from(remainder, '0');
      if (remainder == 0) ways.emplace_back("\"\"");
      grammar.define(states[remainder], join(ways));
    }
    grammar.define(first, join(ways_from(0, '1')));
  }
  const std::string sign = may_be_negative ? "\"-\"? " : "";
  return grammar.add("multiple", "\"0\" | " + sign + first);
}

}  // namespace kvkeep::chat::grammar
