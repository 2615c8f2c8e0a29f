// Strings and numbers, and whether a listed value fits the keywords next to it.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <utility>

#include "chat/grammar/pattern.h"
#include "chat/grammar/schema_writer.h"

namespace kvkeep::chat::grammar {
namespace {

constexpr std::int64_t kMostMultiples = 1'000;  // that are spelled out one by one

LengthBounds length_of(const Json& base) {
  LengthBounds bounds;
  if (const Json* least = find(base, "minLength")) bounds.min = static_cast<std::size_t>(least->get<double>());
  if (const Json* most = find(base, "maxLength")) bounds.max = static_cast<std::size_t>(most->get<double>());
  return bounds;
}

std::size_t code_points(const std::string& text) {
  std::size_t count = 0;
  for (std::size_t at = 0; at < text.size(); ++count) read_code_point(text, at);
  return count;
}

bool has_type(const Json& value, const std::string& type) {
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  if (type == "boolean") return value.is_boolean();
  if (type == "null") return value.is_null();
  if (type == "number") return value.is_number();
  return value.is_number_integer() ||
         (value.is_number_float() && std::trunc(value.get<double>()) == value.get<double>());
}

// Small enough for the counts below.
std::optional<std::int64_t> as_small_integer(const Decimal& value) {
  if (value.whole.size() > 15 || !value.fraction.empty()) return std::nullopt;
  const std::int64_t magnitude = std::stoll(value.whole);
  return value.negative ? -magnitude : magnitude;
}

// 10^-n as n.
std::optional<std::size_t> decimal_places(const Decimal& step) {
  const std::string& fraction = step.fraction;
  const bool is_power = step.whole == "0" && !fraction.empty() && fraction.back() == '1' &&
                        fraction.find_first_not_of('0') == fraction.size() - 1;
  return is_power ? std::optional(fraction.size()) : std::nullopt;
}

// The multiples within bounds, if both bounds exist and the multiples are few.
std::optional<std::string> listed_multiples(std::int64_t step, const NumberRange& range) {
  if (!range.min || !range.max) return std::nullopt;
  const auto low = as_small_integer(range.min->value);
  const auto high = as_small_integer(range.max->value);
  if (!low || !high || (*high - *low) / step > kMostMultiples) return std::nullopt;
  std::string ways;
  for (std::int64_t at = *low - *low % step - step; at <= *high; at += step) {
    const bool above = range.min->exclusive ? at > *low : at >= *low;
    const bool below = range.max->exclusive ? at < *high : true;
    if (above && below) ways += (ways.empty() ? "" : " | ") + GrammarBuilder::literal(std::to_string(at));
  }
  return ways;
}

bool no_bound_but_zero(const NumberRange& range) {
  return !range.max && (!range.min || (range.min->value == Decimal{} && !range.min->exclusive));
}

}  // namespace

Result<std::string> SchemaWriter::write_string(const Json& base, const std::string& path, const std::string& hint) {
  const LengthBounds length = length_of(base);
  if (length.max && *length.max < length.min) return std::string();
  const Json* pattern = find(base, "pattern");
  const Json* format = find(base, "format");
  std::string_view expected = format == nullptr ? "" : pattern_of_format(format->get_ref<const std::string&>());
  if (pattern != nullptr && !expected.empty()) {
    TRY(cannot(path, "'pattern' and 'format' cannot be enforced together"));
  }
  if (pattern != nullptr) expected = pattern->get_ref<const std::string&>();
  if (pattern != nullptr || !expected.empty()) {
    auto text = pattern_expression(grammar_, expected, length);
    if (text) return grammar_.add(hint, "\"\\\"\" " + *text + " \"\\\"\"");
    TRY(cannot(path, (pattern != nullptr ? "'pattern' cannot be enforced: " : "'format' cannot be enforced: ") +
                         text.error().message));
  }
  if (length.min == 0 && !length.max) return json_.string();
  return grammar_.add(hint, "\"\\\"\" " + grammar_.repeat(json_.character(), length.min, length.max) + " \"\\\"\"");
}

Result<NumberRange> SchemaWriter::range_of(const Json& base, const std::string& path) const {
  NumberRange range;
  const auto read = [&](const char* keyword, bool exclusive, bool is_min) -> Status {
    const Json* value = find(base, keyword);
    if (value == nullptr) return {};
    auto decimal = read_decimal(value->dump());
    if (!decimal) return error_at(path, fmt::format("'{}': {}", keyword, decimal.error().message));
    auto& bound = is_min ? range.min : range.max;
    const int order = bound ? compare(*decimal, bound->value) : 0;
    const bool tighter = !bound || (is_min ? order > 0 : order < 0) || (order == 0 && exclusive);
    if (tighter) bound = NumberBound{std::move(*decimal), exclusive};
    return {};
  };
  TRY(read("minimum", false, true));
  TRY(read("exclusiveMinimum", true, true));
  TRY(read("maximum", false, false));
  TRY(read("exclusiveMaximum", true, false));
  return range;
}

Result<std::string> SchemaWriter::write_number(const Json& base, bool integer, const std::string& path,
                                               const std::string& hint) {
  TRY_ASSIGN(std::string body, number_body(base, integer, path));
  return body.empty() ? body : grammar_.add(hint, std::move(body));
}

Result<std::string> SchemaWriter::number_body(const Json& base, bool integer, const std::string& path) {
  TRY_ASSIGN(const NumberRange range, range_of(base, path));
  if (base.contains("multipleOf")) {
    TRY_ASSIGN(std::string multiples, multiple_body(base, range, integer, path));
    if (multiples != "none") return multiples;
  }
  if (!range.min && !range.max) return integer ? json_.integer() : json_.number();
  const auto body = integer ? integer_expression(grammar_, range) : number_expression(grammar_, range, {});
  return body ? *body : std::string();  // no number is within the bounds
}

// "none": the keyword restricts nothing, or is skipped.
Result<std::string> SchemaWriter::multiple_body(const Json& base, const NumberRange& range, bool integer,
                                                const std::string& path) {
  auto step = read_decimal(base["multipleOf"].dump());
  if (!step) return error_at(path, "'multipleOf': " + step.error().message);
  if (step->negative || *step == Decimal{}) return error_at(path, "'multipleOf' must be greater than 0");
  if (const auto places = decimal_places(*step)) {
    if (integer) return std::string("none");
    const auto body = number_expression(grammar_, range, *places);
    return body ? *body : std::string();
  }
  const auto whole = as_small_integer(*step);
  if (whole == 1) {
    if (integer) return std::string("none");
    const auto body = range.min || range.max ? integer_expression(grammar_, range) : Result(json_.integer());
    return body ? *body : std::string();
  }
  if (whole) {
    if (const auto listed = listed_multiples(*whole, range)) return *listed;
    if (static_cast<std::size_t>(*whole) <= kLargestStep && no_bound_but_zero(range)) {
      return multiple_expression(grammar_, static_cast<std::size_t>(*whole), !range.min);
    }
  }
  TRY(cannot(path, "this 'multipleOf' cannot be enforced"));
  return std::string("none");
}

Result<bool> SchemaWriter::is_valid_text(const Json& base, const std::string& text, const std::string& path) const {
  const LengthBounds length = length_of(base);
  const std::size_t count = code_points(text);
  if (count < length.min || count > length.max.value_or(count)) return false;
  const auto matches = [&](std::string_view pattern) -> Result<bool> {
    const auto found = matches_pattern(pattern, text);
    if (found) return *found;
    TRY(cannot(path, "'pattern' cannot be enforced: " + found.error().message));
    return true;
  };
  const Json* format = find(base, "format");
  const std::string_view of_format = format == nullptr ? "" : pattern_of_format(format->get_ref<const std::string&>());
  if (!of_format.empty()) {
    TRY_ASSIGN(const bool found, matches(of_format));
    if (!found) return false;
  }
  const Json* pattern = find(base, "pattern");
  return pattern == nullptr ? true : matches(pattern->get_ref<const std::string&>());
}

Result<bool> SchemaWriter::is_valid_value(const Json& base, const Json& value, const std::string& path) const {
  if (const Json* types = find(base, "type")) {
    const bool fits = std::ranges::any_of(
        *types, [&](const Json& type) { return has_type(value, type.get_ref<const std::string&>()); });
    if (!fits) return false;
  }
  if (value.is_string()) {
    return is_valid_text(base, value.get_ref<const std::string&>(), path);
  }
  if (value.is_number()) {
    if (base.contains("multipleOf")) TRY(cannot(path, "'multipleOf' cannot be enforced beside 'enum' or 'const'"));
    TRY_ASSIGN(const NumberRange range, range_of(base, path));
    TRY_ASSIGN(const Decimal number, read_decimal(value.dump()));
    const int above = range.min ? compare(number, range.min->value) : 1;
    const int below = range.max ? compare(number, range.max->value) : -1;
    const bool high_enough = above > 0 || (above == 0 && !range.min->exclusive);
    return high_enough && (below < 0 || (below == 0 && !range.max->exclusive));
  }
  if (!value.is_structured()) return true;
  for (const auto& [keyword, ignored] : base.items()) {
    if (is_annotation(keyword) || keyword == "type" || keyword == "enum") continue;
    TRY(cannot(path, fmt::format("'{}' cannot be enforced beside 'enum' or 'const'", keyword)));
  }
  return true;
}

// ---- formats that are enforced, each as a pattern ----

namespace {

struct Format {
  std::string_view name;
  std::string_view pattern;
};

// Existing days: 29 February only in leap years. No year 0, which date libraries do not accept.
#define KVKEEP_YEAR "(?:000[1-9]|00[1-9][0-9]|0[1-9][0-9]{2}|[1-9][0-9]{3})"
#define KVKEEP_LEAP_YEAR "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)"
#define KVKEEP_DATE                                                                                                    \
  "(?:" KVKEEP_YEAR                                                                                                    \
  "-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]" \
  "))"                                                                                                                 \
  "|" KVKEEP_LEAP_YEAR "-02-29)"
#define KVKEEP_TIME \
  "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,9})?(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
#define KVKEEP_OCTET "(?:[0-9]|[1-9][0-9]|1[0-9]{2}|2[0-4][0-9]|25[0-5])"
#define KVKEEP_LABEL "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"

constexpr std::array kFormats = std::to_array<Format>({
    {"date", "^" KVKEEP_DATE "$"},
    {"time", "^" KVKEEP_TIME "$"},
    {"date-time", "^" KVKEEP_DATE "T" KVKEEP_TIME "$"},
    {"uuid", "^[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}$"},
    {"ipv4", "^" KVKEEP_OCTET "(?:\\." KVKEEP_OCTET "){3}$"},
    {"email", "^[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]{1,32}(?:\\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]{1,15}){0,2}@" KVKEEP_LABEL
              "(?:\\." KVKEEP_LABEL "){1,3}$"},
    {"hostname", "^" KVKEEP_LABEL "(?:\\." KVKEEP_LABEL "){0,3}$"},
});

}  // namespace

std::string_view pattern_of_format(std::string_view format) {
  for (const Format& known : kFormats) {
    if (known.name == format) return known.pattern;
  }
  return "";
}

}  // namespace kvkeep::chat::grammar
