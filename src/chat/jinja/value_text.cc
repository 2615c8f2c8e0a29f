#include "chat/jinja/value_text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <numeric>

namespace kvkeep::chat::jinja {
namespace {

constexpr int kDeepestWritten = 400;

void append_escape(std::string& result, char32_t code) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  const auto add = [&](char letter, int digits) {
    result += '\\';
    result += letter;
    for (int shift = (digits - 1) * 4; shift >= 0; shift -= 4) result += kDigits[code >> shift & 15];
  };
  if (code < 0x100) {
    add('x', 2);
  } else if (code < 0x10000) {
    add('u', 4);
  } else {
    add('U', 8);
  }
}

std::string escaped(std::string_view bytes, char quote) {
  std::string result;
  for (std::size_t at = 0; at < bytes.size();) {
    const Character character = character_at(bytes, at);
    const char32_t code = character.code;
    if (code == '\n') {
      result += "\\n";
    } else if (code == '\r') {
      result += "\\r";
    } else if (code == '\t') {
      result += "\\t";
    } else if (code == '\\' || code == static_cast<char32_t>(quote)) {
      result += '\\';
      result += static_cast<char>(code);
    } else if (is_printable(code)) {
      result += bytes.substr(at, character.bytes);
    } else {
      append_escape(result, code);
    }
    at += character.bytes;
  }
  return result;
}

void append_text_repr(Interpreter& in, const Text& text, TextBuilder& builder) {
  in.charge_bytes(text.size() * 8);
  const bool single = text.view().contains('\'') && !text.view().contains('"');
  const char quote = single ? '"' : '\'';
  builder.append({&quote, 1}, Origin::kTemplate);
  text.for_each_run([&](std::string_view run, Origin origin) { builder.append(escaped(run, quote), origin); });
  builder.append({&quote, 1}, Origin::kTemplate);
}

class Representation {
 public:
  Representation(Interpreter& in, TextBuilder& builder) : in_(in), builder_(builder) {}

  void append(const Value& value, int depth) {
    if (depth > kDeepestWritten) fail_unsupported("values nested more than ", kDeepestWritten, " deep");
    in_.charge(1);
    switch (value.kind()) {
      case Kind::kUndefined: return add("Undefined");
      case Kind::kText: return append_text_repr(in_, value.as_text(), builder_);
      case Kind::kList: return append_items(value.items(), "[", "]", depth);
      case Kind::kTuple: return append_items(value.items(), "(", value.items().size() == 1 ? ",)" : ")", depth);
      case Kind::kDict: return append_dict(value.as_dict().all(), depth);
      case Kind::kNamespace:
        add("<Namespace ");
        append_dict(value.as_namespace().attributes.all(), depth);
        return add(">");
      case Kind::kView: return append_view(value.as_view_object(), depth);
      default: return add(written(in_, value).view());
    }
  }

 private:
  void add(std::string_view text) { builder_.append(text, Origin::kTemplate); }

  void append_items(std::span<const Value> items, std::string_view open, std::string_view close, int depth) {
    add(open);
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (i > 0) add(", ");
      append(items[i], depth + 1);
    }
    add(close);
  }
  void append_dict(std::span<const Entry> entries, int depth) {
    add("{");
    for (std::size_t i = 0; i < entries.size(); ++i) {
      if (i > 0) add(", ");
      append(entries[i].key, depth + 1);
      add(": ");
      append(entries[i].value, depth + 1);
    }
    add("}");
  }
  void append_view(const View& view, int depth) {
    constexpr std::array<std::string_view, 4> kNames = {"<generator>", "dict_keys(", "dict_values(", "dict_items("};
    add(kNames[static_cast<std::size_t>(view.of)]);
    if (view.of == View::Of::kGenerator) return;
    append_items(view.items, "[", "]", depth);
    add(")");
  }

  Interpreter& in_;
  TextBuilder& builder_;
};

}  // namespace

