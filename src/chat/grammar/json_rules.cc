#include "chat/grammar/json_rules.h"

#include "chat/grammar/code_point_set.h"

namespace kvkeep::chat::grammar {

std::string JsonRules::key_of(std::string_view kind) const {
  return std::string(kind) + (whitespace_ == Whitespace::kNone ? " compact" : " spaced");
}

// Enough for printed JSON: a line end, and twelve levels of two spaces.
std::string JsonRules::ws() { return grammar_.add("ws", R"("" | " " | "\n" [ \t]{0,24})"); }

std::string JsonRules::spaced(const std::string& mark) {
  return whitespace_ == Whitespace::kNone ? mark : mark + " " + ws();
}

std::string JsonRules::open(char bracket) { return spaced(GrammarBuilder::literal({&bracket, 1})); }

std::string JsonRules::close(char bracket) {
  const std::string mark = GrammarBuilder::literal({&bracket, 1});
  return whitespace_ == Whitespace::kNone ? mark : ws() + " " + mark;
}

std::string JsonRules::comma() { return spaced("\",\""); }
std::string JsonRules::colon() { return spaced("\":\""); }
std::string JsonRules::key(std::string_view key_json) { return GrammarBuilder::literal(key_json) + " " + colon(); }

std::string JsonRules::character() {
  const CodePointSet plain = CodePointSet{{0x20, 0x10FFFF}}.without({{'"', '"'}, {'\\', '\\'}});
  // A lone surrogate is not text, and parsers refuse it.
  const std::string escape =
      grammar_.add("escape", R"(["\\/bfnrt] | "u" ([0-9A-CEFa-cef] [0-9A-Fa-f]{3} | [Dd] [0-7] [0-9A-Fa-f]{2} | )"
                             R"([Dd] [89ABab] [0-9A-Fa-f]{2} "\\u" [Dd] [C-Fc-f] [0-9A-Fa-f]{2}))");
  return grammar_.add("char", to_gbnf(plain) + " | \"\\\\\" " + escape);
}

std::string JsonRules::string() { return grammar_.add("string", "\"\\\"\" " + character() + "* \"\\\"\""); }

// Counted, so that digits end. Doubles hold no more than these.
std::string JsonRules::integer() { return grammar_.add("integer", R"("-"? ("0" | [1-9] [0-9]{0,15}))"); }

std::string JsonRules::number() {
  return grammar_.add("number", integer() + R"( ("." [0-9]{1,16})? ([eE] [-+]? [0-9]{1,2})?)");
}

std::string JsonRules::boolean() { return grammar_.add("boolean", R"("true" | "false")"); }
std::string JsonRules::null() { return grammar_.add("null", R"("null")"); }

std::string JsonRules::value() {
  const auto [name, fresh] = grammar_.reserve_once(key_of("value"), "value");
  if (!fresh) return name;
  const std::string body =
      object() + " | " + array() + " | " + string() + " | " + number() + " | " + boolean() + " | " + null();
  grammar_.define(name, body);
  return name;
}

std::string JsonRules::object() {
  const auto [name, fresh] = grammar_.reserve_once(key_of("object"), "object");
  if (!fresh) return name;
  const std::string member = grammar_.add("member", string() + " " + colon() + " " + value());
  const std::string more = grammar_.add("more-members", comma() + " " + member);
  grammar_.define(name, open('{') + " (" + member + " " + more + "*)? " + close('}'));
  return name;
}

std::string JsonRules::array() {
  const auto [name, fresh] = grammar_.reserve_once(key_of("array"), "array");
  if (!fresh) return name;
  const std::string more = grammar_.add("more-values", comma() + " " + value());
  grammar_.define(name, open('[') + " (" + value() + " " + more + "*)? " + close(']'));
  return name;
}

}  // namespace kvkeep::chat::grammar
