#pragma once

// Writes a GBNF grammar rule by rule.
//
// A rule has a name and a body, which is GBNF: literals, classes, names of other rules. Equal bodies share one rule.
// Additions may exceed the limits: then they cost nothing and text() returns an error, so that a caller need not check
// after every rule. Not thread safe.
//
//   GrammarBuilder grammar;
//   const auto greeting = grammar.add("greeting", GrammarBuilder::literal("hello ") + " [a-z]+");
//   grammar.text(greeting)      // "root ::= greeting\ngreeting ::= \"hello \" [a-z]+\n"

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace kvkeep::chat::grammar {

// libllama keeps a few bytes per element of every rule and copies them for each request; its reader takes some 10 ms
// per megabyte.
struct GrammarLimits {
  std::size_t rules = 10'000;
  std::size_t bytes = 512U << 10;
};

// The largest count of repeat().
inline constexpr std::size_t kMaxRepeats = 65'536;

class GrammarBuilder {
 public:
  explicit GrammarBuilder(GrammarLimits limits = {}) : limits_(limits) {}

  // The name of a rule with this body: an existing one's, or a new one made from `hint`.
  std::string add(std::string_view hint, std::string body);
  // A name to refer to before its body is known; define it later. Never shared.
  std::string reserve(std::string_view hint);
  void define(const std::string& name, std::string body);
  // A reserved name that is the same for the same key; `second`: it is new, and the caller defines it.
  std::pair<std::string, bool> reserve_once(const std::string& key, std::string_view hint);

  // An expression: `item` (a rule's name or a class) from `min` to `max` times. libllama writes counts out and refuses
  // large ones, or takes them for "any number": these are counted in blocks. Counts above kMaxRepeats go over the
  // limits. Precondition: min <= max.
  std::string repeat(const std::string& item, std::size_t min, std::optional<std::size_t> max);

  // "text", with escapes where needed. `text` is UTF-8 without NUL.
  static std::string literal(std::string_view text);

  // Fails with kInvalid if the grammar is too large.
  Status within_limits() const;
  bool is_over() const { return rules_.size() > limits_.rules || bytes_ > limits_.bytes || counts_too_far_; }
  // Returns the grammar, whose start symbol is always called "root". Fails with kInvalid if it is too large.
  Result<std::string> text(std::string_view root) const;

 private:
  std::string unused_name(std::string_view hint);
  std::string at_most(const std::string& item, std::size_t count);
  std::string exactly(const std::string& item, std::size_t count);

  struct Rule {
    std::string name;
    std::string body;
  };
  GrammarLimits limits_;
  std::vector<Rule> rules_;  // in order of addition
  std::map<std::string, std::size_t, std::less<>> by_name_;
  std::map<std::string, std::string, std::less<>> by_body_;
  std::map<std::string, std::string> by_key_;
  std::map<std::string, std::size_t> next_number_;  // of names that were taken
  std::size_t bytes_ = 0;
  bool counts_too_far_ = false;
};

// White space is limited: a model that does not know what to write must not fill the reply with spaces.
enum class Whitespace {
  kLimited,  // after '{', '[', ',' and ':' and before '}' and ']': none, one space, or a line end and an indent
  kNone,
};

// JSON itself as GBNF: values of any kind, and the parts of which schemas are made. Adds rules to one builder when they
// are needed. Every function returns a rule's name.
class JsonRules {
 public:
  JsonRules(GrammarBuilder& grammar, Whitespace whitespace) : grammar_(grammar), whitespace_(whitespace) {}

  std::string value();
  std::string object();
  std::string array();
  std::string string();
  std::string character();  // of a string
  std::string number();
  std::string integer();
  std::string boolean();
  std::string null();

  // `open`, `close` and separators, with white space: "\"{\" ws".
  std::string open(char bracket);
  std::string close(char bracket);
  std::string comma();
  std::string colon();
  // "\"key\":" with white space after it; `key` is a string's text.
  std::string key(std::string_view key_json);

 private:
  std::string spaced(const std::string& mark);
  std::string ws();
  std::string key_of(std::string_view kind) const;

  GrammarBuilder& grammar_;
  Whitespace whitespace_;
};

}  // namespace kvkeep::chat::grammar
