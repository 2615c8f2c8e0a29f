// JSON as Python's json.dumps writes it.

#include <algorithm>
#include <cmath>
#include <numeric>

#include "chat/jinja/unicode.h"
#include "chat/jinja/written.h"

namespace kvkeep::chat::jinja {
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
