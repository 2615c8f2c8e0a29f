// Filters that give a text for a text. Like Python's, they convert other values as str() does.

#include <algorithm>

#include "chat/jinja/builtins.h"
#include "chat/jinja/formatting.h"
#include "chat/jinja/operators.h"
#include "chat/jinja/text_operations.h"
#include "chat/jinja/value_text.h"

namespace kvkeep::chat::jinja {
namespace {

Value filter_upper(Interpreter& in, const Value& self, const Arguments& arguments) {
  place<0>("upper", arguments, {});
  return Value::text(mapped(in, written(in, self), Case::kUpper));
}

Value filter_lower(Interpreter& in, const Value& self, const Arguments& arguments) {
  place<0>("lower", arguments, {});
  return Value::text(mapped(in, written(in, self), Case::kLower));
}

Value filter_capitalize(Interpreter& in, const Value& self, const Arguments& arguments) {
  place<0>("capitalize", arguments, {});
  return Value::text(mapped(in, written(in, self), Case::kCapitalized));
}

// Words begin after white space and `-({[<`; other than str.title, an apostrophe begins none.
Value filter_title(Interpreter& in, const Value& self, const Arguments& arguments) {
  place<0>("title", arguments, {});
  return Value::text(mapped(in, written(in, self), Case::kTitle));
}

Value filter_trim(Interpreter& in, const Value& self, const Arguments& arguments) {
  const auto [characters] = place<1>("trim", arguments, {"chars"});
  return Value::text(stripped(in, written(in, self), characters, true, true));
}

Value filter_replace(Interpreter& in, const Value& self, const Arguments& arguments) {
  const auto [old, fresh, count] = place<3>("replace", arguments, {"old", "new", "count"}, 2);
  const bool all = count == nullptr || count->is(Kind::kNone);
  return Value::text(
      replaced(in, written(in, self), written(in, *old), written(in, *fresh), all ? -1 : integer_argument(count, -1)));
}

Value filter_format(Interpreter& in, const Value& self, const Arguments& arguments) {
  if (!arguments.positional.empty() && !arguments.named.empty()) {
    fail("can't handle positional and keyword arguments at the same time");
  }
  if (arguments.named.empty())
    return percent_format(in, written(in, self), in.list(arguments.positional, Kind::kTuple));
  Dict* named = in.arena().make<Dict>();
  for (const Entry& entry : arguments.named) named->set(in.arena(), entry.key, entry.value);
  return percent_format(in, written(in, self), Value::dict(named));
}

Value filter_string(Interpreter& in, const Value& self, const Arguments& arguments) {
  place<0>("string", arguments, {});
  return Value::text(written(in, self));
}

// For HTML. The result is plain text here: it is escaped again by a second `escape`.
Value filter_escape(Interpreter& in, const Value& self, const Arguments& arguments) {
  place<0>("escape", arguments, {});
  const Text text = written(in, self);
  TextBuilder builder(in.arena(), text.size());
  in.charge_bytes(text.size() * 4);
  text.for_each_run([&](std::string_view run, Origin origin) {
    for (const char& byte : run) {
      switch (byte) {
        case '&': builder.append("&amp;", origin); break;
        case '<': builder.append("&lt;", origin); break;
        case '>': builder.append("&gt;", origin); break;
        case '\'': builder.append("&#39;", origin); break;
        case '"': builder.append("&#34;", origin); break;
        default: builder.append({&byte, 1}, origin); break;
      }
    }
  });
  return Value::text(builder.finish());
}

// In a query a blank is a plus, elsewhere %20.
enum class UrlPart { kPath, kQuery };

void append_url(TextBuilder& builder, const Text& text, UrlPart part) {
  const std::string_view safe = part == UrlPart::kPath ? "_.-~/" : "_.-~";
  constexpr std::string_view kHexadecimal = "0123456789ABCDEF";
  text.for_each_run([&](std::string_view run, Origin origin) {
    for (const char& byte : run) {
      const auto code = static_cast<std::uint8_t>(byte);
      const bool letter = code < 0x80 && (is_alpha(code) || is_digit(code));
      if (letter || safe.contains(byte)) {
        builder.append({&byte, 1}, origin);
      } else if (byte == ' ' && part == UrlPart::kQuery) {
        builder.append("+", origin);
      } else {
        const char escape[] = {'%', kHexadecimal[code >> 4], kHexadecimal[code & 15]};
        builder.append({escape, 3}, origin);
      }
    }
  });
}

// A sequence of pairs is a query; everything else, also a text, is a path.
bool holds_pairs(const Value& value) {
  return value.is_dict() || value.is_sequence() || value.is(Kind::kRange) || value.is(Kind::kView);
}

Value filter_urlencode(Interpreter& in, const Value& self, const Arguments& arguments) {
  place<0>("urlencode", arguments, {});
  TextBuilder builder(in.arena());
  if (!holds_pairs(self)) {
    const Text text = written(in, self);
    in.charge_bytes(text.size() * 4);
    append_url(builder, text, UrlPart::kPath);
    return Value::text(builder.finish());
  }
  std::vector<std::pair<Value, Value>> pairs;
  if (self.is_dict()) {
    for (const Entry& entry : self.as_dict().all()) pairs.emplace_back(entry.key, entry.value);
  } else {
    for (const Value& item : in.items_of(self)) {
      const auto both = in.items_of(item);
      if (both.size() != 2) fail("not enough values to unpack (expected 2, got ", both.size(), ")");
      pairs.emplace_back(both[0], both[1]);
    }
  }
  for (const auto& [key, value] : pairs) {
    if (builder.size() > 0) builder.append("&", Origin::kTemplate);
    const Text sides[] = {written(in, key), written(in, value)};
    in.charge_bytes((sides[0].size() + sides[1].size()) * 4);
    append_url(builder, sides[0], UrlPart::kQuery);
    builder.append("=", Origin::kTemplate);
    append_url(builder, sides[1], UrlPart::kQuery);
  }
  return Value::text(builder.finish());
}

Value filter_wordcount(Interpreter& in, const Value& self, const Arguments& arguments) {
  place<0>("wordcount", arguments, {});
  const Text text = written(in, self);
  in.charge_bytes(text.size() * 4);
  std::int64_t count = 0;
  bool inside = false;
  for (std::size_t at = 0; at < text.size();) {
    const Character character = character_at(text.view(), at);
    const bool word = is_alpha(character.code) || is_numeric(character.code) || character.code == '_';
    if (word && !inside) ++count;
    inside = word;
    at += character.bytes;
  }
  return Value::integer(count);
}

Value filter_tojson(Interpreter& in, const Value& self, const Arguments& arguments) {
  const auto [ascii, indent, separators, sort] =
      place<4>("tojson", arguments, {"ensure_ascii", "indent", "separators", "sort_keys"});
  JsonStyle style;
  style.ensure_ascii = bool_argument(ascii, false);
  style.sort_keys = bool_argument(sort, false);
  style.indented = indent != nullptr && !indent->is(Kind::kNone);
  if (style.indented) {
    const bool text = indent->is_text();
    const std::int64_t spaces = text ? 0 : integer_argument(indent, 0);
    if (spaces > 1000) fail_unsupported("an indent of more than 1000 spaces");
    style.indent =
        text ? indent->as_text()
             : in.text(std::string(static_cast<std::size_t>(std::max<std::int64_t>(spaces, 0)), ' ')).as_text();
  }
  style.item_separator = in.text(style.indented ? "," : ", ").as_text();
  style.key_separator = in.text(": ").as_text();
  if (separators != nullptr && !separators->is(Kind::kNone)) {
    const auto both = in.items_of(*separators);
    if (both.size() != 2) fail("separators are a pair");
    style.item_separator = text_argument(both[0]);
    style.key_separator = text_argument(both[1]);
  }
  return Value::text(written_json(in, self, style));
}

// ---- filters that lay text out ----

constexpr std::int64_t kWidestIndent = 1'000'000;

Value filter_center(Interpreter& in, const Value& self, const Arguments& arguments) {
  const auto [width] = place<1>("center", arguments, {"width"});
  return Value::text(padded(in, written(in, self), integer_argument(width, 80), nullptr, '^'));
}

Value filter_indent(Interpreter& in, const Value& self, const Arguments& arguments) {
  const auto [width, first, blank] = place<3>("indent", arguments, {"width", "first", "blank"});
  Text indent;
  if (width != nullptr && width->is_text()) {
    indent = width->as_text();
  } else {
    const std::int64_t count = std::max<std::int64_t>(integer_argument(width, 4), 0);
    if (count > kWidestIndent) fail_unsupported("an indent of more than a million spaces");
    indent = in.text(std::string(static_cast<std::size_t>(count), ' ')).as_text();
  }
  // An ending newline is a line of its own; blank lines get no indent.
  const Text text = in.text("\n").as_text();
  TextBuilder all(in.arena());
  all.append(text_argument(self));
  all.append(text);
  const std::vector<Value> lines = lines_of(in, all.finish(), false);
  TextBuilder builder(in.arena(), all.size());
  const bool every = bool_argument(blank, false);
  if (bool_argument(first, false)) builder.append(indent);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) {
      builder.append("\n", Origin::kTemplate);
      if (every || !lines[i].as_text().empty()) {
        in.charge_bytes(indent.size());
        builder.append(indent);
      }
    }
    builder.append(lines[i].as_text());
  }
  return Value::text(builder.finish());
}

