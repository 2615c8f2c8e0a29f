// Regular expressions (the first line; the rest is a text for it): refused with a reason, or a grammar that writes JSON
// strings which match.

#include <nlohmann/json.hpp>

#include "chat/grammar/pattern.h"
#include "chat/grammar/pattern_reader.h"
#include "grammar_checks.h"

namespace kvkeep::chat::grammar {
namespace {

void check(std::string_view pattern, std::string_view text, std::size_t seed) {
  const auto matches = matches_pattern(pattern, text);
  KVKEEP_ASSERT(matches || !matches.error().message.empty(), "a refusal has a reason");
  KVKEEP_ASSERT(!matches || read_pattern(pattern), "what matches can be read");
  GrammarBuilder builder;
  const auto expression = pattern_expression(builder, pattern, {});
  KVKEEP_ASSERT(expression || !expression.error().message.empty(), "a refusal has a reason");
  if (!expression) return;
  const auto grammar = builder.text(builder.add("text", *expression));
  if (!grammar) return;
  fuzz::check_grammar(*grammar, seed, [&](const std::string& written) {
    const auto string = nlohmann::json::parse("\"" + written + "\"", nullptr, false);
    KVKEEP_ASSERT(string.is_string(), "what is written is a JSON string");
    const auto is_match = matches_pattern(pattern, string.get<std::string>());
    KVKEEP_ASSERT(!is_match || *is_match, "which matches");
  });
}

}  // namespace
}  // namespace kvkeep::chat::grammar

KVKEEP_FUZZ_TARGET(pattern)(const std::uint8_t* data, std::size_t size) {
  kvkeep::fuzz::Input input(data, size);
  const std::string_view pattern = input.line();
  kvkeep::chat::grammar::check(pattern, kvkeep::fuzz::text_of(input.rest()), size);
  return 0;
}
