#include "chat/grammar/schema.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "chat/grammar/gbnf_player_fixture.h"

namespace kvkeep::chat::grammar {
namespace {

using Json = nlohmann::ordered_json;
using testing::HasSubstr;

Json parse(const std::string& text) { return Json::parse(text); }

// Without white space, so that grammars are easy to read.
Result<std::string> grammar_of(const std::string& schema, SchemaOptions options = {}) {
  options.whitespace = Whitespace::kNone;
  GrammarBuilder grammar;
  const Json parsed = parse(schema);
  TRY_ASSIGN(const std::string root, add_schema(grammar, parsed, options));
  return grammar.text(root);
}

std::string schema_error(const std::string& schema) {
  const auto grammar = grammar_of(schema);
  return grammar ? "none" : grammar.error().message;
}

bool matches(const std::string& schema, const std::string& text) {
  const auto grammar = grammar_of(schema);
  if (!grammar) throw std::runtime_error(grammar.error().message);
  return GbnfPlayer(*grammar).matches(text);
}

TEST(Schema, SmallOnesAsGrammars) {
  EXPECT_EQ(*grammar_of(R"({"type":"boolean"})"), "root ::= boolean\nboolean ::= \"true\" | \"false\"\n");
  EXPECT_EQ(*grammar_of(R"({"enum":["a",1,null]})"), "root ::= schema\nschema ::= \"\\\"a\\\"\" | \"1\" | \"null\"\n");
  EXPECT_EQ(*grammar_of(R"({"type":"integer","minimum":3,"maximum":12})"),
            "root ::= schema\ndigits ::= [0-2]\nmagnitude ::= [3-9] | \"1\" digits\nschema ::= magnitude\n");
  EXPECT_EQ(*grammar_of(R"({"type":"string","pattern":"^[a-f]{2}$"})"),
            "root ::= schema\nschema ::= \"\\\"\" [a-f]{2} \"\\\"\"\n");
  EXPECT_EQ(*grammar_of(R"({"type":"object","properties":{"a":{"type":"null"},"b":{"type":"null"}},"required":["b"]})"),
            "root ::= schema\nnull ::= \"null\"\nschema-rest ::= \",\" \"\\\"b\\\"\" \":\" null\n"
            "schema-members ::= \"\\\"a\\\"\" \":\" null schema-rest | \"\\\"b\\\"\" \":\" null\n"
            "schema ::= \"{\" schema-members \"}\"\n");
  EXPECT_EQ(*grammar_of(R"({"type":"array","items":{"type":"null"},"maxItems":3})"),
            "root ::= schema\nnull ::= \"null\"\nmore-items ::= \",\" null\n"
            "schema ::= \"[\" (null more-items{0,2})? \"]\"\n");
}

TEST(Schema, AnySubsetOfOptionalProperties) {
  const std::string schema =
      R"({"type":"object","properties":{"a":{"const":1},"b":{"const":2},"c":{"const":3},"d":{"const":4}},"required":["c"]})";
  const std::vector<std::string> members = {R"("a":1)", R"("b":2)", R"("c":3)", R"("d":4)"};
  const GbnfPlayer player(*grammar_of(schema));
  for (unsigned set = 0; set < 16; ++set) {
    std::string text;
    for (unsigned i = 0; i < 4; ++i) {
      if ((set >> i & 1) != 0) text += (text.empty() ? "" : ",") + members[i];
    }
    EXPECT_EQ(player.matches(fmt::format("{{{}}}", text)), (set & 4) != 0) << text;
  }
  EXPECT_FALSE(player.matches(R"({"c":3,"a":1})")) << "properties come in their order";
  EXPECT_FALSE(player.matches(R"({"c":3,"e":5})")) << "and no others";
}

TEST(Schema, RecursionThroughReferences) {
  const std::string list =
      R"({"$ref":"#/$defs/node","$defs":{"node":{"type":"object","properties":{"v":{"type":"integer"},
          "next":{"anyOf":[{"$ref":"#/$defs/node"},{"type":"null"}]}},"required":["v","next"]}}})";
  EXPECT_TRUE(matches(list, R"({"v":1,"next":{"v":2,"next":null}})"));
  EXPECT_FALSE(matches(list, R"({"v":1,"next":{"v":2}})"));
  const std::string tree = R"({"type":"object","properties":{"children":{"type":"array","items":{"$ref":"#"}}}})";
  EXPECT_TRUE(matches(tree, R"({"children":[{},{"children":[]}]})"));
  // Combined anew at every level, and yet one rule.
  const std::string both = R"({"$ref":"#/$defs/a","$defs":{
      "a":{"allOf":[{"$ref":"#/$defs/b"},{"properties":{"n":{"$ref":"#/$defs/a"}}}]},
      "b":{"type":"object","properties":{"n":{"$ref":"#/$defs/b"},"x":{"type":"boolean"}}}}})";
  EXPECT_TRUE(matches(both, R"({"n":{"n":{"x":true}},"x":false})"));
}

