#include "server/api/responses/tools.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kvkeep::server::api {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

ResponseTools tools_of(const std::string& tools) {
  auto read = read_response_tools(Json::parse(R"({"tools":)" + tools + "}"));
  EXPECT_TRUE(read.ok()) << tools << (read ? "" : read.error().message);
  return read ? std::move(*read) : ResponseTools{};
}

std::string response_tools_error(const std::string& tools) {
  const auto read = read_response_tools(Json::parse(R"({"tools":)" + tools + "}"));
  EXPECT_FALSE(read.ok()) << tools;
  return read ? "" : read.error().message;
}

TEST(ResponseTools, FunctionsKeepTheOrderOfTheirSchema) {
  const ResponseTools read = tools_of(R"([{"type":"function","strict":false,"parameters":{"type":"object","properties":
      {"z":{"type":"string"},"a":{"type":"string"}}},"name":"ls","description":"lists"},
      {"type":"function","name":"now","parameters":null,"strict":true}])");
  EXPECT_EQ(to_line(read.tools),
            R"([{"type":"function","function":{"name":"ls","description":"lists","parameters":{"type":"object",)"
            R"("properties":{"z":{"type":"string"},"a":{"type":"string"}}}}},{"type":"function","function":)"
            R"({"name":"now","parameters":{"type":"object","properties":{}},"strict":true}}])");
}

TEST(ResponseTools, NamespacesAreFlattenedAndKnownAgain) {
  const ResponseTools read = tools_of(R"([{"type":"namespace","name":"agents","description":"d","tools":[
      {"type":"function","name":"spawn","parameters":{"type":"object"}},{"type":"web_search"}]},
      {"type":"namespace","name":"mcp__x__","tools":[{"type":"custom","name":"run"}]},{"type":"namespace","name":"e"}])");
  EXPECT_EQ(read.tools[0]["function"]["name"], "agents__spawn");
  EXPECT_EQ(read.tools[1]["function"]["name"], "mcp__x__run");
  EXPECT_EQ(read.tools.size(), 2);
  EXPECT_EQ(read.names.at("agents__spawn").space, "agents");
  EXPECT_EQ(read.names.at("agents__spawn").name, "spawn");
  EXPECT_FALSE(read.names.at("agents__spawn").is_custom);
  EXPECT_TRUE(read.names.at("mcp__x__run").is_custom);
}

TEST(ResponseTools, CustomToolsTakeOneText) {
  const ResponseTools read = tools_of(R"([{"type":"custom","name":"patch","description":"patches","format":
      {"type":"grammar","syntax":"lark","definition":"start: x"}}])");
  const Json& function = read.tools[0]["function"];
  EXPECT_EQ(function["parameters"]["required"], Json::array({"input"}));
  EXPECT_EQ(function["description"], "patches\n\nThe input must match this grammar (lark):\nstart: x");
  EXPECT_EQ(custom_input(custom_arguments("a\n\"b\"")), "a\n\"b\"");
  EXPECT_EQ(custom_input("no json"), "no json");
  EXPECT_EQ(custom_input(R"({"other":1})"), R"({"other":1})");
}

TEST(ResponseTools, ToolsThatOpenAisServersRunAreLeftOut) {
  EXPECT_EQ(tools_of(R"([{"type":"web_search"},{"type":"local_shell"},{"type":"mcp","server_label":"x"}])").tools,
            Json());
  EXPECT_EQ(tools_of("null").tools, Json());
  EXPECT_EQ(tools_of("[]").tools, Json());
}