std::string written_number(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number > 0 ? "inf" : "-inf";
  std::array<char, 64> buffer{};
  const auto [end, code] =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), number, std::chars_format::scientific);
  const std::string_view shortest(buffer.data(), static_cast<std::size_t>(end - buffer.data()));
  const std::size_t mark = shortest.find('e');
  std::string digits;
  for (const char byte : shortest.substr(0, mark)) {
    if (byte >= '0' && byte <= '9') digits.push_back(byte);
  }
  int exponent = 0;
  std::from_chars(shortest.data() + mark + (shortest[mark + 1] == '+' ? 2 : 1), end, exponent);
  std::string result;
  if (std::signbit(number)) result.push_back('-');
  const auto count = static_cast<int>(digits.size());
  if (exponent < -4 || exponent >= 16) {
    result.push_back(digits[0]);
    if (count > 1) result.append(".").append(digits, 1);
    return say(result, exponent < 0 ? "e-" : "e+", std::abs(exponent) < 10 ? "0" : "", std::abs(exponent));
  }
  if (exponent < 0) return result.append("0.").append(static_cast<std::size_t>(-exponent - 1), '0').append(digits);
  if (count <= exponent + 1) {
    return result.append(digits).append(static_cast<std::size_t>(exponent + 1 - count), '0').append(".0");
  }
  const auto whole = static_cast<std::size_t>(exponent + 1);
  return result.append(digits, 0, whole).append(".").append(digits, whole);
}

Text written(Interpreter& in, const Value& value) {
  const auto made = [&](std::string_view text) { return in.text(text).as_text(); };
  switch (value.kind()) {
    case Kind::kUndefined: return {};
    case Kind::kText: return value.as_text();
    case Kind::kNone: return made("None");
    case Kind::kBool: return made(value.as_bool() ? "True" : "False");
    case Kind::kInteger: return made(std::to_string(value.as_integer()));
    case Kind::kFloat: return made(written_number(value.as_double()));
    case Kind::kRange: {
      const Range& range = value.as_range();
      const std::string step = range.step == 1 ? std::string() : say(", ", range.step);
      return made(say("range(", range.start, ", ", range.stop, step, ")"));
    }
    case Kind::kFunction: return made(say("<function ", value.as_function().name, ">"));
    case Kind::kLoop: return made("<LoopContext>");
    case Kind::kCycler: return made("<Cycler>");
    default: break;
  }
  TextBuilder builder(in.arena());
  append_repr(in, value, builder);
  return builder.finish();
}

void append_repr(Interpreter& in, const Value& value, TextBuilder& builder) {
  Representation(in, builder).append(value, 0);
}

// ---- JSON, as Python's json.dumps writes it ----

namespace {

constexpr int kDeepestWrittenJson = 400;
constexpr std::string_view kHexadecimal = "0123456789abcdef";

void append_unit(std::string& result, char32_t unit) {
  result += "\\u";
  for (int shift = 12; shift >= 0; shift -= 4) result += kHexadecimal[unit >> shift & 15];
}

char short_escape(char byte) {
  switch (byte) {
    case '"': return '"';
    case '\\': return '\\';
    case '\n': return 'n';
    case '\r': return 'r';
    case '\t': return 't';
    case '\b': return 'b';
    case '\f': return 'f';
    default: return '\0';
  }
}

class JsonWriter {
 public:
  JsonWriter(Interpreter& in, const JsonStyle& style) : in_(in), style_(style), builder_(in.arena(), 256) {}

  Text finish() const { return builder_.finish(); }

  void append(const Value& value, int depth) {
    if (depth > kDeepestWrittenJson) fail_unsupported("values nested more than ", kDeepestWrittenJson, " deep");
    in_.charge(1);
    switch (value.kind()) {
      case Kind::kText: return append_text(value.as_text());
      case Kind::kList:
      case Kind::kTuple: return append_items(value.items(), depth);
      case Kind::kDict: return append_dict(value.as_dict(), depth);
      default: return add(scalar(value));
    }
  }

 private:
  void add(std::string_view text) { builder_.append(text, Origin::kTemplate); }

