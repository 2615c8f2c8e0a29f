// One rule per type: strings and numbers, whether a listed value fits the keywords next to it, objects and arrays.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <map>
#include <utility>

#include "chat/grammar/code_point_set.h"
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
    if (base.contains("multipleOf")) TRY(cannot(path, "'multipleOf' cannot be enforced next to 'enum' or 'const'"));
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
    TRY(cannot(path, fmt::format("'{}' cannot be enforced next to 'enum' or 'const'", keyword)));
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

// Objects: declared properties in order, each optional or not, then others. Arrays follow them.

namespace {

std::size_t count_of(const Json& base, std::string_view keyword, std::size_t otherwise) {
  const Json* value = find(base, keyword);
  return value == nullptr ? otherwise : static_cast<std::size_t>(value->get<double>());
}

// Texts that are none of `names`: a rule for each beginning that they share. Every character is written in one way, so
// that no escape spells a name otherwise.
std::string none_of(GrammarBuilder& grammar, const std::vector<std::u32string_view>& names) {
  std::map<char32_t, std::vector<std::u32string_view>> next;
  bool may_end = true;
  for (const std::u32string_view name : names) {
    if (name.empty()) {
      may_end = false;
    } else {
      next[name.front()].push_back(name.substr(1));
    }
  }
  CodePointSet known;
  std::string body;
  for (const auto& [character, rest] : next) {
    known.add(character);
    CodePointSet one;
    one.add(character);
    body += json_character(one) + " " + none_of(grammar, rest) + " | ";
  }
  const std::string any = grammar.add("key-char", json_character(CodePointSet::all()));
  body += grammar.add("other-char", json_character(known.complement())) + " " + any + "*";
  if (may_end) body += " | \"\"";
  return grammar.add("other-key", std::move(body));
}

}  // namespace

Result<std::string> SchemaWriter::write_object(const Json& base, const std::string& path, const std::string& hint) {
  return inside([&]() -> Result<std::string> {
    const bool free = !base.contains("properties") && !base.contains("required") &&
                      !base.contains("additionalProperties") && !base.contains("patternProperties") &&
                      !base.contains("propertyNames") && !base.contains("minProperties") &&
                      !base.contains("maxProperties");
    if (free) return json_.object();
    TRY_ASSIGN(const std::vector<Member> members, members_of(base, path, hint));
    const bool impossible =
        std::ranges::any_of(members, [](const Member& member) { return member.required && member.value.empty(); });
    if (impossible) return std::string();
    std::vector<Member> possible;
    std::ranges::copy_if(members, std::back_inserter(possible),
                         [](const Member& member) { return !member.value.empty(); });
    TRY_ASSIGN(const Others others, others_of(base, members, path, hint));
    const auto required = static_cast<std::size_t>(std::ranges::count_if(members, &Member::required));
    if (count_of(base, "maxProperties", required) < required) return std::string();
    return grammar_.add(hint, object_body(possible, others, hint));
  });
}

Result<std::vector<SchemaWriter::Member>> SchemaWriter::members_of(const Json& base, const std::string& path,
                                                                   const std::string& hint) {
  std::vector<Member> members;
  const auto add = [&](const std::string& name, const Json& schema, bool required) -> Status {
    TRY_ASSIGN(std::string value, visit(schema, path + ".properties." + name, hint + "-" + name));
    members.push_back({.name = name, .value = std::move(value), .required = required});
    return {};
  };
  static const Json kNone = Json::array();
  static const Json kNoProperties = Json::object();
  const Json* required_names = find(base, "required");
  const Json& required = required_names == nullptr ? kNone : *required_names;
  const Json* declared = find(base, "properties");
  const Json& properties = declared == nullptr ? kNoProperties : *declared;
  std::set<std::string, std::less<>> demanded;
  for (const Json& name : required) demanded.insert(name.get<std::string>());
  for (const auto& [name, schema] : properties.items()) TRY(add(name, schema, demanded.erase(name) > 0));
  // Required, but described as others are.
  static const Json kAny = true;
  const Json* others = find(base, "additionalProperties");
  for (const Json& name : required) {
    if (demanded.erase(name.get<std::string>()) > 0)
      TRY(add(name.get<std::string>(), others == nullptr ? kAny : *others, true));
  }
  return members;
}