TEST(ResponseTools, MalformedToolsAreRefused) {
  EXPECT_THAT(response_tools_error("5"), HasSubstr("'tools' must be an array"));
  EXPECT_THAT(response_tools_error("[5]"), HasSubstr("'tools[0]' must be an object"));
  EXPECT_THAT(response_tools_error("[{}]"), HasSubstr("'tools[0].type' is required"));
  EXPECT_THAT(response_tools_error(R"([{"type":"function"}])"), HasSubstr("'tools[0].name' is required"));
  EXPECT_THAT(response_tools_error(R"([{"type":"function","name":"f","parameters":5}])"),
              HasSubstr("'tools[0].parameters'"));
  EXPECT_THAT(response_tools_error(R"([{"type":"namespace","name":"n","tools":[{"type":"function"}]}])"),
              HasSubstr("'tools[0].tools[0].name'"));
  EXPECT_THAT(response_tools_error(R"([{"type":"function","name":"f"},{"type":"custom","name":"f"}])"),
              HasSubstr("another tool"));
}

Result<ToolUse> use_of(const std::string& fields) {
  const Json tools = tools_of(R"([{"type":"function","name":"f"},{"type":"function","name":"g"},
      {"type":"namespace","name":"n","tools":[{"type":"function","name":"h"}]}])")
                         .tools;
  return read_response_tool_use(Json::parse("{" + fields + "}"), tools);
}

TEST(ResponseToolUse, Choices) {
  EXPECT_EQ(use_of("")->choice, ToolChoice::kAuto);
  EXPECT_EQ(use_of(R"("tool_choice":"auto")")->choice, ToolChoice::kAuto);
  EXPECT_EQ(use_of(R"("tool_choice":"none")")->choice, ToolChoice::kNone);
  EXPECT_EQ(use_of(R"("tool_choice":"required")")->choice, ToolChoice::kRequired);
  EXPECT_FALSE(use_of(R"("parallel_tool_calls":false)")->parallel);
  const ToolUse named = *use_of(R"("tool_choice":{"type":"function","name":"g"})");
  EXPECT_EQ(named.choice, ToolChoice::kNamed);
  EXPECT_EQ(named.name, "g");
  EXPECT_FALSE(named.parallel);
  EXPECT_EQ(use_of(R"("tool_choice":{"type":"function","name":"h","namespace":"n"})")->name, "n__h");
}

TEST(ResponseToolUse, AllowedTools) {
  const std::string some = R"("tools":[{"type":"function","name":"g"},{"type":"web_search"}]})";
  const ToolUse any = *use_of(R"("tool_choice":{"type":"allowed_tools","mode":"auto",)" + some);
  EXPECT_EQ(any.choice, ToolChoice::kAuto);
  EXPECT_THAT(any.allowed, ElementsAre("g"));
  const ToolUse forced = *use_of(R"("tool_choice":{"type":"allowed_tools","mode":"required",)" + some);
  EXPECT_EQ(forced.choice, ToolChoice::kRequired);
  EXPECT_THAT(forced.allowed, ElementsAre("g"));
  EXPECT_EQ(use_of(R"("tool_choice":{"type":"allowed_tools","tools":[{"type":"web_search"}]})")->choice,
            ToolChoice::kNone);
  for (const char* bad : {R"("mode":"required","tools":[])", R"("tools":[{"type":"function","name":"x"}])",
                          R"("mode":"maybe","tools":[])", R"("tools":5)"}) {
    EXPECT_FALSE(use_of(R"("tool_choice":{"type":"allowed_tools",)" + std::string(bad) + "}").ok()) << bad;
  }
}

TEST(ResponseToolUse, UnknownChoicesAreRefused) {
  EXPECT_THAT(use_of(R"("tool_choice":"maybe")").error().message, HasSubstr("'tool_choice' must be"));
  EXPECT_THAT(use_of(R"("tool_choice":{"type":"web_search"})").error().message, HasSubstr("'tool_choice.type'"));
  EXPECT_THAT(use_of(R"("tool_choice":{"type":"function","name":"x"})").error().message, HasSubstr("'x'"));
  EXPECT_THAT(use_of(R"("tool_choice":{"type":"function"})").error().message, HasSubstr("'tool_choice.name'"));
  const auto none = read_response_tool_use(Json::parse(R"({"tool_choice":"required"})"), Json());
  EXPECT_THAT(none.error().message, HasSubstr("there are no 'tools'"));
}

}  // namespace
}  // namespace kvkeep::server::api
