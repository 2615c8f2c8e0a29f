// JSON schemas as grammars: refused with a reason, or a grammar whose texts are JSON.

#include "chat/grammar/schema.h"
#include "grammar_checks.h"

KVKEEP_FUZZ_TARGET(json_schema)(const std::uint8_t* data, std::size_t size) {
  using namespace kvkeep;
  const auto schema = nlohmann::ordered_json::parse(fuzz::text_of(fuzz::bytes_of(data, size)), nullptr, false);
  if (schema.is_discarded()) return 0;
  for (const bool skips : {false, true}) {
    chat::grammar::GrammarBuilder grammar;
    const auto root = chat::grammar::add_schema(grammar, schema, {.skip_unsupported = skips});
    KVKEEP_ASSERT(root || !root.error().message.empty(), "a refusal has a reason");
    if (!root) continue;
    const auto text = grammar.text(*root);
    if (!text) continue;
    fuzz::check_grammar(*text, size, [](const std::string& written) {
      KVKEEP_ASSERT(nlohmann::json::accept(written), "what a schema's grammar lets through is JSON");
    });
  }
  return 0;
}