TEST(Schema, SelfReferencesWithNothingInBetweenAreRefused) {
  for (const char* schema :
       {R"({"$ref":"#"})", R"({"anyOf":[{"$ref":"#"},{"type":"null"}]})", R"({"allOf":[{"$ref":"#"}]})",
        R"({"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}}})",
        R"({"$ref":"#/$defs/a","$defs":{"a":{"anyOf":[{"$ref":"#/$defs/a"},{"type":"null"}],"description":"x"}}})"}) {
    EXPECT_THAT(schema_error(schema), HasSubstr("refers to itself")) << schema;
  }
}

TEST(Schema, UnenforceableKeywordsAreRefusedByNameAndPlace) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"({"not":{"type":"null"}})", "schema: 'not' cannot be enforced"},
      {R"({"properties":{"x":{"if":{"type":"null"}}}})", "schema.properties.x: 'if' cannot be enforced"},
      {R"({"type":"array","items":{"type":"array","uniqueItems":true}})",
       "schema.items: 'uniqueItems' cannot be enforced"},
      {R"({"type":"array","contains":{"type":"null"}})", "schema: 'contains' cannot be enforced"},
      {R"({"dependentRequired":{"a":["b"]}})", "schema: 'dependentRequired' cannot be enforced"},
      {R"-({"type":"string","pattern":"(?=x)"})-",
       "schema: 'pattern' cannot be enforced: lookaround cannot be enforced"},
      {R"({"type":"number","multipleOf":0.3})", "schema: this 'multipleOf' cannot be enforced"},
      {R"({"$ref":"https://example.org/x.json"})",
       "schema: '$ref' must lead to a part of the schema itself, as '#/$defs/name'"},
      {R"({"$ref":"#/$defs/none"})", "schema: '$ref' leads nowhere: #/$defs/none"},
      {R"({"anyOf":[{"type":"null"},{"not":{}}]})", "schema.anyOf[1]: 'not' cannot be enforced"},
      {R"({"prefixItems":[{"not":{}}]})", "schema.prefixItems[0]: 'not' cannot be enforced"},
      {R"({"type":"object","minProperties":2})",
       "schema: 'minProperties' cannot be enforced here: more than one of its properties is left open"},
      {R"({"oneOf":[{"type":"string"},{"type":"string","format":"date"}]})",
       "schema: 'oneOf' cannot be enforced: alternatives 0 and 1 may hold at once; use 'anyOf' if that is right"},
      {R"({"type":"strange"})", "schema: 'strange' is no type"},
      {R"({"type":5})", "schema: 'type' must be an array of strings"},
      {R"({"properties":[]})", "schema: 'properties' must be an object of schemas"},
      {R"({"enum":[]})", "schema: 'enum' must be an array with members"},
      {R"({"minLength":-1})", "schema: 'minLength' must be a whole number, not negative"},
      {"false", "schema: nothing is valid under this schema"},
      {"[]", "schema: a schema is an object or a boolean"},
      {R"({"type":"integer","minimum":5,"maximum":4})", "schema: nothing is valid under this schema"},
      {R"({"type":"object","properties":{"a":false},"required":["a"]})", "schema: nothing is valid under this schema"},
  };
  for (const auto& [schema, message] : cases) EXPECT_EQ(schema_error(schema), message) << schema;
}

TEST(Schema, SkippingLeavesOutWhatCannotBeEnforced) {
  for (const char* schema : {R"({"type":"array","items":{"type":"null"},"uniqueItems":true})",
                             R"({"type":"array","items":{"type":"null"},"contains":{"type":"null"}})"}) {
    const auto grammar = grammar_of(schema, {.skip_unsupported = true});
    ASSERT_TRUE(grammar.ok()) << grammar.error().message;
    EXPECT_TRUE(GbnfPlayer(*grammar).matches("[null,null]"));
  }
  EXPECT_FALSE(grammar_of(R"({"type":"strange"})", {.skip_unsupported = true}).ok());
}

