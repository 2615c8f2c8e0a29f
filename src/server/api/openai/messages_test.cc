// How messages change before a template sees them.

#include <gtest/gtest.h>

#include <string>
#include <variant>

#include "server/api/openai/chat.h"

namespace kvkeep::server::api {
namespace {

Result<GenerationRequest> with_result(const std::string& content) {
  return parse_chat(
      R"({"messages":[{"role":"user","content":"look"},{"role":"tool","tool_call_id":"1","content":)" + content + "}]}",
      {});
}

TEST(ChatMessages, AToolsPictureDoesNotEndTheConversation) {
  const auto request = with_result(R"([{"type":"text","text":"a.png"},{"type":"image_url","image_url":{"url":"x"}}])");
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(std::get<chat::RenderInput>(request->prompt).messages[1]["content"],
            Json::parse(R"([{"type":"text","text":"a.png"},
              {"type":"text","text":"[image_url left out: this model reads text only]"}])"));
}

TEST(ChatMessages, APartOfAResultThatHasNoTypeIsRefused) {
  for (const char* content : {"5", "[5]", R"([{"type":5}])", R"([{"text":"x"}])", R"([{"type":"text"}])"}) {
    EXPECT_FALSE(with_result(content).ok()) << content;
  }
}

TEST(ChatMessages, TheBeginningOfAReplyAloneIsNoConversation) {
  const auto request = parse_chat(R"({"messages":[{"role":"assistant","content":"Well,"}]})", {});
  ASSERT_FALSE(request.ok());
  EXPECT_EQ(request.error().message, "'messages' must have one that the assistant answers");
}

}  // namespace
}  // namespace kvkeep::server::api