// The other properties. If a schema declares properties and does not mention others, there are none: a client that asks
// for some keys wants only these.
Result<SchemaWriter::Others> SchemaWriter::others_of(const Json& base, const std::vector<Member>& members,
                                                     const std::string& path, const std::string& hint) {
  Others others;
  const Json* schema = find(base, "additionalProperties");
  const Json* patterns = find(base, "patternProperties");
  const bool named = patterns != nullptr && members.empty() && patterns->size() == 1 &&
                     (schema == nullptr || *schema == false) && !base.contains("propertyNames");
  if (patterns != nullptr && !patterns->empty() && !named) {
    TRY(cannot(
        path,
        "'patternProperties' cannot be enforced next to declared or additional properties, or with several patterns"));
  }
  if (named) schema = &patterns->begin().value();
  const bool closed = schema == nullptr ? !members.empty() : *schema == false;
  if (!closed) {
    static const Json kAny = true;
    const std::string where = path + (named ? ".patternProperties" : ".additionalProperties");
    TRY_ASSIGN(const std::string value, visit(schema == nullptr ? kAny : *schema, where, hint + "-value"));
    TRY_ASSIGN(const std::string key, key_rule(base, members, path));
    if (!value.empty() && !key.empty()) {
      others.member = grammar_.add(hint + "-member", key + " " + json_.colon() + " " + value);
    }
  }
  TRY(count_others(base, members, path, others));
  return others;
}

// Undeclared keys may come twice and then count once, so a minimum above one cannot be guaranteed.
Status SchemaWriter::count_others(const Json& base, const std::vector<Member>& members, const std::string& path,
                                  Others& others) {
  const auto required = static_cast<std::size_t>(std::ranges::count_if(members, &Member::required));
  const std::size_t least = count_of(base, "minProperties", 0);
  if (least > required) {
    if (required != members.size() || others.member.empty() || least - required > 1) {
      TRY(cannot(path, "'minProperties' cannot be enforced here: more than one of its properties is left open"));
    } else {
      others.min = least - required;
    }
  }
  if (!base.contains("maxProperties")) return {};
  const std::size_t most = count_of(base, "maxProperties", 0);
  const std::size_t optional = members.size() - required;
  if (optional == 0 && most >= required) {
    others.max = most - required;
    if (*others.max < others.min) return error_at(path, "'maxProperties' is below 'minProperties'");
  } else if (!others.member.empty() || most < members.size()) {
    TRY(cannot(path, "'maxProperties' cannot be enforced next to optional properties"));
  }
  return {};
}

Result<std::string> SchemaWriter::key_rule(const Json& base, const std::vector<Member>& members,
                                           const std::string& path) {
  const Json* names = find(base, "propertyNames");
  const Json* patterns = find(base, "patternProperties");
  Json schema = {{"type", "string"}};
  if (patterns != nullptr && patterns->size() == 1 && members.empty()) {
    schema["pattern"] = patterns->begin().key();
  } else if (names == nullptr || allows_all(*names) || *names == schema) {
    return members.empty() ? json_.string() : other_key(members);
  } else if (!members.empty()) {
    TRY(cannot(path, "'propertyNames' cannot be enforced next to declared properties"));
    return other_key(members);
  } else {
    schema = {{"allOf", Json::array({*names, schema})}};
  }
  return visit(schema, path + ".propertyNames", "key");
}

std::string SchemaWriter::other_key(const std::vector<Member>& members) {
  std::vector<std::u32string> names;
  for (const Member& member : members) {
    std::u32string name;
    for (std::size_t at = 0; at < member.name.size();) name += read_code_point(member.name, at);
    names.push_back(std::move(name));
  }
  const std::vector<std::u32string_view> views(names.begin(), names.end());
  return grammar_.add("key", "\"\\\"\" " + none_of(grammar_, views) + " \"\\\"\"");
}

// Any subset of the optional properties: after each member stands what may follow it; the first one may be any up to
// the first that is required.
std::string SchemaWriter::object_body(const std::vector<Member>& members, const Others& others,
                                      const std::string& hint) {
  const std::string comma = json_.comma();
  const auto text_of = [&](const Member& member) { return json_.key(Json(member.name).dump()) + " " + member.value; };
  const auto joined = [](const std::string& left, const std::string& right) {
    return left.empty() || right.empty() ? left + right : left + " " + right;
  };
  const auto required = std::ranges::find_if(members, &Member::required);
  const auto first_required = static_cast<std::size_t>(required - members.begin());
  const bool any_others = !others.member.empty() && others.max != std::size_t{0};
  std::string tail;  // what may follow member i
  if (any_others) {
    const std::string more = grammar_.add(hint + "-more", comma + " " + others.member);
    tail = grammar_.repeat(more, others.min, others.max);
  }
  std::vector<std::string> ways;
  for (std::size_t i = members.size(); i-- > 0;) {
    const std::string text = text_of(members[i]);
    if (i <= first_required) {
      if (i < first_required && !tail.empty()) tail = grammar_.add(hint + "-rest", tail);
      ways.push_back(joined(text, tail));
    }
    tail = joined(members[i].required ? comma + " " + text : "(" + comma + " " + text + ")?", tail);
  }
  std::ranges::reverse(ways);
  if (required == members.end()) {
    if (any_others) {
      const std::string more = grammar_.add(hint + "-more", comma + " " + others.member);
      const std::size_t least = others.min == 0 ? 0 : others.min - 1;
      const std::optional<std::size_t> most = others.max ? std::optional(*others.max - 1) : std::nullopt;
      ways.push_back(joined(others.member, most == std::size_t{0} ? "" : grammar_.repeat(more, least, most)));
    }
    if (others.min == 0) ways.emplace_back();
  }
  const bool may_be_empty = !ways.empty() && ways.back().empty();
  if (may_be_empty) ways.pop_back();
  std::string inner;
  for (const std::string& way : ways) inner += (inner.empty() ? "" : " | ") + way;
  if (inner.empty()) return json_.open('{') + " " + json_.close('}');
  if (ways.size() > 1) inner = grammar_.add(hint + "-members", std::move(inner));
  if (may_be_empty) inner = "(" + inner + ")?";
  return json_.open('{') + " " + inner + " " + json_.close('}');
}

