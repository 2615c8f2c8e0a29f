// Methods of texts: first those that change a text.

#include <algorithm>

#include "chat/jinja/builtins.h"
#include "chat/jinja/formatting.h"
#include "chat/jinja/text_operations.h"

namespace kvkeep::chat::jinja {
namespace {

template <Case kCase>
Value method_case(Interpreter& in, const Value& self, const Arguments& arguments) {
  place<0>("str method", arguments, {});
  return Value::text(mapped(in, self.as_text(), kCase));
}

template <bool kFront, bool kBack>
Value method_strip(Interpreter& in, const Value& self, const Arguments& arguments) {
  const auto [characters] = place<1>("strip", arguments, {"chars"});
  return Value::text(stripped(in, self.as_text(), characters, kFront, kBack));
}

template <char kAlign>
Value method_pad(Interpreter& in, const Value& self, const Arguments& arguments) {
  const auto [width, fill] = place<2>("justify", arguments, {"width", "fillchar"}, 1);
  return Value::text(padded(in, self.as_text(), integer_argument(width, 0), fill, kAlign));
}

Value method_zfill(Interpreter& in, const Value& self, const Arguments& arguments) {
  const auto [width] = place<1>("zfill", arguments, {"width"}, 1);
  const Text text = self.as_text();
  const bool sign = !text.empty() && (text.view()[0] == '+' || text.view()[0] == '-');
  const Value zero = in.text("0");
  TextBuilder builder(in.arena(), text.size());
  builder.append(text.part(0, sign ? 1 : 0));
  builder.append(padded(in, text.from(sign ? 1 : 0), integer_argument(width, 0) - (sign ? 1 : 0), &zero, '>'));
  return Value::text(builder.finish());
}

Value method_replace(Interpreter& in, const Value& self, const Arguments& arguments) {
  const auto [old, fresh, count] = place<3>("replace", arguments, {"old", "new", "count"}, 2);
  return Value::text(
      replaced(in, self.as_text(), text_argument(*old), text_argument(*fresh), integer_argument(count, -1)));
}

Value method_join(Interpreter& in, const Value& self, const Arguments& arguments) {
  const auto [items] = place<1>("join", arguments, {"iterable"}, 1);
  TextBuilder builder(in.arena());
  std::size_t index = 0;
  for (const Value& item : in.items_of(*items)) {
    if (!item.is_text()) {
      fail("sequence item ", index, ": expected str instance, ", type_name(item), " found");
    }
    if (index++ > 0) builder.append(self.as_text());
    in.charge(1);
    in.charge_bytes(item.as_text().size() + self.as_text().size());
    builder.append(item.as_text());
  }
  return Value::text(builder.finish());
}

Value method_format(Interpreter& in, const Value& self, const Arguments& arguments) {
  return brace_format(in, self.as_text(), arguments);
}

Value method_removeprefix(Interpreter& /*in*/, const Value& self, const Arguments& arguments) {
  const auto [prefix] = place<1>("removeprefix", arguments, {"prefix"}, 1);
  const Text text = self.as_text();
  const Text head = text_argument(*prefix);
  return text.view().starts_with(head.view()) ? Value::text(text.from(head.size())) : self;
}

Value method_removesuffix(Interpreter& /*in*/, const Value& self, const Arguments& arguments) {
  const auto [suffix] = place<1>("removesuffix", arguments, {"suffix"}, 1);
  const Text text = self.as_text();
  const Text tail = text_argument(*suffix);
  return text.view().ends_with(tail.view()) ? Value::text(text.part(0, text.size() - tail.size())) : self;
}

Value method_expandtabs(Interpreter& in, const Value& self, const Arguments& arguments) {
  const auto [width] = place<1>("expandtabs", arguments, {"tabsize"});
  const std::int64_t size = integer_argument(width, 8);
  if (size > 1000) fail_unsupported("tabs of more than 1000 columns");
  const Text text = self.as_text();
  TextBuilder builder(in.arena(), text.size());
  std::int64_t column = 0;
  for (std::size_t at = 0; at < text.size();) {
    in.charge(1);
    const Character character = character_at(text.view(), at);
    if (character.code == '\t') {
      const std::int64_t spaces = size <= 0 ? 0 : size - column % size;
      builder.append(std::string(static_cast<std::size_t>(spaces), ' '), Origin::kTemplate);
      column += spaces;
    } else {
      builder.append(text.part(at, character.bytes));
      column = character.code == '\n' || character.code == '\r' ? 0 : column + 1;
    }
    at += character.bytes;
  }
  return Value::text(builder.finish());
}

// ---- methods that look into a text or take it apart ----

// The part of a text that [start, end) names, in bytes; nullopt if start lies after its end.
struct Window {
  std::size_t begin;
  std::size_t end;
};
std::optional<Window> window_of(Interpreter& in, const Text& text, const Value* start, const Value* end) {
  if (start == nullptr && end == nullptr) return Window{0, text.size()};
  const auto size = static_cast<std::int64_t>(in.length_of(Value::text(text)));
  const auto placed = [&](const Value* bound, std::int64_t absent) {
    if (bound == nullptr || bound->is(Kind::kNone)) return absent;
    const std::int64_t place = integer_argument(bound, absent);
    return place < 0 ? std::max<std::int64_t>(place + size, 0) : place;
  };
  const std::int64_t first = placed(start, 0);
  const std::int64_t last = std::min(placed(end, size), size);
  if (first > last) return std::nullopt;
  in.charge_bytes(text.size());
  return Window{offset_of(text.view(), static_cast<std::size_t>(first)),
                offset_of(text.view(), static_cast<std::size_t>(last))};
}

template <bool kStarts>
Value method_ends(Interpreter& in, const Value& self, const Arguments& arguments) {
  const auto [affix, start, end] =
      place<3>(kStarts ? "startswith" : "endswith", arguments, {"affix", "start", "end"}, 1);
  const auto window = window_of(in, self.as_text(), start, end);
  if (!window) return Value::boolean(false);
  const std::string_view text = self.as_view().substr(window->begin, window->end - window->begin);
  const auto matches = [&](const Value& one) {
    const std::string_view wanted = text_argument(one).view();
    return kStarts ? text.starts_with(wanted) : text.ends_with(wanted);
  };
  if (!affix->is(Kind::kTuple)) return Value::boolean(matches(*affix));
  return Value::boolean(std::ranges::any_of(affix->items(), matches));
}

// In characters; -1 if it is not found.
template <bool kLast>
std::int64_t find_in_text(Interpreter& in, const Value& self, const Arguments& arguments) {
  const auto [wanted, start, end] = place<3>("find", arguments, {"sub", "start", "end"}, 1);
  const Text text = self.as_text();
  const std::string_view needle = text_argument(*wanted).view();
  const auto window = window_of(in, text, start, end);
  if (!window) return -1;
  in.charge_bytes(text.size());
  const std::string_view part = text.view().substr(0, window->end);
  std::size_t place = kLast ? part.rfind(needle) : part.find(needle, window->begin);
  if (place == std::string_view::npos || place < window->begin) return -1;
  return static_cast<std::int64_t>(text.ascii() ? place : count_characters(part.substr(0, place)));
}

template <bool kLast>
Value method_find(Interpreter& in, const Value& self, const Arguments& arguments) {
  return Value::integer(find_in_text<kLast>(in, self, arguments));
}

template <bool kLast>
Value method_index(Interpreter& in, const Value& self, const Arguments& arguments) {
  const std::int64_t place = find_in_text<kLast>(in, self, arguments);
  if (place < 0) fail("substring not found");
  return Value::integer(place);
}

Value method_count(Interpreter& in, const Value& self, const Arguments& arguments) {
  const auto [wanted, start, end] = place<3>("count", arguments, {"sub", "start", "end"}, 1);
  const std::string_view needle = text_argument(*wanted).view();
  const auto window = window_of(in, self.as_text(), start, end);
  if (!window) return Value::integer(0);
  in.charge_bytes(self.as_text().size());
  const std::string_view text = self.as_view().substr(window->begin, window->end - window->begin);
  if (needle.empty()) return Value::integer(static_cast<std::int64_t>(count_characters(text)) + 1);
  std::int64_t count = 0;
  for (std::size_t at = text.find(needle); at != std::string_view::npos; at = text.find(needle, at + needle.size()))
    ++count;
  return Value::integer(count);
}

void split_at_spaces(Interpreter& in, const Text& text, std::int64_t limit, std::vector<Value>& parts) {
  const std::string_view view = text.view();
  std::size_t at = strip_space(view, true, false).begin;
  while (at < view.size()) {
    if (limit-- == 0) return parts.push_back(Value::text(text.from(at)));
    in.charge(1);
    std::size_t end = at;
    while (end < view.size() && !is_space(character_at(view, end).code)) end += character_at(view, end).bytes;
    parts.push_back(Value::text(text.part(at, end - at)));
    at = end + strip_space(view.substr(end), true, false).begin;
  }
}

void split_at_spaces_from_end(Interpreter& in, const Text& text, std::int64_t limit, std::vector<Value>& parts) {
  const std::string_view view = text.view();
  std::size_t end = strip_space(view, false, true).size;
  while (end > 0) {
    if (limit-- == 0) {
      parts.push_back(Value::text(text.part(0, end)));
      break;
    }
    in.charge(1);
    std::size_t begin = end;
    while (begin > 0 && strip_space(view.substr(0, begin), false, true).size == begin) --begin;
    parts.push_back(Value::text(text.part(begin, end - begin)));
    end = strip_space(view.substr(0, begin), false, true).size;
  }
  std::ranges::reverse(parts);
}

void split_at(Interpreter& in, const Text& text, const Text& separator, std::int64_t limit, std::vector<Value>& parts) {
  std::size_t at = 0;
  for (std::size_t next = 0; limit != 0; --limit) {
    next = text.view().find(separator.view(), at);
    if (next == std::string_view::npos) break;
    in.charge(1);
    parts.push_back(Value::text(text.part(at, next - at)));
    at = next + separator.size();
  }
  parts.push_back(Value::text(text.from(at)));
}

void split_at_from_end(Interpreter& in, const Text& text, const Text& separator, std::int64_t limit,
                       std::vector<Value>& parts) {
  std::size_t end = text.size();
  for (; limit != 0 && end >= separator.size(); --limit) {
    const std::size_t found = text.view().substr(0, end).rfind(separator.view());
    if (found == std::string_view::npos) break;
    in.charge(1);
    parts.push_back(Value::text(text.part(found + separator.size(), end - found - separator.size())));
    end = found;
  }
  parts.push_back(Value::text(text.part(0, end)));
  std::ranges::reverse(parts);
}

template <bool kFromEnd>
Value method_split(Interpreter& in, const Value& self, const Arguments& arguments) {
  const auto [separator, most] = place<2>("split", arguments, {"sep", "maxsplit"});
  const std::int64_t limit = std::max<std::int64_t>(integer_argument(most, -1), -1);
  in.charge_bytes(self.as_text().size());
  std::vector<Value> parts;
  if (separator == nullptr || separator->is(Kind::kNone)) {
    kFromEnd ? split_at_spaces_from_end(in, self.as_text(), limit, parts)
             : split_at_spaces(in, self.as_text(), limit, parts);
  } else {
    const Text between = text_argument(*separator);
    if (between.empty()) fail("empty separator");
    kFromEnd ? split_at_from_end(in, self.as_text(), between, limit, parts)
             : split_at(in, self.as_text(), between, limit, parts);
  }
  return in.list(parts);
}

template <bool kLast>
Value method_partition(Interpreter& in, const Value& self, const Arguments& arguments) {
  const auto [separator] = place<1>("partition", arguments, {"sep"}, 1);
  const Text text = self.as_text();
  const Text between = text_argument(*separator);
  if (between.empty()) fail("empty separator");
  in.charge_bytes(text.size());
  const std::size_t place = kLast ? text.view().rfind(between.view()) : text.view().find(between.view());
  const Value nothing = Value::text({});
  if (place == std::string_view::npos) {
    const Value whole[] = {kLast ? nothing : self, nothing, kLast ? self : nothing};
    return in.list(whole, Kind::kTuple);
  }
  const Value parts[] = {Value::text(text.part(0, place)), Value::text(text.part(place, between.size())),
                         Value::text(text.from(place + between.size()))};
  return in.list(parts, Kind::kTuple);
}

Value method_splitlines(Interpreter& in, const Value& self, const Arguments& arguments) {
  const auto [keep] = place<1>("splitlines", arguments, {"keepends"});
  return in.list(lines_of(in, self.as_text(), bool_argument(keep, false)));
}

// Holds for every character, and there is one.
template <bool (*kTest)(char32_t)>
Value method_all(Interpreter& in, const Value& self, const Arguments& arguments) {
  place<0>("str method", arguments, {});
  const std::string_view text = self.as_view();
  in.charge_bytes(text.size() * 4);
  for (std::size_t at = 0; at < text.size(); at += character_at(text, at).bytes) {
    if (!kTest(character_at(text, at).code)) return Value::boolean(false);
  }
  return Value::boolean(!text.empty());
}

bool is_alphanumeric(char32_t code) { return is_alpha(code) || is_numeric(code); }

template <bool kUpper>
Value method_is_case(Interpreter& in, const Value& self, const Arguments& arguments) {
  return find_test(kUpper ? "upper" : "lower")(in, self, arguments);
}

Value method_istitle(Interpreter& in, const Value& self, const Arguments& arguments) {
  place<0>("istitle", arguments, {});
  const std::string_view text = self.as_view();
  in.charge_bytes(text.size() * 4);
  bool any = false;
  bool inside = false;
  for (std::size_t at = 0; at < text.size();) {
    const Character character = character_at(text, at);
    const bool upper = is_upper(character.code) || is_title(character.code);
    const bool lower = is_lower(character.code);
    if ((upper && inside) || (lower && !inside)) return Value::boolean(false);
    inside = upper || lower;
    any |= inside;
    at += character.bytes;
  }
  return Value::boolean(any);
}

Value method_isascii(Interpreter& in, const Value& self, const Arguments& arguments) {
  place<0>("isascii", arguments, {});
  in.charge_bytes(self.as_text().size());
  return Value::boolean(is_ascii(self.as_view()));
}

constexpr NamedBuiltin kTextMethods[] = {{"upper", method_case<Case::kUpper>},
                                         {"lower", method_case<Case::kLower>},
                                         {"casefold", method_case<Case::kFolded>},
                                         {"capitalize", method_case<Case::kCapitalized>},
                                         {"title", method_case<Case::kTitleMethod>},
                                         {"swapcase", method_case<Case::kSwapped>},
                                         {"strip", method_strip<true, true>},
                                         {"lstrip", method_strip<true, false>},
                                         {"rstrip", method_strip<false, true>},
                                         {"ljust", method_pad<'<'>},
                                         {"rjust", method_pad<'>'>},
                                         {"center", method_pad<'^'>},
                                         {"zfill", method_zfill},
                                         {"replace", method_replace},
                                         {"join", method_join},
                                         {"format", method_format},
                                         {"removeprefix", method_removeprefix},
                                         {"removesuffix", method_removesuffix},
                                         {"expandtabs", method_expandtabs},
                                         {"startswith", method_ends<true>},
                                         {"endswith", method_ends<false>},
                                         {"find", method_find<false>},
                                         {"rfind", method_find<true>},
                                         {"index", method_index<false>},
                                         {"rindex", method_index<true>},
                                         {"count", method_count},
                                         {"split", method_split<false>},
                                         {"rsplit", method_split<true>},
                                         {"partition", method_partition<false>},
                                         {"rpartition", method_partition<true>},
                                         {"splitlines", method_splitlines},
                                         {"isspace", method_all<is_space>},
                                         {"isalpha", method_all<is_alpha>},
                                         {"isdigit", method_all<is_digit>},
                                         {"isnumeric", method_all<is_numeric>},
                                         {"isdecimal", method_all<is_decimal>},
                                         {"isalnum", method_all<is_alphanumeric>},
                                         {"isprintable", method_all<is_printable>},
                                         {"isupper", method_is_case<true>},
                                         {"islower", method_is_case<false>},
                                         {"istitle", method_istitle},
                                         {"isascii", method_isascii}};

}  // namespace

std::span<const NamedBuiltin> text_methods() { return kTextMethods; }

}  // namespace kvkeep::chat::jinja