Value filter_truncate(Interpreter& in, const Value& self, const Arguments& arguments) {
  const auto [length, killwords, end, leeway] =
      place<4>("truncate", arguments, {"length", "killwords", "end", "leeway"});
  const Text ending = end == nullptr ? in.text("...").as_text() : text_argument(*end);
  const std::int64_t wanted = integer_argument(length, 255);
  const bool usual = leeway == nullptr || leeway->is(Kind::kNone);
  const std::int64_t tolerance = usual ? 5 : integer_argument(leeway, 5);
  const auto ending_size = static_cast<std::int64_t>(count_characters(ending.view()));
  if (wanted < ending_size) fail("expected length >= ", ending_size, ", got ", wanted);
  if (tolerance < 0) fail("expected leeway >= 0, got ", tolerance);
  if (static_cast<std::int64_t>(in.length_of(self)) - tolerance <= wanted) return self;
  const Text text = text_argument(self);
  Text head = text.part(0, offset_of(text.view(), static_cast<std::size_t>(wanted - ending_size)));
  if (!bool_argument(killwords, false)) {
    if (const std::size_t space = head.view().rfind(' '); space != std::string_view::npos) head = head.part(0, space);
  }
  TextBuilder builder(in.arena(), head.size() + ending.size());
  builder.append(head);
  builder.append(ending);
  return Value::text(builder.finish());
}

