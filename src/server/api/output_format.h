#pragma once

// The form that a request demands of its reply: OpenAI's response_format, llama-server's json_schema and grammar.

#include <string>
#include <variant>

#include "base/result.h"
#include "base/vocabulary.h"
#include "chat/marker_set.h"
#include "engine/sampling.h"
#include "server/api/json_body.h"

namespace kvkeep::server::api {

struct AnyText {};
struct AnyJsonObject {};
struct JsonSchemaOutput {
  Json schema;
  std::string path;      // of the schema in the request, for errors
  bool lenient = false;  // rules that cannot be enforced are left out ("strict": false)
};
struct GrammarOutput {
  std::string text;              // GBNF
  std::string path = "grammar";  // of the grammar in the request, or the flag that gives it, for errors
};
using OutputFormat = std::variant<AnyText, AnyJsonObject, JsonSchemaOutput, GrammarOutput>;

// kInvalid if a field has the wrong type, or two of them are set.
Result<OutputFormat> read_output_format(const Json& body);

// kInvalid if the schema or grammar has a rule that cannot be enforced.
Status check_output_format(const OutputFormat& format);

// Returns the grammar for the sampler; empty for AnyText. Markers are forbidden, except those that a client's own
// grammar spells; the ends of a reply never are. kInvalid if the schema or grammar has a rule that cannot be enforced.
Result<engine::GrammarParams> output_grammar(const OutputFormat& format, const chat::MarkerSet& markers,
                                             const Vocabulary& vocabulary);

// Returns the markers that may not be sampled under a grammar with these literals. Also used for tool formats, whose
// tags are markers.
std::vector<TokenId> forbidden_markers(const chat::MarkerSet& markers, const Vocabulary& vocabulary,
                                       std::string_view literals);

}  // namespace kvkeep::server::api
