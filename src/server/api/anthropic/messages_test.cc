#include "server/api/anthropic/messages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "server/api/anthropic/request.h"

namespace kvkeep::server::api {
namespace {

using testing::HasSubstr;

Json conversation(const std::string& fields) {
  MediaReader text_only(nullptr);
  auto read = read_conversation(Json::parse("{" + fields + "}"), text_only);
  if (!read) throw std::runtime_error(read.error().message);
  return std::move(read).value();
}
Json messages(const std::string& list) { return conversation(R"("messages":[)" + list + "]"); }
std::string error_of(const std::string& fields) {
  MediaReader text_only(nullptr);
  const auto read = read_conversation(Json::parse("{" + fields + "}"), text_only);
  if (read) return "no error: " + read->dump();
  EXPECT_EQ(read.error().kind, ErrorKind::kInvalid);
  return read.error().message;
}
std::string error_of_messages(const std::string& list) { return error_of(R"("messages":[)" + list + "]"); }
// The error for one block in a message by this role.
std::string error_of_block(const std::string& role, const std::string& block) {
  return error_of_messages(R"({"role":")" + role + R"(","content":[)" + block + "]}");
}

const std::string kHi = R"({"role":"user","content":"hi"})";

TEST(Conversation, OneTurnOfEachKind) {
  EXPECT_EQ(conversation(R"("system":[{"type":"text","text":"be"},{"type":"text","text":"brief"}],"messages":[
    {"role":"user","content":"look"},
    {"role":"assistant","content":[
      {"type":"thinking","thinking":"I must look.","signature":"abc"},{"type":"redacted_thinking","data":"xyz"},
      {"type":"text","text":"Looking."},
      {"type":"tool_use","id":"t1","name":"ls","input":{"path":"/","all":true}},
      {"type":"tool_use","id":"t2","name":"pwd","input":{}}]},
    {"role":"user","content":[
      {"type":"tool_result","tool_use_id":"t1","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},
      {"type":"tool_result","tool_use_id":"t2","content":"/"},
      {"type":"text","text":"And now?"}]}])"),
            Json::parse(R"([
    {"role":"system","content":[{"type":"text","text":"be"},{"type":"text","text":"brief"}]},
    {"role":"user","content":"look"},
    {"role":"assistant","content":"Looking.","reasoning_content":"I must look.","tool_calls":[
      {"id":"t1","type":"function","function":{"name":"ls","arguments":"{\"path\":\"/\",\"all\":true}"}},
      {"id":"t2","type":"function","function":{"name":"pwd","arguments":"{}"}}]},
    {"role":"tool","tool_call_id":"t1","content":"a\nb"},
    {"role":"tool","tool_call_id":"t2","content":"/"},
    {"role":"user","content":"And now?"}])"));
}

TEST(Conversation, FormsThatMeanTheSameAreTheSame) {
  const std::string plain = R"("system":"s","messages":[{"role":"user","content":"hi"},
    {"role":"assistant","content":"a"},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"r"}]}])";
  const std::string rich = R"("messages":[
    {"content":[{"cache_control":{"type":"ephemeral"},"text":"hi","type":"text"}],"role":"user"},
    {"content":[{"text":"","type":"text"},{"text":"a","type":"text","citations":null}],"role":"assistant"},
    {"content":[{"content":[{"text":"r","type":"text"}],"tool_use_id":"t","cache_control":{"type":"ephemeral"},
      "is_error":false,"type":"tool_result"}],"role":"user"}],
    "system":[{"text":"s","type":"text","cache_control":{"type":"ephemeral","ttl":"1h"}}])";
  EXPECT_EQ(conversation(plain).dump(), conversation(rich).dump());
}

TEST(Conversation, KeysOfInputsStayInTheirOrder) {
  const Json read = messages(R"({"role":"assistant","content":[
    {"type":"tool_use","id":"t","name":"f","input":{"z":1,"a":{"y":"ü","b":null}}}]})");
  EXPECT_EQ(read[0]["tool_calls"][0]["function"]["arguments"], R"({"z":1,"a":{"y":"ü","b":null}})");
}