TEST(Schema, OneOfIsAnyOfWhereAlternativesDiffer) {
  for (const char* schema :
       {R"({"oneOf":[{"type":"string"},{"type":"integer"}]})", R"({"oneOf":[{"const":1},{"enum":[2,3]}]})",
        R"({"oneOf":[{"type":"object","properties":{"a":{}},"required":["a"],"additionalProperties":false},
                     {"type":"object","properties":{"b":{}},"required":["b"],"additionalProperties":false}]})",
        R"({"type":"object","properties":{"k":{"type":"string"}},"oneOf":[
             {"properties":{"k":{"const":"x"}},"required":["k"]},{"properties":{"k":{"const":"y"}},"required":["k"]}]})"}) {
    EXPECT_EQ(schema_error(schema), "none") << schema;
  }
}

TEST(Schema, MarkersInValuesAreText) {
  EXPECT_TRUE(matches(R"({"const":"<|im_end|>\u0000"})", R"("<|im_end|>\u0000")"));
}

TEST(Schema, StringsHoldNoLoneSurrogates) {
  EXPECT_TRUE(matches(R"({"type":"string"})", R"("\u00e9 \ud83d\ude00 \/ ~")"));
  for (const char* text : {R"("\ud83d")", R"("\ude00")", "\"\n\"", R"("\x")", R"("a"b")"}) {
    EXPECT_FALSE(matches(R"({"type":"string"})", text)) << text;
  }
}

TEST(Schema, WhiteSpaceIsLimited) {
  GrammarBuilder grammar;
  const auto root = add_schema(grammar, parse(R"({"type":"object","properties":{"a":{"type":"array"}}})"));
  const GbnfPlayer player(*grammar.text(*root));
  EXPECT_TRUE(player.matches(R"({"a":[1,2]})") && player.matches(R"({ "a": [1, 2] })"));
  EXPECT_TRUE(player.matches("{\n  \"a\": [\n    1,\n    {\n      \"b\": null\n    }\n  ]\n}"));
  EXPECT_FALSE(player.matches("{  \"a\":[]}") || player.matches("{\n\n\"a\":[]}") || player.matches(" {}") ||
               player.matches("{} ") || player.matches("{\"a\" :[]}"));
}

TEST(Schema, HostileOnesAreRefused) {
  std::string deep = "true";
  for (int i = 0; i < 90; ++i) deep = fmt::format(R"({{"type":"array","items":{}}})", deep);
  EXPECT_THAT(schema_error(deep), HasSubstr("nested too deep"));
  Json wide = {{"type", "object"}};
  for (int i = 0; i < 9'000; ++i) wide["properties"][fmt::format("p{}", i)] = {{"type", "string"}};
  EXPECT_THAT(schema_error(wide.dump()), HasSubstr("too many parts"));
  EXPECT_THAT(schema_error(R"({"type":"string","maxLength":1000000})"), HasSubstr("counts further than 65536"));
  EXPECT_THAT(schema_error(R"({"type":"array","minItems":1e14})"), HasSubstr("counts further than 65536"));
  EXPECT_THAT(schema_error(R"-({"type":"string","pattern":"^((((a{200}){200}){200}){200}){200}$"})-"),
              testing::Eq("none"))
      << "long texts, but a few rules";
  // Every level doubles the number of combinations.
  Json doubling = {{"$ref", "#/$defs/d0"}};
  for (int i = 0; i < 40; ++i) {
    const Json next = {{"$ref", fmt::format("#/$defs/d{}", i + 1)}};
    doubling["$defs"][fmt::format("d{}", i)] = {{"allOf", {next, next}}};
  }
  doubling["$defs"]["d40"] = {{"type", "null"}};
  EXPECT_THAT(schema_error(doubling.dump()), HasSubstr("schema: "));
  Json choices = {{"allOf", Json::array()}};
  for (int i = 0; i < 30; ++i) {
    choices["allOf"].push_back({{"anyOf", {{{"minLength", i}}, {{"maxLength", 100 + i}}, {{"pattern", "^a"}}}}});
  }
  EXPECT_THAT(schema_error(choices.dump()), HasSubstr("schema"));
}

}  // namespace
}  // namespace kvkeep::chat::grammar
