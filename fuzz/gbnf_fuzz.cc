// Grammars that requests bring: refused with a reason, or of texts that they match.

#include "chat/grammar/gbnf.h"
#include "grammar_checks.h"

namespace kvkeep::chat::grammar {
namespace {

// A naive reader plays it, which needs only characters and not too many rules.
bool is_playable(const Gbnf& grammar) {
  if (grammar.rules.size() > 100) return false;
  for (const GbnfRule& rule : grammar.rules) {
    for (const SymbolSequence& symbols : rule.alternatives) {
      for (const Symbol& symbol : symbols) {
        const bool is_token = symbol.kind == Symbol::Kind::kToken || symbol.kind == Symbol::Kind::kNotToken;
        if (is_token || (symbol.kind == Symbol::Kind::kCharacters && symbol.characters.empty())) return false;
      }
    }
  }
  return true;
}

}  // namespace
}  // namespace kvkeep::chat::grammar

KVKEEP_FUZZ_TARGET(gbnf)(const std::uint8_t* data, std::size_t size) {
  using namespace kvkeep::chat::grammar;
  const std::string text(kvkeep::fuzz::text_of(kvkeep::fuzz::bytes_of(data, size)));
  const auto grammar = read_gbnf(text, {.growth_steps = 20'000});
  KVKEEP_ASSERT(grammar || !grammar.error().message.empty(), "a refusal has a reason");
  if (!grammar) return 0;
  for (const GbnfRule& rule : grammar->rules) {
    for (const SymbolSequence& symbols : rule.alternatives) {
      for (const Symbol& symbol : symbols) {
        KVKEEP_ASSERT(symbol.kind != Symbol::Kind::kRule || symbol.rule < grammar->rules.size(), "rules are there");
      }
    }
  }
  if (is_playable(*grammar) && read_gbnf(text)) (void)GbnfPlayer(text).matches("ab");
  return 0;
}