  static std::string scalar(const Value& value) {
    switch (value.kind()) {
      case Kind::kNone: return "null";
      case Kind::kBool: return value.as_bool() ? "true" : "false";
      case Kind::kInteger: return std::to_string(value.as_integer());
      case Kind::kFloat:
        if (std::isnan(value.as_double())) return "NaN";
        if (std::isinf(value.as_double())) return value.as_double() > 0 ? "Infinity" : "-Infinity";
        return written_number(value.as_double());
      default: fail("Object of type ", type_name(value), " is not JSON serializable");
    }
  }

  void append_text(const Text& text) {
    in_.charge_bytes(text.size() * 2);
    add("\"");
    text.for_each_run([&](std::string_view run, Origin origin) { append_run(run, origin); });
    add("\"");
  }

  void append_run(std::string_view run, Origin origin) {
    std::string written;
    written.reserve(run.size() + run.size() / 8);
    std::size_t plain = 0;
    for (std::size_t at = 0; at < run.size();) {
      const char byte = run[at];
      const bool control = static_cast<std::uint8_t>(byte) < 0x20;
      const bool foreign = style_.ensure_ascii && static_cast<std::uint8_t>(byte) >= 0x7F;
      if (!control && !foreign && byte != '"' && byte != '\\') {
        ++at;
        continue;
      }
      written.append(run.substr(plain, at - plain));
      if (const char letter = short_escape(byte)) {
        written.push_back('\\');
        written.push_back(letter);
        at += 1;
      } else {
        const Character character = character_at(run, at);
        written.append(written_code(character.code));
        at += character.bytes;
      }
      plain = at;
    }
    written.append(run.substr(plain));
    builder_.append(written, origin);
  }

  static std::string written_code(char32_t code) {
    std::string escape;
    if (code == 0x7F) return "\x7F";
    if (code >= 0x10000) {
      append_unit(escape, 0xD800 + ((code - 0x10000) >> 10));
      code = 0xDC00 + ((code - 0x10000) & 0x3FF);
    }
    append_unit(escape, code);
    return escape;
  }

  void append_newline(int depth) {
    if (!style_.indented) return;
    add("\n");
    in_.charge_bytes(style_.indent.size() * static_cast<std::size_t>(depth));
    for (int i = 0; i < depth; ++i) builder_.append(style_.indent);
  }

  void append_items(std::span<const Value> items, int depth) {
    if (items.empty()) return add("[]");
    add("[");
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (i > 0) builder_.append(style_.item_separator);
      append_newline(depth + 1);
      append(items[i], depth + 1);
    }
    append_newline(depth);
    add("]");
  }

  void append_dict(const Dict& dict, int depth) {
    if (dict.size == 0) return add("{}");
    std::vector<Entry> entries(dict.all().begin(), dict.all().end());
    if (style_.sort_keys) {
      in_.charge(entries.size() * 4);
      std::ranges::sort(entries, [](const Entry& a, const Entry& b) { return less_than(a.key, b.key); });
    }
    add("{");
    for (std::size_t i = 0; i < entries.size(); ++i) {
      if (i > 0) builder_.append(style_.item_separator);
      append_newline(depth + 1);
      append_key(entries[i].key);
      builder_.append(style_.key_separator);
      append(entries[i].value, depth + 1);
    }
    append_newline(depth);
    add("}");
  }

  void append_key(const Value& key) {
    if (key.is_text()) return append_text(key.as_text());
    if (!key.is_number() && !key.is(Kind::kNone)) {
      fail("keys must be str, int, float, bool or None, not ", type_name(key));
    }
    add("\"");
    add(scalar(key));
    add("\"");
  }

  Interpreter& in_;
  const JsonStyle& style_;
  TextBuilder builder_;
};

}  // namespace

Text written_json(Interpreter& in, const Value& value, const JsonStyle& style) {
  JsonWriter writer(in, style);
  writer.append(value, 0);
  return writer.finish();
}

}  // namespace kvkeep::chat::jinja
