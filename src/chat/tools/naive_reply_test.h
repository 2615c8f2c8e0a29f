#pragma once

// A second reader of replies, for tests: it has the whole reply, and does in a page of code what the parser does in
// pieces. It follows docs/tools.md and shares only the formats' spellings with the parser.
//
// It gives thoughts and text without their white space: formats_test.cc checks how much of that stays next to tags.

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "chat/tools/reply_text_test.h"

namespace kvkeep::chat::tools {

// The line of in_one_line(), without white space in text, with arguments as sorted JSON.
class ToldReply {
 public:
  void add(char kind, std::string_view text) {
    for (const char byte : text) {
      if (std::string_view(" \t\r\n").find(byte) != std::string_view::npos) continue;
      if (kind != last_) line_.append(1, kind).append("(");
      last_ = kind;
      line_ += byte;
    }
  }
  void add_call(std::string_view name, const nlohmann::json& arguments) {
    line_.append("C(").append(name).append(" ").append(arguments.dump()).append(")");
    last_ = 'C';
  }
  const std::string& line() const { return line_; }

 private:
  std::string line_;
  char last_ = 0;
};

class NaiveReader {
 public:
  // Tools that are known, and those of their parameters that are strings and booleans.
  struct Kinds {
    std::vector<std::string> tools, strings, booleans;
  };
  NaiveReader(FormatKind format, bool tags_are_tokens, const Kinds& kinds, const std::vector<Piece>& reply)
      : row_(row_of(format)), tokens_(tags_are_tokens), kinds_(kinds) {
    for (const Piece& piece : reply) {
      if (piece.is_marker) marker_end_[text_.size()] = text_.size() + piece.text.size();
      text_ += piece.text;
    }
  }

  std::string read(bool thinking_open) {
    for (std::size_t at = read_thought(thinking_open); at < text_.size();) {
      at = is_opening(at) ? read_calls(at) : keep(at, at + 1);
    }
    return told_.line();
  }

 private:
  using Json = nlohmann::json;
  using Calls = std::vector<std::pair<std::string, Json>>;
  struct Body {
    std::size_t end, after;
  };

  // `plain`: a spelling that is never a token.
  bool tag(std::string_view spelling, std::size_t at, bool plain = false) const {
    if (spelling.empty() || text_.compare(at, spelling.size(), spelling) != 0) return false;
    const auto marker = marker_end_.find(at);
    return !tokens_ || plain || (marker != marker_end_.end() && marker->second == at + spelling.size());
  }
  std::size_t skip_space(std::size_t at) const {
    return std::min(text_.find_first_not_of(" \t\r\n", at), text_.size());
  }
  std::size_t keep(std::size_t begin, std::size_t end) {
    told_.add('T', std::string_view(text_).substr(begin, end - begin));
    return end;
  }
  bool is_opening(std::size_t at) const {
    return tag(row_.section_open, at) || ((tokens_ || row_.section_open.empty()) && tag(row_.call_open, at));
  }

  std::size_t read_thought(bool is_open) {
    const std::size_t first = skip_space(0);
    if (!is_open && !tag("<think>", first)) return 0;
    const std::size_t begin = is_open ? 0 : first + 7;
    std::size_t end = begin;
    while (end < text_.size() && !tag("</think>", end) && !(tokens_ && is_opening(end))) ++end;
    told_.add('R', std::string_view(text_).substr(begin, end - begin));
    return end < text_.size() && tag("</think>", end) ? end + 8 : end;
  }

  // A section is open until it is closed, or until something else than a call follows one.
  std::size_t read_calls(std::size_t at) {
    bool is_first = tag(row_.section_open, at);
    in_section_ |= is_first;
    std::size_t next = is_first ? at + row_.section_open.size() : read_call(at, at);
    while (in_section_) {
      const std::size_t begin = skip_space(next);
      if (!tag(row_.call_open, begin)) {
        if (is_first) return keep(at, begin);
        in_section_ = false;
        return tag(row_.section_close, begin) ? begin + row_.section_close.size() : begin;
      }
      next = read_call(is_first ? at : begin, begin);
      is_first = false;
    }
    return next;
  }

