// Filters that lay text out: indent, center, truncate, wordwrap, and joining.

#include <algorithm>

#include "chat/jinja/builtins.h"
#include "chat/jinja/item_access.h"
#include "chat/jinja/text_operations.h"
#include "chat/jinja/value_text.h"

namespace kvkeep::chat::jinja {
namespace {

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

constexpr NamedBuiltin kLayoutFilters[] = {{"center", filter_center},
                                           {"indent", filter_indent},
                                           {"truncate", filter_truncate},
                                           {"wordwrap", filter_wordwrap},
                                           {"join", filter_join}};

}  // namespace

std::span<const NamedBuiltin> layout_filters() { return kLayoutFilters; }

}  // namespace kvkeep::chat::jinja
