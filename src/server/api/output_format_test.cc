#include "server/api/output_format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "chat/fake_vocabulary_test.h"
#include "server/api/openai/chat.h"
#include "server/api/openai/completions.h"

namespace kvkeep::server::api {
namespace {

using testing::HasSubstr;

Result<OutputFormat> read_format(const std::string& body) { return read_output_format(*parse_body(body)); }

std::string format_error(const std::string& body) {
  const auto format = read_format(body);
  return format ? "none" : format.error().message;
}

TEST(OutputFormat, EveryWayToAskForOne) {
  EXPECT_TRUE(std::holds_alternative<AnyText>(*read_format("{}")));
  EXPECT_TRUE(std::holds_alternative<AnyText>(*read_format(R"({"response_format":{"type":"text"},"grammar":""})")));
  EXPECT_TRUE(std::holds_alternative<AnyJsonObject>(*read_format(R"({"response_format":{"type":"json_object"}})")));
  EXPECT_EQ(std::get<GrammarOutput>(*read_format(R"({"grammar":"root ::= [a]"})")).text, "root ::= [a]");
  for (const auto& [body, path] : std::vector<std::pair<std::string, std::string>>{
           {R"({"json_schema":{"a":1}})", "json_schema"},
           {R"({"response_format":{"type":"json_schema","json_schema":{"name":"x","schema":{"a":1}}}})",
            "response_format.json_schema.schema"},
           {R"({"response_format":{"type":"json_schema","schema":{"a":1}}})", "response_format.schema"},
           {R"({"response_format":{"type":"json_object","schema":{"a":1}}})", "response_format.schema"}}) {
    const auto format = read_format(body);
    ASSERT_TRUE(format.ok()) << body;
    EXPECT_EQ(std::get<JsonSchemaOutput>(*format).schema.dump(), R"({"a":1})");
    EXPECT_EQ(std::get<JsonSchemaOutput>(*format).path, path);
    EXPECT_FALSE(std::get<JsonSchemaOutput>(*format).lenient);
  }
  const auto lenient =
      read_format(R"({"response_format":{"type":"json_schema","json_schema":{"strict":false,"schema":{}}}})");
  EXPECT_TRUE(std::get<JsonSchemaOutput>(*lenient).lenient);
}

TEST(OutputFormat, WrongOnesAreRefused) {
  EXPECT_THAT(format_error(R"({"response_format":"json"})"), HasSubstr("'response_format' must be an object"));
  EXPECT_THAT(format_error(R"({"response_format":{"type":"yaml"}})"), HasSubstr("'response_format.type' must be text"));
  EXPECT_THAT(format_error(R"({"response_format":{"type":"json_schema"}})"),
              HasSubstr("'response_format.json_schema' is required"));
  EXPECT_THAT(format_error(R"({"response_format":{"type":"json_schema","json_schema":{"schema":[]}}})"),
              HasSubstr("'response_format.json_schema.schema' must be an object"));
  EXPECT_THAT(format_error(R"({"json_schema":[]})"), HasSubstr("'json_schema' must be an object"));
  EXPECT_THAT(format_error(R"({"grammar":{}})"), HasSubstr("'grammar' must be a string"));
  EXPECT_EQ(format_error(R"({"grammar":"root ::= [a]","json_schema":{}})"),
            "'json_schema' and 'grammar' cannot both be set");
}

TEST(OutputFormat, BothDialectsReadIt) {
  const std::string more = R"("response_format":{"type":"json_object"})";
  const auto chat = parse_chat(R"({"messages":[{"role":"user","content":"hi"}],)" + more + "}", {});
  ASSERT_TRUE(chat.ok());
  EXPECT_TRUE(std::holds_alternative<AnyJsonObject>(chat->output));
  const auto completion = parse_completion(R"({"prompt":"hi",)" + more + "}", {});
  ASSERT_TRUE(completion.ok());
  EXPECT_TRUE(std::holds_alternative<AnyJsonObject>(completion->output));
}

class OutputGrammar : public testing::Test {
 protected:
  Result<engine::GrammarParams> grammar(const OutputFormat& format) {
    return output_grammar(format, markers_, vocabulary_);
  }
  bool forbids(const engine::GrammarParams& params, std::string_view spelling) {
    for (const chat::Marker& marker : markers_.markers()) {
      if (marker.spelling == spelling) return std::ranges::count(params.forbidden, marker.id) == 1;
    }
    ADD_FAILURE() << "no marker " << spelling;
    return false;
  }

  chat::FakeVocabulary vocabulary_;
  chat::MarkerSet markers_{vocabulary_, "<tool_call>"};
};

TEST_F(OutputGrammar, MarkersAreForbiddenButForTheEnd) {
  EXPECT_TRUE(grammar(AnyText{})->text.empty());
  const auto params = grammar(AnyJsonObject{});
  ASSERT_TRUE(params.ok());
  EXPECT_THAT(params->text, HasSubstr("root ::= object\n"));
  EXPECT_TRUE(forbids(*params, "<|im_start|>"));
  EXPECT_TRUE(forbids(*params, "<tool_call>"));
  EXPECT_FALSE(forbids(*params, "<|im_end|>")) << "a reply must be able to end";
}

TEST_F(OutputGrammar, AGrammarOfTheClientMaySpellMarkers) {
  const auto params = grammar(GrammarOutput{R"(root ::= "<tool_call>" [a-z]+)"});
  ASSERT_TRUE(params.ok());
  EXPECT_FALSE(forbids(*params, "<tool_call>"));
  EXPECT_TRUE(forbids(*params, "<|im_start|>"));
  const auto token = grammar(GrammarOutput{"root ::= <|im_start|> [a-z]+"});
  ASSERT_TRUE(token.ok());
  EXPECT_FALSE(forbids(*token, "<|im_start|>"));
}

TEST_F(OutputGrammar, ErrorsNameThePlace) {
  const auto error = [&](const OutputFormat& format) {
    const auto params = grammar(format);
    return params ? "none" : params.error().message;
  };
  const Json schema = Json::parse(R"({"properties":{"x":{"not":{}}}})");
  EXPECT_EQ(error(JsonSchemaOutput{.schema = schema, .path = "json_schema", .lenient = false}),
            "json_schema.properties.x: 'not' cannot be enforced");
  EXPECT_EQ(error(JsonSchemaOutput{.schema = schema, .path = "json_schema", .lenient = true}), "none");
  EXPECT_EQ(error(GrammarOutput{"root ::= x"}), "'grammar': line 1: there is no rule 'x'");
}

// Flags are checked before there is a vocabulary.
TEST(CheckOutputFormat, FindsWhatNoModelCouldObey) {
  EXPECT_TRUE(check_output_format(AnyText{}));
  EXPECT_TRUE(check_output_format(AnyJsonObject{}));
  EXPECT_TRUE(check_output_format(GrammarOutput{"root ::= [a]"}));
  EXPECT_EQ(check_output_format(GrammarOutput{"root ::= x", "--grammar"}).error().message,
            "'--grammar': line 1: there is no rule 'x'");
  EXPECT_EQ(check_output_format(JsonSchemaOutput{.schema = Json::parse(R"({"not":{}})"), .path = "--json-schema"})
                .error()
                .message,
            "--json-schema: 'not' cannot be enforced");
}

}  // namespace
}  // namespace kvkeep::server::api