TEST(Conversation, SystemMessagesStayInTheirPlace) {
  EXPECT_EQ(conversation(
                R"("system":"one","messages":[{"role":"system","content":"two"},)" + kHi +
                R"(,{"role":"system","content":[{"type":"text","text":"three"}]},{"role":"assistant","content":"a"}])"),
            Json::parse(R"([{"role":"system","content":"one"},{"role":"system","content":"two"},)" + kHi +
                        R"(,{"role":"system","content":"three"},{"role":"assistant","content":"a"}])"));
  EXPECT_EQ(conversation(R"("system":"","messages":[)" + kHi + "]"), Json::parse("[" + kHi + "]"));
  EXPECT_EQ(conversation(R"("system":[],"messages":[)" + kHi + "]"), Json::parse("[" + kHi + "]"));
}

TEST(Conversation, MessagesOfOneRoleInARowAreOne) {
  EXPECT_EQ(messages(R"({"role":"user","content":"a"},{"role":"user","content":[{"type":"text","text":"b"}]},
    {"role":"assistant","content":"c"},{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f"}]},
    {"role":"user","content":[{"type":"tool_result","tool_use_id":"t"}]},{"role":"user","content":"d"})"),
            Json::parse(R"([{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},
    {"role":"assistant","content":"c","tool_calls":[{"id":"t","type":"function","function":{"name":"f","arguments":"{}"}}]},
    {"role":"tool","tool_call_id":"t","content":""},{"role":"user","content":"d"}])"));
}

TEST(Conversation, ResultsComeBeforeTheTextOfTheirMessage) {
  EXPECT_EQ(messages(R"({"role":"user","content":[{"type":"text","text":"b"},
    {"type":"tool_result","tool_use_id":"t","content":"a"}]},{"role":"user","content":"c"})"),
            Json::parse(R"([{"role":"tool","tool_call_id":"t","content":"a"},
    {"role":"user","content":[{"type":"text","text":"b"},{"type":"text","text":"c"}]}])"));
}

TEST(Conversation, AFailureIsReported) {
  const auto told = [](const std::string& content) {
    return messages(R"({"role":"user","content":[{"type":"tool_result","tool_use_id":"t","is_error":true)" + content +
                    "}]}")[0]["content"];
  };
  EXPECT_EQ(told(R"(,"content":"Exit code 1\nerror: x")"), "Error: Exit code 1\nerror: x");
  EXPECT_EQ(told(R"(,"content":"<tool_use_ERROR>no</tool_use_error>")"), "<tool_use_ERROR>no</tool_use_error>");
  EXPECT_EQ(told(""), "Error");
}

TEST(Conversation, ThoughtsOfSeveralBlocksAndEmptyMessages) {
  EXPECT_EQ(
      messages(R"({"role":"user","content":[]},{"role":"assistant","content":[{"type":"thinking","thinking":"a"},
    {"type":"thinking","thinking":"","signature":"s"},{"type":"thinking","thinking":"b"}]})"),
      Json::parse(R"([{"role":"user","content":""},{"role":"assistant","content":"","reasoning_content":"a\nb"}])"));
  EXPECT_EQ(messages(R"({"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":[
    {"type":"tool_reference","tool_name":"f"}]}]})")[0]["content"],
            "f");
}

TEST(Conversation, UnreadableBlocksAreRefusedByName) {
  for (const char* type : {"image", "document", "search_result", "server_tool_use", "web_search_tool_result",
                           "container_upload", "compaction", "what"}) {
    const std::string block = std::string(R"({"type":")") + type + R"(","source":{}})";
    const std::string note = std::string_view(type) == "image" ? "image input is not supported, " : "";
    EXPECT_EQ(error_of_block("user", R"({"type":"text","text":"x"},)" + block),
              std::string("'messages.0.content.1' is of type '") + type + "', which this server cannot read: " + note +
                  "send text");
  }
  EXPECT_EQ(
      error_of_block("user", R"({"type":"tool_result","tool_use_id":"t","content":[{"type":"what","source":{}}]})"),
      "'messages.0.content.0.content.0' is of type 'what', which this server cannot read: send text");
}

// The picture would be in every later request of the conversation, too.
TEST(Conversation, AToolsPictureDoesNotEndTheConversation) {
  EXPECT_EQ(messages(R"({"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":[
    {"type":"text","text":"a.png"},{"type":"image","source":{}}]}]})")[0]["content"],
            "a.png\n[image left out: this model does not read it]");
}

