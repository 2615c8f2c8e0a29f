#include "chat/grammar/grammar_builder.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "chat/grammar/code_point_set.h"

namespace kvkeep::chat::grammar {
namespace {

constexpr std::size_t kBlock = 256;  // items that are counted one by one
constexpr std::size_t kMostNameBytes = 40;

bool names(char byte) {
  return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') || (byte >= '0' && byte <= '9') || byte == '-';
}

std::string as_name(std::string_view hint) {
  std::string name(hint.substr(0, kMostNameBytes));
  std::ranges::replace_if(name, [](char byte) { return !names(byte); }, '-');
  return name.empty() ? "rule" : name;
}

std::string times(const std::string& item, const std::string& count) { return item + "{" + count + "}"; }

}  // namespace

std::string GrammarBuilder::unused_name(std::string_view hint) {
  const std::string base = as_name(hint);
  std::string name = base;
  // "root" is the start symbol's.
  while (name == "root" || by_name_.contains(name)) name = base + "-" + std::to_string(++next_number_[base] + 1);
  return name;
}

std::string GrammarBuilder::add(std::string_view hint, std::string body) {
  if (is_over()) return "over";
  if (const auto known = by_body_.find(body); known != by_body_.end()) return known->second;
  const std::string name = reserve(hint);
  by_body_.emplace(body, name);
  define(name, std::move(body));
  return name;
}

std::string GrammarBuilder::reserve(std::string_view hint) {
  if (is_over()) return "over";
  std::string name = unused_name(hint);
  by_name_.emplace(name, rules_.size());
  rules_.push_back({name, ""});
  bytes_ += name.size() + 6;
  return name;
}

void GrammarBuilder::define(const std::string& name, std::string body) {
  const auto place = by_name_.find(name);
  if (place == by_name_.end()) {
    KVKEEP_ASSERT(is_over(), "a rule is reserved before it is defined");
    return;
  }
  bytes_ += body.size();
  rules_[place->second].body = std::move(body);
}

std::pair<std::string, bool> GrammarBuilder::reserve_once(const std::string& key, std::string_view hint) {
  if (const auto known = by_key_.find(key); known != by_key_.end()) return {known->second, false};
  std::string name = reserve(hint);
  by_key_.emplace(key, name);
  return {std::move(name), true};
}

std::string GrammarBuilder::exactly(const std::string& item, std::size_t count) {
  if (count == 0) return "";
  if (count == 1) return item;
  if (count <= kBlock) return times(item, std::to_string(count));
  const std::string block = add("block", times(item, std::to_string(kBlock)));
  const std::string rest = exactly(item, count % kBlock);
  return times(block, std::to_string(count / kBlock)) + (rest.empty() ? "" : " " + rest);
}

// Either a whole block and then at most `count - kBlock` more, or less than a block: never more than two ways at once.
std::string GrammarBuilder::at_most(const std::string& item, std::size_t count) {
  if (count == 0) return "";
  if (count == 1) return item + "?";
  if (count <= kBlock) return times(item, "0," + std::to_string(count));
  const std::string block = add("block", times(item, std::to_string(kBlock)));
  const std::string part = add("part", times(item, "0," + std::to_string(kBlock - 1)));
  std::string rest = count % kBlock == 0 ? std::string("\"\"") : at_most(item, count % kBlock);
  for (std::size_t blocks = count / kBlock; blocks > 0; --blocks) {
    rest = add("at-most", block + " " + rest + " | " + part);
  }
  return rest;
}

std::string GrammarBuilder::repeat(const std::string& item, std::size_t min, std::optional<std::size_t> max) {
  KVKEEP_ASSERT(!max || min <= *max, "a count's least is not above its most");
  if (min > kMaxRepeats || (max && *max > kMaxRepeats)) {
    counts_too_far_ = true;
    return "over";
  }
  if (!max && min <= 1) return item + (min == 0 ? "*" : "+");
  if (max && *max <= kBlock && min > 0 && min < *max) {
    return times(item, std::to_string(min) + "," + std::to_string(*max));
  }
  std::string text = exactly(item, min);
  const std::string rest = max ? at_most(item, *max - min) : item + "*";
  if (!text.empty() && !rest.empty()) text += ' ';
  text += rest;
  return text.empty() ? "\"\"" : text;
}

std::string GrammarBuilder::literal(std::string_view text) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  std::string quoted = "\"";
  for (const char byte : text) {
    const auto value = static_cast<unsigned char>(byte);
    KVKEEP_ASSERT(value != 0, "a literal holds no NUL");
    if (byte == '"' || byte == '\\') {
      quoted += {'\\', byte};
    } else if (byte == '\n') {
      quoted += "\\n";
    } else if (value < 0x20 || value == 0x7F) {
      quoted += {'\\', 'x', kHex[value >> 4], kHex[value & 0xF]};
    } else {
      quoted += byte;
    }
  }
  return quoted + '"';
}

Status GrammarBuilder::within_limits() const {
  if (counts_too_far_) return invalid("it counts further than " + std::to_string(kMaxRepeats));
  if (rules_.size() > limits_.rules) return invalid("it needs more than " + std::to_string(limits_.rules) + " rules");
  if (bytes_ > limits_.bytes) return invalid("its grammar is longer than " + std::to_string(limits_.bytes) + " bytes");
  return {};
}

Result<std::string> GrammarBuilder::text(std::string_view root) const {
  TRY(within_limits());
  std::string text = "root ::= " + std::string(root) + "\n";
  text.reserve(text.size() + bytes_ + rules_.size());
  for (const Rule& rule : rules_) {
    KVKEEP_ASSERT(!rule.body.empty(), "every rule that was reserved is defined");
    text += rule.name + " ::= " + rule.body + "\n";
  }
  return text;
}

std::string JsonRules::key_of(std::string_view kind) const {
  return std::string(kind) + (whitespace_ == Whitespace::kNone ? " compact" : " spaced");
}

// Enough for printed JSON: a line end, and ten levels of two spaces. llama-server allows as many blanks.
std::string JsonRules::ws() { return grammar_.add("ws", R"("" | " " | "\n" [ \t]{0,20})"); }

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
