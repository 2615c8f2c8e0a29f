#include "server/api/output_format.h"

#include <fmt/format.h>

#include <vector>

#include "chat/grammar/gbnf.h"
#include "chat/grammar/schema.h"

namespace kvkeep::server::api {
namespace {

namespace grammar = chat::grammar;

Result<OutputFormat> read_schema(const Json& holder, const std::string& path) {
  const Json* schema = field(holder, "schema");
  if (schema == nullptr) return invalid(fmt::format("'{}.schema' is required", path));
  if (!schema->is_object()) return wrong_type(path + ".schema", "an object", *schema);
  JsonSchemaOutput output{.schema = *schema, .path = path + ".schema", .lenient = false};
  bool strict = true;
  TRY(read_bool(holder, "strict", strict));
  output.lenient = !strict;
  return OutputFormat(std::move(output));
}

Result<OutputFormat> read_response_format(const Json& value) {
  if (!value.is_object()) return wrong_type("response_format", "an object", value);
  std::string type;
  TRY(read_string(value, "type", type));
  if (type == "text") return OutputFormat(AnyText{});
  if (type == "json_object") {
    if (field(value, "schema") == nullptr) return OutputFormat(AnyJsonObject{});
    return read_schema(value, "response_format");  // as llama-server reads it
  }
  if (type != "json_schema") {
    return invalid(fmt::format("'response_format.type' must be text, json_object or json_schema, not '{}'", type));
  }
  const Json* holder = field(value, "json_schema");
  if (holder == nullptr && field(value, "schema") == nullptr) {
    return invalid("'response_format.json_schema' is required");
  }
  if (holder == nullptr) return read_schema(value, "response_format");
  if (!holder->is_object()) return wrong_type("response_format.json_schema", "an object", *holder);
  return read_schema(*holder, "response_format.json_schema");
}

// A grammar, and the text in which it spells markers that a reply may then have.
struct FormGrammar {
  std::string text;
  std::string spelled = {};
};

// Parses a client's own grammar first, so that errors are in kvkeep's words and parsing takes no long time.
Result<FormGrammar> client_grammar(const GrammarOutput& output) {
  const auto read = grammar::read_gbnf(output.text);
  if (!read) return invalid(fmt::format("'{}': {}", output.path, read.error().message));
  FormGrammar own{.text = output.text, .spelled = read->literals};
  for (const grammar::GbnfRule& rule : read->rules) {
    for (const grammar::SymbolSequence& sequence : rule.alternatives) {
      for (const grammar::Symbol& symbol : sequence) own.spelled += symbol.token + "\n";
    }
  }
  return own;
}

Result<FormGrammar> schema_grammar(const Json& schema, const grammar::SchemaOptions& options) {
  grammar::GrammarBuilder builder;
  TRY_ASSIGN(const std::string root, grammar::add_schema(builder, schema, options));
  TRY_ASSIGN(std::string text, builder.text(root));
  if (const auto read = grammar::read_gbnf(text); !read) return invalid(options.path + ": " + read.error().message);
  return FormGrammar{.text = std::move(text)};
}

// Precondition: not AnyText.
Result<FormGrammar> form_grammar(const OutputFormat& format) {
  if (const auto* own = std::get_if<GrammarOutput>(&format)) return client_grammar(*own);
  if (const auto* schema = std::get_if<JsonSchemaOutput>(&format)) {
    return schema_grammar(schema->schema, {.path = schema->path, .skip_unsupported = schema->lenient});
  }
  return schema_grammar({{"type", "object"}}, {.path = "response_format"});
}

}  // namespace

Result<OutputFormat> read_output_format(const Json& body) {
  OutputFormat format = AnyText{};
  std::string_view from;
  const auto take = [&](std::string_view name, Result<OutputFormat> read) -> Status {
    if (!read) return std::move(read).error();
    if (std::holds_alternative<AnyText>(*read)) return {};
    if (!from.empty()) return invalid(fmt::format("'{}' and '{}' cannot both be set", from, name));
    from = name;
    format = std::move(*read);
    return {};
  };
  if (const Json* value = field(body, "response_format")) TRY(take("response_format", read_response_format(*value)));
  if (const Json* schema = field(body, "json_schema")) {
    if (!schema->is_object()) return wrong_type("json_schema", "an object", *schema);
    TRY(take("json_schema",
             OutputFormat(JsonSchemaOutput{.schema = *schema, .path = "json_schema", .lenient = false})));
  }
  std::string text;
  TRY(read_string(body, "grammar", text));
  if (!text.empty()) TRY(take("grammar", OutputFormat(GrammarOutput{std::move(text)})));
  return format;
}

std::vector<TokenId> forbidden_markers(const chat::MarkerSet& markers, const Vocabulary& vocabulary,
                                       std::string_view literals) {
  std::vector<TokenId> forbidden;
  for (const chat::Marker& marker : markers.markers()) {
    const bool spelled =
        !literals.empty() && (literals.find(marker.spelling) != std::string_view::npos ||
                              literals.find(fmt::format("<[{}]>", marker.id)) != std::string_view::npos);
    if (!spelled && !vocabulary.is_end_of_generation(marker.id)) forbidden.push_back(marker.id);
  }
  return forbidden;
}

Status check_output_format(const OutputFormat& format) {
  if (!std::holds_alternative<AnyText>(format)) TRY(form_grammar(format));
  return {};
}

Result<engine::GrammarParams> output_grammar(const OutputFormat& format, const chat::MarkerSet& markers,
                                             const Vocabulary& vocabulary) {
  if (std::holds_alternative<AnyText>(format)) return engine::GrammarParams{};
  TRY_ASSIGN(FormGrammar made, form_grammar(format));
  return engine::GrammarParams{.text = std::move(made.text),
                               .triggers = {},
                               .after = {},
                               .forbidden = forbidden_markers(markers, vocabulary, made.spelled)};
}

}  // namespace kvkeep::server::api
