#include "server/api/anthropic/tools.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "server/api/anthropic/request.h"

namespace kvkeep::server::api {
namespace {

using testing::HasSubstr;

Json tools(const std::string& list) {
  auto read = read_custom_tools(Json::parse(R"({"tools":)" + list + "}"));
  if (!read) throw std::runtime_error(read.error().message);
  return std::move(read).value();
}
std::string tools_error(const std::string& list) {
  const auto read = read_custom_tools(Json::parse(R"({"tools":)" + list + "}"));
  return read ? "no error" : read.error().message;
}

TEST(CustomTools, BecomeFunctions) {
  EXPECT_EQ(tools(R"([{"input_schema":{"type":"object","properties":{"z":{},"a":{}},"required":["z"]},"name":"f",
                       "description":"d","cache_control":{"type":"ephemeral"},"defer_loading":true,
                       "input_examples":[{"z":1}],"eager_input_streaming":true},
                      {"type":"custom","name":"g","input_schema":{},"strict":true,"description":null}])")
                .dump(),
            R"([{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object",)"
            R"("properties":{"z":{},"a":{}},"required":["z"]}}},)"
            R"({"type":"function","function":{"name":"g","parameters":{},"strict":true}}])");
  EXPECT_TRUE(tools("[]").is_null());
  EXPECT_TRUE(tools("null").is_null());
  EXPECT_TRUE(read_custom_tools(Json::object())->is_null());
}

