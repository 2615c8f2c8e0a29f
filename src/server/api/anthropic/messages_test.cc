#include "server/api/anthropic/messages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

namespace kvkeep::server::api {
namespace {

using testing::HasSubstr;

Json conversation(const std::string& fields) {
  auto read = read_conversation(Json::parse("{" + fields + "}"));
  if (!read) throw std::runtime_error(read.error().message);
  return std::move(read).value();
}
Json messages(const std::string& list) { return conversation(R"("messages":[)" + list + "]"); }
std::string error_of(const std::string& fields) {
  const auto read = read_conversation(Json::parse("{" + fields + "}"));
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

TEST(Conversation, AFailureIsTold) {
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

TEST(Conversation, WhatCannotBeReadIsRefusedByName) {
  for (const char* type : {"image", "document", "search_result", "server_tool_use", "web_search_tool_result",
                           "container_upload", "compaction", "what"}) {
    const std::string block = std::string(R"({"type":")") + type + R"(","source":{}})";
    EXPECT_EQ(
        error_of_block("user", R"({"type":"text","text":"x"},)" + block),
        std::string("'messages.0.content.1' is of type '") + type + "', which this server cannot read: send text");
  }
  EXPECT_EQ(
      error_of_block("user", R"({"type":"tool_result","tool_use_id":"t","content":[{"type":"what","source":{}}]})"),
      "'messages.0.content.0.content.0' is of type 'what', which this server cannot read: send text");
}

// The picture would be in every later request of the conversation, too.
TEST(Conversation, AToolsPictureDoesNotEndTheConversation) {
  EXPECT_EQ(messages(R"({"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":[
    {"type":"text","text":"a.png"},{"type":"image","source":{}}]}]})")[0]["content"],
            "a.png\n[image left out: this model reads text only]");
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

}  // namespace
}  // namespace kvkeep::server::api