TEST(Conversation, BlocksHaveTheirSide) {
  EXPECT_EQ(error_of_block("user", R"({"type":"tool_use","id":"t","name":"f","input":{}})"),
            "'messages.0.content.0': `tool_use` blocks can only be in `assistant` messages");
  EXPECT_EQ(error_of_block("assistant", R"({"type":"tool_result","tool_use_id":"t"})"),
            "'messages.0.content.0': `tool_result` blocks can only be in `user` messages");
  EXPECT_THAT(error_of_block("user", R"({"type":"thinking","thinking":"x"})"), HasSubstr("`assistant`"));
  EXPECT_THAT(error_of_block("system", R"({"type":"redacted_thinking","data":"x"})"), HasSubstr("`assistant`"));
  EXPECT_THAT(error_of(R"("system":[{"type":"tool_use"}],"messages":[])"), HasSubstr("'system.0'"));
}

TEST(Conversation, MalformedOnesAreRefusedWithTheirPlace) {
  for (const auto& [fields, words] : std::vector<std::pair<std::string, std::string>>{
           {"", "'messages' is required"},
           {R"("messages":null)", "'messages' is required"},
           {R"("messages":{})", "'messages' must be an array"},
           {R"("messages":[])", "messages: at least one message is required"},
           {R"("messages":[5])", "'messages.0' must be an object"},
           {R"("messages":[{"content":"x"}])", "'messages.0.role' is required"},
           {R"("messages":[{"role":5,"content":"x"}])", "'messages.0.role' must be a string"},
           {R"("messages":[{"role":"tool","content":"x"}])", "messages: Unexpected role \"tool\""},
           {R"("messages":[{"role":"user"}])", "'messages.0.content' is required"},
           {R"("messages":[{"role":"user","content":5}])", "'messages.0.content' must be a string or an array"},
           {R"("messages":[{"role":"user","content":["x"]}])", "'messages.0.content.0' must be an object"},
           {R"("messages":[{"role":"user","content":[{"text":"x"}]}])", "'messages.0.content.0.type' is required"},
           {R"("messages":[{"role":"user","content":[{"type":"text"}]}])", "'messages.0.content.0.text' is required"},
           {R"("messages":[{"role":"user","content":[{"type":"text","text":5}]}])", "content.0.text' must be a string"},
           {R"("system":5,"messages":[])", "'system' must be a string or an array"},
       }) {
    EXPECT_THAT(error_of(fields), HasSubstr(words)) << fields;
  }
  for (const auto& [role, block, words] : std::vector<std::tuple<std::string, std::string, std::string>>{
           {"user", R"({"type":"tool_result"})", "tool_use_id' is required"},
           {"user", R"({"type":"tool_result","tool_use_id":5})", "tool_use_id' must be a string"},
           {"user", R"({"type":"tool_result","tool_use_id":"t","is_error":1})", "is_error"},
           {"user", R"({"type":"tool_result","tool_use_id":"t","content":5})",
            "content.0.content' must be a string or"},
           {"user", R"({"type":"tool_result","tool_use_id":"t","content":["x"]})", "content.0' must be an object"},
           {"user", R"({"type":"tool_result","tool_use_id":"t","content":[{"type":"text"}]})", "text' is required"},
           {"assistant", R"({"type":"tool_use","name":"f"})", "id' is required"},
           {"assistant", R"({"type":"tool_use","id":"t"})", "name' is required"},
           {"assistant", R"({"type":"tool_use","id":"t","name":"f","input":"x"})", "input' must be an object"},
           {"assistant", R"({"type":"thinking"})", "thinking' is required"},
       }) {
    EXPECT_THAT(error_of_block(role, block), HasSubstr(words)) << block;
  }
}

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