  // Everything from `from` on that is no call is text.
  std::size_t read_call(std::size_t from, std::size_t at) {
    const std::size_t begin = at + row_.call_open.size();
    const std::size_t first = skip_space(begin);
    const std::string_view rest = std::string_view(text_).substr(first);
    const std::string_view function = std::string_view("<function=").substr(0, rest.size());
    const bool is_hermes =
        row_.kind == FormatKind::kHermes && !rest.empty() && rest.front() != '{' && rest.front() != '[';
    if (is_hermes || (row_.kind == FormatKind::kQwenCoder && !rest.starts_with(function))) return keep(from, begin);
    const std::optional<Body> body = row_.kind == FormatKind::kMistral ? json_body(begin) : tagged_body(begin);
    if (!body) return keep(from, text_.size());
    const auto calls = calls_of(begin, body->end);
    if (!calls) return keep(from, body->after);
    for (const auto& [name, arguments] : *calls) told_.add_call(name, arguments);
    return body->after;
  }

  // Up to the closing tag, which counts only outside of strings and values.
  std::optional<Body> tagged_body(std::size_t at) const {
    bool in_value = false, in_string = false;
    const bool has_values = !row_.value_open.empty();
    const bool plain = row_.kind == FormatKind::kQwenCoder;
    for (; at < text_.size(); ++at) {
      if (!in_value && !in_string && tag(row_.call_close, at)) return Body{at, at + row_.call_close.size()};
      if (tag(in_value ? row_.value_close : row_.value_open, at, plain)) in_value = !in_value;
      if (has_values) continue;
      if (text_[at] == '"') in_string = !in_string;
      if (in_string && text_[at] == '\\') ++at;
    }
    const bool needs_no_tag = row_.kind != FormatKind::kGlm && !in_value;
    return needs_no_tag ? std::optional(Body{text_.size(), text_.size()}) : std::nullopt;
  }

  // Up to the end of the first JSON value.
  std::optional<Body> json_body(std::size_t at) const {
    while (at < text_.size() && text_[at] != '{' && (text_[at] != '[' || tag("[ARGS]", at))) ++at;
    int depth = 0;
    for (bool in_string = false; at < text_.size(); ++at) {
      if (text_[at] == '"') in_string = !in_string;
      if (in_string && text_[at] == '\\') ++at;
      if (in_string || at >= text_.size()) continue;
      if (text_[at] == '{' || text_[at] == '[') ++depth;
      if (text_[at] == '}' || text_[at] == ']') --depth;
      if (depth <= 0) return Body{at + 1, at + 1};
    }
    return std::nullopt;
  }

  static std::string trim(std::string_view text) {
    while (!text.empty() && std::string_view(" \t\r\n").contains(text.front())) text.remove_prefix(1);
    while (!text.empty() && std::string_view(" \t\r\n").contains(text.back())) text.remove_suffix(1);
    return std::string(text);
  }
  static bool is_name(const std::string& name) {
    return !name.empty() && name.find_first_of(" \t\r\n<>\"{}") == std::string::npos;
  }

  std::optional<Calls> calls_of(std::size_t begin, std::size_t end) const {
    const std::string body = text_.substr(begin, end - begin);
    if (!row_.value_open.empty()) return valued_call(begin, end);
    const std::size_t separator = row_.separator.empty() ? std::string::npos : body.find(row_.separator);
    if (separator == std::string::npos && row_.body == CallBody::kNamedJson) return std::nullopt;
    if (separator == std::string::npos || separator > body.find('{')) return listed_calls(body);
    std::string name = trim(body.substr(0, separator));
    if (row_.kind == FormatKind::kKimi) {
      name = name.substr(0, name.rfind(':'));
      if (name.starts_with("functions.")) name.erase(0, 10);
    }
    const std::string arguments = trim(body.substr(separator + row_.separator.size()));
    const bool is_closed = row_.body == CallBody::kNamedJson && end < text_.size();
    if (arguments.empty() && is_closed) return one_call(trim(name), Json::object());
    return one_call(trim(name), Json::parse(arguments, nullptr, false));
  }

