// Each template by name prints what libllama prints for that name.

#include "chat/builtin_templates.h"

#include <gtest/gtest.h>
#include <llama.h>

#include <string>
#include <vector>

#include "chat/chat_template.h"

namespace kvkeep::chat {
namespace {

struct Message {
  const char* role;
  const char* text;
};
using Conversation = std::vector<Message>;

const std::vector<Conversation>& conversations() {
  static const std::vector<Conversation> all = {
      {{"user", "one"}},
      {{"user", " spaces "}, {"assistant", " around\n"}, {"user", "three"}},
      {{"system", " be\nbrief "}, {"user", "one"}},
      {{"system", "s"},
       {"user", "one"},
       {"assistant", "two"},
       {"user", "three"},
       {"assistant", " four "},
       {"user", " 5"}},
      {{"user", "one"}, {"user", "two"}, {"assistant", "three"}, {"assistant", "four"}, {"user", "five"}},
      {{"system", "s"}, {"assistant", "first"}, {"user", "\"q\" {{ x }} \\n \u00e9"}},
  };
  return all;
}

std::string as_libllama(const std::string& name, const Conversation& conversation, bool opens_answer) {
  std::vector<llama_chat_message> messages;
  for (const Message& message : conversation) messages.push_back({message.role, message.text});
  std::string text(4096, '\0');
  const std::int32_t length = llama_chat_apply_template(name.c_str(), messages.data(), messages.size(), opens_answer,
                                                        text.data(), static_cast<std::int32_t>(text.size()));
  text.resize(length > 0 ? static_cast<std::size_t>(length) : 0);
  return text;
}

std::string as_ours(const std::string& name, const Conversation& conversation, bool opens_answer) {
  const auto made = make_chat_template(*builtin_template(name), {});
  if (!made) return made.error().message;
  RenderInput input;
  for (const Message& message : conversation) {
    input.messages.push_back({{"role", message.role}, {"content", message.text}});
  }
  input.add_generation_prompt = opens_answer;
  const auto printed = (*made)->print(input);
  return printed ? std::string(printed->text) : printed.error().message;
}

class ByName : public testing::TestWithParam<std::string> {};

TEST_P(ByName, PrintsWhatLibllamaPrints) {
  for (const Conversation& conversation : conversations()) {
    for (const bool opens_answer : {false, true}) {
      EXPECT_EQ(as_ours(GetParam(), conversation, opens_answer), as_libllama(GetParam(), conversation, opens_answer));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, ByName, testing::ValuesIn(builtin_template_names()), [](const auto& name) {
  std::string word = name.param;
  std::erase_if(word, [](char byte) { return byte == '-' || byte == '.' || byte == '_'; });
  return word;
});

TEST(BuiltinTemplates, AreThoseThatLibllamaKnows) {
  std::vector<const char*> known(256);
  known.resize(static_cast<std::size_t>(llama_chat_builtin_templates(known.data(), known.size())));
  std::vector<std::string> names(known.begin(), known.end());
  for (const std::string& name : builtin_template_names()) {
    EXPECT_EQ(std::count(names.begin(), names.end(), name), 1) << name;
  }
  EXPECT_GE(builtin_template_names().size(), 45U);
  EXPECT_FALSE(builtin_template("chatmll"));
}

}  // namespace
}  // namespace kvkeep::chat
