#pragma once

// JSON schemas as GBNF: add_schema() adds rules that match JSON texts which are valid under a schema, and nothing else.
//
// A rule that cannot be written as a grammar is refused by name and place ("parameters.properties.x: 'not' cannot be
// enforced"), never left out. docs/constrained.md has the table of keywords. Three things are narrower than a schema's
// meaning, because a reply is written and not checked: objects have their properties in the order of the schema,
// objects and tuples hold only declared members unless the schema says otherwise, and keywords of one type imply that
// type.
//
// Limits: depth, number of subschemas, and those of the builder; a hostile schema is refused in milliseconds. Pure.

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/result.h"
#include "chat/grammar/grammar_builder.h"

namespace kvkeep::chat::grammar {

struct SchemaOptions {
  std::string path = "schema";  // the schema's name in errors
  Whitespace whitespace = Whitespace::kLimited;
  // Leaves out keywords that cannot be enforced instead of refusing them; a malformed schema is still an error.
  bool skip_unsupported = false;
};

// Returns the name of the rule for texts under `schema`. Its error, kInvalid, names the wrong or unenforceable part and
// its place.
Result<std::string> add_schema(GrammarBuilder& grammar, const nlohmann::ordered_json& schema,
                               const SchemaOptions& options = {});

}  // namespace kvkeep::chat::grammar