// Lines of at most `width` characters, broken at spaces, or within words that are longer.
std::vector<Text> wrapped(const Text& line, std::size_t width, bool break_words) {
  std::vector<Text> lines;
  const std::string_view view = line.view();
  std::size_t begin = 0;
  while (begin < view.size()) {
    if (!lines.empty()) begin += std::min(view.find_first_not_of(' ', begin), view.size()) - begin;
    if (begin == view.size()) break;
    std::size_t end = begin + offset_of(view.substr(begin), width);
    if (end < view.size() && view[end] != ' ') {
      const std::size_t space = view.substr(begin, end - begin).find_last_of(' ');
      const bool leading =
          space == std::string_view::npos || view.substr(begin, space).find_first_not_of(' ') == std::string_view::npos;
      if (!leading) {
        end = begin + space;
      } else if (!break_words) {
        end = std::min(view.find(' ', end), view.size());
      }
    }
    std::size_t stop = end;
    while (stop > begin && view[stop - 1] == ' ') --stop;
    if (stop > begin) lines.push_back(line.part(begin, stop - begin));
    begin = end;
  }
  return lines;
}

Value filter_wordwrap(Interpreter& in, const Value& self, const Arguments& arguments) {
  const auto [width, break_long, wrapstring, hyphens] =
      place<4>("wordwrap", arguments, {"width", "break_long_words", "wrapstring", "break_on_hyphens"});
  const std::int64_t columns = integer_argument(width, 79);
  if (columns <= 0) fail("invalid width ", columns, " (must be > 0)");
  if (bool_argument(hyphens, true) && text_argument(self).view().contains('-')) {
    fail_unsupported("wordwrap of text with hyphens, unless break_on_hyphens is false");
  }
  const Text separator =
      wrapstring == nullptr || wrapstring->is(Kind::kNone) ? in.text("\n").as_text() : text_argument(*wrapstring);
  TextBuilder builder(in.arena());
  bool first = true;
  for (const Value& line : lines_of(in, text_argument(self), false)) {
    const auto parts = wrapped(line.as_text(), static_cast<std::size_t>(columns), bool_argument(break_long, true));
    in.charge(parts.size() + line.as_text().size());
    if (!std::exchange(first, false)) builder.append(separator);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (i > 0) builder.append(separator);
      builder.append(parts[i]);
    }
  }
  return Value::text(builder.finish());
}

Value filter_join(Interpreter& in, const Value& self, const Arguments& arguments) {
  const auto [separator, attribute] = place<2>("join", arguments, {"d", "attribute"});
  const Text between = separator == nullptr ? Text() : written(in, *separator);
  const bool whole = attribute == nullptr || attribute->is(Kind::kNone);
  TextBuilder builder(in.arena());
  bool first = true;
  for (const Value& item : in.items_of(self)) {
    in.charge(1);
    if (!std::exchange(first, false)) builder.append(between);
    const Text text = written(in, whole ? item : attribute_path(in, item, *attribute));
    in.charge_bytes(text.size() + between.size());
    builder.append(text);
  }
  return Value::text(builder.finish());
}

constexpr NamedBuiltin kTextFilters[] = {{"upper", filter_upper},
                                         {"lower", filter_lower},
                                         {"capitalize", filter_capitalize},
                                         {"title", filter_title},
                                         {"trim", filter_trim},
                                         {"replace", filter_replace},
                                         {"format", filter_format},
                                         {"string", filter_string},
                                         {"escape", filter_escape},
                                         {"e", filter_escape},
                                         {"forceescape", filter_escape},
                                         {"safe", filter_string},
                                         {"urlencode", filter_urlencode},
                                         {"wordcount", filter_wordcount},
                                         {"tojson", filter_tojson},
                                         {"center", filter_center},
                                         {"indent", filter_indent},
                                         {"truncate", filter_truncate},
                                         {"wordwrap", filter_wordwrap},
                                         {"join", filter_join}};

}  // namespace

std::span<const NamedBuiltin> text_filters() { return kTextFilters; }

}  // namespace kvkeep::chat::jinja