  static std::optional<Calls> one_call(const std::string& name, const Json& arguments) {
    if (!is_name(name) || !arguments.is_object()) return std::nullopt;
    return Calls{{name, arguments}};
  }

  static std::optional<Calls> listed_calls(const std::string& body) {
    Json list = Json::parse(body, nullptr, false);
    if (list.is_object()) list = Json::array({list});
    if (!list.is_array() || list.empty()) return std::nullopt;
    Calls calls;
    for (const Json& call : list) {
      if (!call.is_object() || !call.contains("name") || !call["name"].is_string()) return std::nullopt;
      const auto one = one_call(call["name"], call.value("arguments", Json::object()));
      if (!one) return std::nullopt;
      calls.push_back(one->front());
    }
    return calls;
  }

  // <function=name> and parameters between tags; name and <arg_key>s.
  std::optional<Calls> valued_call(std::size_t at, std::size_t end) const {
    const bool is_glm = row_.kind == FormatKind::kGlm;
    Json arguments = Json::object();
    std::string name;
    for (bool is_first = true;; is_first = false) {
      std::size_t value = at;
      while (value < end && !tag(row_.value_open, value, !is_glm)) ++value;
      std::string between = trim(std::string_view(text_).substr(at, value - at));
      if (is_first) name = head_of(between, value == end);
      if (value == end) {
        if (!is_first && between != (is_glm ? "" : "</function>")) return std::nullopt;
        return one_call(name, arguments);
      }
      value += row_.value_open.size();
      std::size_t close = value;
      while (close < end && !tag(row_.value_close, close, !is_glm)) ++close;
      if (close == end) return std::nullopt;
      std::string key = between, inside = text_.substr(value, close - value);
      at = close + row_.value_close.size();
      if (is_glm) {
        if (!between.starts_with("<arg_key>") || !between.ends_with("</arg_key>") || between.size() < 19)
          return std::nullopt;
        key = trim(between.substr(9, between.size() - 19));
      } else {
        const std::size_t head = inside.find('>');
        if (head == std::string::npos || (!is_first && !between.empty())) return std::nullopt;
        key = trim(inside.substr(0, head));
        inside.erase(0, head + 1);
        if (inside.starts_with('\n')) inside.erase(0, 1);
        if (inside.ends_with('\n')) inside.pop_back();
      }
      arguments[key] = value_of(name, key, inside);
    }
  }

  // Takes the name from the text before the first value. Returns "" if there is none.
  std::string head_of(std::string& between, bool is_all) const {
    if (row_.kind == FormatKind::kGlm) {
      const std::size_t key = std::min(between.find("<arg_key>"), between.size());
      const std::string name = trim(between.substr(0, key));
      between.erase(0, key);
      return is_all && !between.empty() ? "" : name;
    }
    std::string head = std::exchange(between, {});
    if (is_all && !head.ends_with("</function>")) return "";
    if (is_all) head = trim(head.substr(0, head.size() - 11));
    if (!head.starts_with("<function=") || !head.ends_with(">")) return "";
    return trim(head.substr(10, head.size() - 11));
  }

  Json value_of(const std::string& tool, const std::string& key, const std::string& text) const {
    const bool is_known = std::ranges::count(kinds_.tools, tool) > 0;
    if (is_known && std::ranges::count(kinds_.strings, key) > 0) return text;
    const bool is_boolean = is_known && std::ranges::count(kinds_.booleans, key) > 0;
    if (is_boolean && (trim(text) == "True" || trim(text) == "False")) return trim(text) == "True";
    const Json value = Json::parse(text, nullptr, false);
    return value.is_discarded() ? Json(text) : value;
  }

  const FormatRow& row_;
  const bool tokens_;
  const Kinds& kinds_;
  std::string text_;
  bool in_section_ = false;
  std::map<std::size_t, std::size_t> marker_end_;  // by where they begin
  ToldReply told_;
};

}  // namespace kvkeep::chat::tools