TEST(CustomTools, ThoseOfAnthropicAreRefusedByName) {
  for (const char* type : {"web_search_20250305", "code_execution_20250522", "bash_20250124", "text_editor_20250728",
                           "computer_20250124", "mcp_toolset", "what"}) {
    EXPECT_EQ(tools_error(std::string(R"([{"type":")") + type + R"(","name":"x"}])"),
              std::string("'tools.0': tools of type '") + type +
                  "' are not available here: describe your own tool with an input_schema");
  }
}

TEST(CustomTools, ASearchForToolsHasNothingToFind) {
  EXPECT_TRUE(tools(R"([{"type":"tool_search_tool_regex_20251119","name":"tool_search_tool_regex"}])").is_null());
  EXPECT_EQ(tools(R"([{"type":"tool_search_tool_bm25_20251119","name":"s"},{"name":"f","input_schema":{}}])").size(),
            1U);
}

TEST(CustomTools, MalformedOnesAreRefusedWithTheirPlace) {
  for (const auto& [list, words] : std::vector<std::pair<std::string, std::string>>{
           {"{}", "'tools' must be an array"},
           {"[5]", "'tools.0' must be an object"},
           {R"([{"name":"f","input_schema":{}},{}])", "'tools.1.name' is required"},
           {R"([{"name":"","input_schema":{}}])", "'tools.0.name' must be a string"},
           {R"([{"name":5,"input_schema":{}}])", "'tools.0.name' must be a string"},
           {R"([{"name":"f"}])", "'tools.0.input_schema' is required"},
           {R"([{"name":"f","input_schema":[]}])", "'tools.0.input_schema' must be an object"},
           {R"([{"name":"f","input_schema":{},"description":5}])", "'tools.0.description' must be a string"},
           {R"([{"name":"f","input_schema":{},"strict":1}])", "'strict' must be a boolean"},
           {R"([{"name":"f","input_schema":{},"type":5}])", "'tools.0.type' must be a string"},
       }) {
    EXPECT_THAT(tools_error(list), HasSubstr(words)) << list;
  }
}

Result<ToolUse> tool_use(const std::string& choice, const std::string& list = R"([{"name":"f","input_schema":{}}])") {
  const Json body = Json::parse(R"({"tools":)" + list + R"(,"tool_choice":)" + choice + "}");
  return read_tool_use(body, *read_custom_tools(body));
}

TEST(ToolUse, EveryChoice) {
  EXPECT_EQ(tool_use("null")->choice, ToolChoice::kAuto);
  EXPECT_EQ(tool_use(R"({"type":"auto"})")->choice, ToolChoice::kAuto);
  EXPECT_EQ(tool_use(R"({"type":"none"})")->choice, ToolChoice::kNone);
  EXPECT_EQ(tool_use(R"({"type":"any"})")->choice, ToolChoice::kRequired);
  const auto named = tool_use(R"({"type":"tool","name":"f","disable_parallel_tool_use":true})");
  EXPECT_EQ(named->choice, ToolChoice::kNamed);
  EXPECT_EQ(named->name, "f");
  EXPECT_FALSE(named->parallel);
  EXPECT_TRUE(tool_use(R"({"type":"auto","disable_parallel_tool_use":false})")->parallel);
  EXPECT_TRUE(tool_use(R"({"type":"auto"})", "[]").ok());
  EXPECT_TRUE(tool_use(R"({"type":"none"})", "[]").ok());
}

TEST(ToolUse, WrongChoices) {
  for (const auto& [choice, list, words] : std::vector<std::tuple<std::string, std::string, std::string>>{
           {R"("auto")", "[]", "'tool_choice' must be an object"},
           {"{}", "[]", "'tool_choice.type' must be"},
           {R"({"type":"required"})", "[]", "'tool_choice.type' must be"},
           {R"({"type":"any"})", "[]", "needs 'tools'"},
           {R"({"type":"tool","name":"f"})", "[]", "needs 'tools'"},
           {R"({"type":"tool"})", R"([{"name":"f","input_schema":{}}])", "'tool_choice.name' is required"},
           {R"({"type":"tool","name":5})", R"([{"name":"f","input_schema":{}}])", "must be a string"},
           {R"({"type":"tool","name":"g"})", R"([{"name":"f","input_schema":{}}])", "'g' is not among 'tools'"},
           {R"({"type":"auto","disable_parallel_tool_use":1})", "[]", "disable_parallel_tool_use"},
       }) {
    const auto use = tool_use(choice, list);
    ASSERT_FALSE(use.ok()) << choice;
    EXPECT_THAT(use.error().message, HasSubstr(words));
  }
}

constexpr const char* kMark = R"("cache_control":{"type":"ephemeral"})";
constexpr const char* kLongMark = R"("cache_control":{"type":"ephemeral","ttl":"1h"})";

std::string text_block(const std::string& mark) { return R"({"type":"text","text":"x",)" + mark + "}"; }
// A body with one block at each place that may have a mark.
std::string body_of(const std::string& tool, const std::string& system, const std::string& block,
                    const std::string& top = "") {
  return R"({"tools":[{"name":"f","input_schema":{})" + (tool.empty() ? "" : "," + tool) + R"(}],"system":[)" + system +
         R"(],"messages":[{"role":"user","content":"plain"},{"role":"user","content":[)" + block + "]}]" +
         (top.empty() ? "" : "," + top) + "}";
}
Result<CacheLifetime> marks(const std::string& body) { return read_cache_control(Json::parse(body)); }
std::string marks_error(const std::string& body) {
  const auto read = marks(body);
  return read ? "no error" : read.error().message;
}

TEST(CacheControl, TheLastMarkTells) {
  EXPECT_EQ(*marks("{}"), CacheLifetime::kNone);
  EXPECT_EQ(*marks(body_of("", "", "")), CacheLifetime::kNone);
  EXPECT_EQ(*marks(body_of(kMark, "", "")), CacheLifetime::kFiveMinutes);
  EXPECT_EQ(*marks(body_of(R"("cache_control":null)", text_block(kLongMark), "")), CacheLifetime::kOneHour);
  EXPECT_EQ(*marks(body_of(kLongMark, text_block(kLongMark), text_block(kMark), kMark)), CacheLifetime::kFiveMinutes);
  EXPECT_EQ(*marks(body_of("", "", "", kLongMark)), CacheLifetime::kOneHour);
  EXPECT_EQ(*marks(body_of("", text_block(R"("cache_control":{"type":"ephemeral","ttl":"5m","scope":"global"})"), "")),
            CacheLifetime::kFiveMinutes);
}

TEST(CacheControl, AtMostFourMarks) {
  const std::string nested =
      R"({"type":"tool_result","tool_use_id":"t","content":[)" + text_block(kMark) + "]," + kMark + "}";
  EXPECT_TRUE(marks(body_of(kMark, text_block(kMark), nested)).ok());
  EXPECT_EQ(marks_error(body_of(kMark, text_block(kMark), nested, kMark)),
            "A maximum of 4 blocks with cache_control may be provided. Found 5.");
}

TEST(CacheControl, LongLifetimesComeFirst) {
  EXPECT_THAT(marks_error(body_of(kMark, text_block(kLongMark), "")),
              HasSubstr("'system.0.cache_control.ttl': a ttl='1h' cache_control block must not come after a ttl='5m'"));
  EXPECT_THAT(marks_error(body_of("", text_block(kMark), text_block(kLongMark))),
              HasSubstr("'messages.1.content.0.cache_control.ttl'"));
  EXPECT_THAT(marks_error(body_of("", text_block(kMark), "", kLongMark)), HasSubstr("'cache_control.ttl'"));
}

TEST(CacheControl, PlacesAndTypes) {
  EXPECT_THAT(marks_error(body_of("", "", std::string(R"({"type":"thinking","thinking":"x",)") + kMark + "}")),
              HasSubstr("cannot be set on thinking blocks"));
  EXPECT_THAT(marks_error(body_of("", std::string(R"({"type":"text","text":"",)") + kMark + "}", "")),
              HasSubstr("'system.0.text': cache_control cannot be set for empty text blocks"));
  for (const char* wrong : {"5", "{}", R"({"type":"persistent"})", R"({"type":5})",
                            R"({"type":"ephemeral","ttl":"2h"})", R"({"type":"ephemeral","ttl":300})"}) {
    EXPECT_THAT(marks_error(body_of(std::string(R"("cache_control":)") + wrong, "", "")),
                HasSubstr("'tools.0.cache_control"))
        << wrong;
  }
}

TEST(CacheControl, OtherShapesArePassedOver) {
  for (const char* body :
       {R"({"tools":5,"system":"s","messages":5})", R"({"tools":[5],"system":[null],"messages":["x"]})",
        R"({"messages":[{"content":5},{"content":[7,{"type":"tool_result","content":"x"}]}]})"}) {
    EXPECT_EQ(*marks(body), CacheLifetime::kNone) << body;
  }
}

}  // namespace
}  // namespace kvkeep::server::api
