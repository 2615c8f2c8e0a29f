#pragma once

// JSON itself as GBNF: values of any kind, and the parts of which schemas are made.
//
// White space is limited: a model that does not know what to write must not fill the reply with spaces.

#include <string>

#include "chat/grammar/grammar_builder.h"

namespace kvkeep::chat::grammar {

enum class Whitespace {
  kLimited,  // after '{', '[', ',' and ':' and before '}' and ']': none, one space, or a line end and an indent
  kNone,
};

// Adds rules to one builder when they are needed. Every function returns a rule's name.
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