// ---- arrays: items of a prefix, each with its own schema, then items of one kind ----

namespace {

std::size_t count_of(const Json& value) { return static_cast<std::size_t>(value.get<double>()); }

}  // namespace

Result<std::string> SchemaWriter::write_array(const Json& base, const std::string& path, const std::string& hint) {
  return inside([&]() -> Result<std::string> {
    const Json* unique = find(base, "uniqueItems");
    const std::size_t min = base.contains("minItems") ? count_of(base["minItems"]) : 0;
    std::optional<std::size_t> max;
    if (const Json* most = find(base, "maxItems")) max = count_of(*most);
    if (unique != nullptr && *unique == true && max.value_or(2) > 1)
      TRY(cannot(path, "'uniqueItems' cannot be enforced"));
    if (const Json* others = find(base, "unevaluatedItems"); others != nullptr && others->is_object()) {
      TRY(cannot(path, "'unevaluatedItems' cannot be enforced"));
    }
    std::vector<std::string> prefix;
    if (const Json* schemas = find(base, "prefixItems")) {
      for (std::size_t i = 0; i < schemas->size(); ++i) {
        const std::string number = std::to_string(i);
        TRY_ASSIGN(std::string item, visit((*schemas)[i], path + ".prefixItems[" + number + "]", hint + "-" + number));
        if (item.empty()) {  // the array ends before an item that cannot be
          max = std::min(max.value_or(i), i);
          break;
        }
        prefix.push_back(std::move(item));
      }
    }
    // As with objects: a tuple that does not mention further items has none, unless it must.
    const Json* items = find(base, "items");
    const bool closed = items == nullptr && base.contains("prefixItems") && min <= prefix.size();
    static const Json kAny = true;
    std::string rest;
    if (!closed && (!max || *max > prefix.size())) {
      TRY_ASSIGN(rest, visit(items == nullptr ? kAny : *items, path + ".items", hint + "-item"));
    }
    if (rest.empty()) max = std::min(max.value_or(prefix.size()), prefix.size());
    if (max && *max < min) return std::string();
    if (max && *max < prefix.size()) prefix.resize(*max);
    return grammar_.add(hint, array_body(prefix, rest, min, max));
  });
}

std::string SchemaWriter::array_body(const std::vector<std::string>& prefix, const std::string& rest, std::size_t min,
                                     std::optional<std::size_t> max) {
  const std::string comma = json_.comma();
  const auto optional = [](const std::string& text) { return "(" + text + ")?"; };
  const auto less = [](std::size_t count, std::size_t by) { return count - std::min(count, by); };
  const bool has_rest = !rest.empty() && max != prefix.size();
  // The items after item i, from the last on.
  std::string tail;
  if (has_rest && !(prefix.empty() && max == std::size_t{1})) {
    const std::string more = grammar_.add("more-items", comma + " " + rest);
    const std::size_t before = std::max<std::size_t>(prefix.size(), 1);
    tail = grammar_.repeat(more, less(min, before), max ? std::optional(*max - before) : std::nullopt);
  }
  std::string first = rest;
  for (std::size_t i = prefix.size(); i-- > 1;) {
    const std::string text = comma + " " + prefix[i] + (tail.empty() ? "" : " " + tail);
    tail = grammar_.add("more-items", i >= min ? optional(text) : text);
  }
  if (!prefix.empty()) first = prefix.front();
  if (first.empty() || max == std::size_t{0}) return json_.open('[') + " " + json_.close(']');
  std::string inner = first + (tail.empty() ? "" : " " + tail);
  if (min == 0) inner = optional(inner);
  return json_.open('[') + " " + inner + " " + json_.close(']');
}

}  // namespace kvkeep::chat::grammar
