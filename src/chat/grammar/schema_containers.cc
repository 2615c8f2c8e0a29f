// Objects: declared properties in order, each optional or not, then others. Arrays follow them.

#include <algorithm>
#include <map>
#include <utility>

#include "chat/grammar/code_point_set.h"
#include "chat/grammar/pattern.h"
#include "chat/grammar/schema_writer.h"

namespace kvkeep::chat::grammar {
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
        "'patternProperties' cannot be enforced beside declared or additional properties, or with several patterns"));
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

// Keys besides the declared ones may come twice and then count once, so a minimum above one cannot be guaranteed.
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
    TRY(cannot(path, "'maxProperties' cannot be enforced beside optional properties"));
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
    TRY(cannot(path, "'propertyNames' cannot be enforced beside declared properties"));
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
