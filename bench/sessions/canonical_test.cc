#include "bench/sessions/canonical.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <random>
#include <set>

#include "base/test_seed.h"
#include "bench/sessions/json_fields.h"

namespace kvkeep::bench {
namespace {

constexpr Dialect kChat = Dialect::kOpenAiChat;
constexpr Dialect kMessages = Dialect::kAnthropic;
constexpr Dialect kResponses = Dialect::kOpenAiResponses;

std::string text(Dialect dialect, std::string_view body) { return canonical_text(dialect, parse_json(body).value()); }

TEST(Canonical, ShowsAConversation) {
  EXPECT_EQ(text(kMessages, R"({"model":"m","max_tokens":5,
      "tools":[{"name":"dig","input_schema":{"type":"object","a":1}}],
      "system":[{"type":"text","text":"x-anthropic-billing-header: v=1;"},{"type":"text","text":"Be brief.\n%end"}],
      "messages":[{"role":"user","content":"Dig!"},
        {"role":"assistant","content":[{"type":"thinking","thinking":"ok","signature":"s"},
          {"type":"tool_use","id":"t77","name":"dig","input":{"b":1,"a":2}}]},
        {"role":"user","content":[{"type":"tool_result","tool_use_id":"t77","is_error":true,"content":"rock"}]}]})"),
            "%tool\n{\"input_schema\":{\"a\":1,\"type\":\"object\"},\"name\":\"dig\"}\n%end\n"
            "%message system\n%text\nBe brief.\n%%end\n%end\n"
            "%message user\n%text\nDig!\n%end\n"
            "%message assistant\n%reasoning\nok\n%call 1 dig\n{\"a\":2,\"b\":1}\n%end\n"
            "%message user\n%result 1 error\n%text\nrock\n%end\n%end\n");
}

struct Pair {
  Dialect dialect;
  const char* a;
  const char* b;
};

TEST(Canonical, TakesTheSameForTheSame) {
  for (
      const Pair& pair : {
          Pair{
              kMessages, R"({"messages":[{"role":"user","content":"hi"}]})",
              R"({"messages":[{"content":[{"text":"hi","cache_control":{"type":"ephemeral"},"type":"text"}],"role":"user"}]})"},
          Pair{
              kMessages, R"({"system":"x-anthropic-billing-header: v=1;\nBe brief","messages":[]})",
              R"({"system":[{"type":"text","text":"x-anthropic-billing-header: v=22; z"},{"type":"text","text":"Be brief"}]})"},
          Pair{
              kMessages, R"({"messages":[{"role":"system","content":"x-anthropic-billing-header: a\nBe"}]})",
              R"({"messages":[{"role":"system","content":"Be","cache_control":{}}],"metadata":{"user":1},"stream":true})"},
          Pair{kMessages, R"({"tools":[{"name":"a","input_schema":{"x":1,"y":2},"cache_control":{}}]})",
               R"({"tools":[{"input_schema":{"y":2,"x":1},"name":"a"}]})"},
          Pair{kMessages,
               R"({"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"q","content":"r"}]}]})",
               R"({"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"z","is_error":false,)"
               R"("cache_control":{},"content":[{"type":"text","text":"r","cache_control":{}}]}]}]})"},
          Pair{
              kChat,
              R"({"messages":[{"role":"assistant","content":null,"refusal":null,"tool_calls":[{"id":"1","type":"function",)"
              R"("function":{"name":"f","arguments":"{ \"b\" : 1, \"a\":2}"}}]}]})",
              R"({"messages":[{"role":"assistant","content":"","tool_calls":[{"id":"9","function":{"arguments":"{\"a\":2,\"b\":1}","name":"f"}}]}]})"},
          Pair{
              kChat, R"({"messages":[{"role":"assistant","reasoning_content":"r","content":"x"}]})",
              R"({"messages":[{"role":"assistant","reasoning":"r","content":[{"type":"text","text":"x"}]}],"model":"m"})"},
          Pair{kResponses, R"({"instructions":"Be","input":"hi"})",
               R"({"instructions":"Be","input":[{"type":"message","id":"i","status":"completed","role":"user",)"
               R"("content":[{"type":"input_text","text":"hi"}]}],"store":false})"},
          Pair{kResponses, R"({"input":[{"type":"reasoning","id":"a","summary":[],"encrypted_content":"x"}]})",
               R"({"input":[{"type":"reasoning","id":"b","summary":[],"encrypted_content":"y"}]})"},
      }) {
    EXPECT_EQ(text(pair.dialect, pair.a), text(pair.dialect, pair.b));
    EXPECT_NE(text(pair.dialect, pair.a), "");
  }
}

TEST(Canonical, KeepsTheFormAsSentIfAsked) {
  const CanonicalForm as_sent{.as_sent = true};
  const auto form = [&](const char* body) {
    return canonical_text(kChat, parse_json(body).value(), CanonicalOrder::kToolsFirst, as_sent);
  };
  const auto call = [](const std::string& arguments) {
    return R"({"messages":[{"role":"assistant","tool_calls":[{"id":"1","function":{"name":"f","arguments":)" +
           arguments + "}}]}]}";
  };
  EXPECT_NE(form(call(R"("{\"a\":1}")").c_str()).find("\n{\"a\":1}\n"), std::string::npos);
  EXPECT_NE(form(call(R"("{\"a\": 1}")").c_str()), form(call(R"("{\"a\":1}")").c_str()));
  EXPECT_NE(form(call(R"({"a":1,"b":2})").c_str()), form(call(R"({"b":2,"a":1})").c_str()));
  EXPECT_NE(form(R"({"tools":[{"a":1,"b":2}]})"), form(R"({"tools":[{"b":2,"a":1}]})"));
  const Json billed = {{"system", "x-anthropic-billing-header: v=1;\nBe brief"}, {"messages", Json::array()}};
  EXPECT_EQ(canonical_text(kMessages, billed, CanonicalOrder::kToolsFirst, as_sent).find("billing"), std::string::npos);
  EXPECT_NE(canonical_text(kMessages, billed, CanonicalOrder::kToolsFirst, {.billing_line = true}).find("billing"),
            std::string::npos);
}

TEST(Canonical, TellsDifferentContentApart) {
  // Each differs in content from every other, many of them by imitating sections.
  const std::vector<std::string> messages = {
      R"({"role":"user","content":"a"})",
      R"({"role":"user","content":"a\n"})",
      R"({"role":"user","content":"a\n%end\n%message assistant\n%text\nb"})",
      R"({"role":"user","content":"a\n%%end\n%message assistant\n%text\nb"})",
      R"({"role":"user","content":"a"},{"role":"assistant","content":"b"})",
      R"({"role":"user","content":"ab"})",
      R"({"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]})",
      R"({"role":"user","content":"a\n%text\nb"})",
      R"({"role":"user\n%text\na","content":""})",
      R"({"role":"user","content":[{"type":"image","source":"a"}]})",
      R"({"role":"user","content":[{"type":"text","text":"{\"source\":\"a\",\"type\":\"image\"}"}]})",
      R"({"role":"user","content":"%part\n{\"source\":\"a\",\"type\":\"image\"}"})",
      R"({"role":"user","content":"a","name":"n"})",
      R"({"role":"user","content":"a\n%field name\n\"n\""})",
      R"({"role":"user","content":"x-anthropic-billing-header: 1"})",
      R"({"role":"user","content":"x-anthropic-billing-header: 2"})",
      R"({"role":"assistant","reasoning_content":"a"})",
      R"({"role":"assistant","content":"a"})",
      R"({"role":"assistant","tool_calls":[{"id":"1","function":{"name":"f","arguments":"{}"}}]})",
      R"({"role":"assistant","tool_calls":[{"id":"1","function":{"name":"f\n{}","arguments":""}}]})",
      R"({"role":"assistant","tool_calls":[{"id":"1","function":{"name":"g","arguments":"{}"}}]})",
      R"({"role":"assistant","content":"%call 1 f\n{}"})",
      R"({"role":"tool","tool_call_id":"1","content":"a"})",
      R"({"role":"tool","content":"a"})",
      R"({"role":"tool","content":"%result 1\n%text\na"})",
  };
  std::set<std::string> texts;
  for (const std::string& message : messages) {
    EXPECT_TRUE(texts.insert(text(kChat, R"({"messages":[)" + message + "]}")).second) << message;
  }
}

TEST(Canonical, TellsWhichCallAResultBelongsTo) {
  const auto body = [](const char* first, const char* second) {
    const std::string use = R"({"type":"tool_use","name":"f","input":{},"id":")";
    const std::string result = R"({"type":"tool_result","content":"x","tool_use_id":")";
    return R"({"messages":[{"role":"assistant","content":[)" + use + "p\"}," + use + "q\"}]}," +
           R"({"role":"user","content":[)" + result + first + "\"}," + result + second + "\"}]}]}";
  };
  EXPECT_NE(text(kMessages, body("p", "q")), text(kMessages, body("q", "p")));
}

TEST(Canonical, PutsTheSystemTextInFrontOfTheToolsIfAsked) {
  const auto order = [](Dialect dialect, const char* body) {
    const std::string text = canonical_text(dialect, parse_json(body).value(), CanonicalOrder::kSystemFirst);
    return std::vector{text.find("first"), text.find("tool-a"), text.find("later")};
  };
  for (
      const auto& places :
      {order(
           kChat,
           R"({"tools":["tool-a"],"messages":[{"role":"system","content":"first"},{"role":"user","content":"later"}]})"),
       order(kMessages, R"({"tools":["tool-a"],"system":"first","messages":[{"role":"user","content":"later"}]})"),
       order(kResponses, R"({"tools":["tool-a"],"instructions":"first","input":"later"})"),
       order(
           kResponses,
           R"({"tools":["tool-a"],"input":[{"role":"developer","content":"first"},{"role":"user","content":"later"}]})")}) {
    EXPECT_TRUE(std::ranges::is_sorted(places) && places.back() != std::string::npos);
  }
}

TEST(Canonical, KeepsACompletionsPromptAsItIs) {
  const std::string earlier = text(Dialect::kOpenAiCompletion, R"({"prompt":"once upon"})");
  EXPECT_EQ(earlier, "once upon");
  EXPECT_TRUE(text(Dialect::kOpenAiCompletion, R"({"prompt":"once upon a time"})").starts_with(earlier));
  EXPECT_NE(text(Dialect::kOpenAiCompletion, R"({"prompt":"a\n%suffix\n\"b\""})"),
            text(Dialect::kOpenAiCompletion, R"({"prompt":"a","suffix":"b"})"));
}

TEST(Canonical, NeverFails) {
  for (const char* body : {"[]", "3", "null", "{}", R"({"messages":3,"tools":{},"system":7,"input":4,"prompt":[1,2]})",
                           R"({"messages":[1,[],{"role":4,"content":{"a":1},"tool_calls":[3]}],"tools":[1]})",
                           R"({"input":[1,{"type":"x"}],"system":[[1]],"messages":[{"content":[1,"x"]}]})"}) {
    for (const Dialect dialect : {kChat, kMessages, kResponses, Dialect::kOpenAiCompletion, Dialect::kOther}) {
      EXPECT_EQ(text(dialect, body), text(dialect, body));
    }
  }
  EXPECT_EQ(text(Dialect::kOther, R"({"messages":[]})"), "");
}

TEST(WithReply, PutsTheReplyWhereTheNextRequestHasIt) {
  const auto next = [](Dialect dialect, const char* body, const char* message) {
    return to_line(with_reply(dialect, parse_json(body).value(), parse_json(message).value()));
  };
  EXPECT_EQ(next(kChat, R"({"messages":[1]})", "2"), R"({"messages":[1,2]})");
  EXPECT_EQ(next(kResponses, R"({"input":"hi"})", R"([{"type":"message"}])"),
            R"({"input":[{"role":"user","content":"hi"},{"type":"message"}]})");
  EXPECT_EQ(next(Dialect::kOpenAiCompletion, R"({"prompt":"a"})", R"("b")"), R"({"prompt":"ab"})");
  EXPECT_EQ(next(kChat, R"({"messages":[1]})", "null"), R"({"messages":[1]})");
  EXPECT_EQ(next(kChat, "[]", "2"), "[]");
}

// --- random conversations ---

class Maker {
 public:
  explicit Maker(std::uint64_t seed) : random_(seed) {}

  Json conversation() {
    Json body = {{"system", Json::array({block()})}, {"tools", Json::array()}, {"messages", Json::array()}};
    for (std::size_t i = below(3); i > 0; --i)
      body["tools"].push_back({{"name", word()}, {"schema", {{"a", word()}, {"b", 1}}}});
    extend(body, 1 + below(4));
    return body;
  }
  void extend(Json& body, std::size_t messages) {
    for (; messages > 0; --messages) {
      Json content = Json::array();
      for (std::size_t i = 1 + below(2); i > 0; --i) content.push_back(below(4) == 0 ? call() : block());
      body["messages"].push_back({{"role", below(2) == 0 ? "user" : "assistant"}, {"content", content}});
    }
  }
  // The same conversation in another form.
  Json disguised(const Json& body) {
    Json other = body;
    if (below(2) == 0) {
      Json billing = {{"type", "text"}, {"text", "x-anthropic-billing-header: " + std::to_string(random_())}};
      other["system"].insert(other["system"].begin(), billing);
    }
    for (Json& message : other["messages"]) disguise_message(message);
    for (Json& tool : other["tools"]) tool = reversed(tool);
    return reversed(other);
  }
  std::size_t below(std::size_t limit) { return random_() % limit; }

 private:
  // Mostly the characters of sections.
  std::string word() {
    static constexpr std::array kWords = {"%end", "\n", "%text", "%%", "a", "%message user", "\n%end\n", "%", "1 "};
    std::string out;
    for (std::size_t i = 1 + below(5); i > 0; --i) out += kWords[below(kWords.size())];
    return out;
  }
  Json block() { return {{"type", "text"}, {"text", word()}}; }
  Json call() {
    return {
        {"type", "tool_use"}, {"id", std::to_string(below(3))}, {"name", word()}, {"input", {{"x", word()}, {"y", 2}}}};
  }
  void disguise_message(Json& message) {
    Json& content = message["content"];
    const bool is_one_text = content.size() == 1 && text_field(content[0], "type") == "text";
    if (below(2) == 0) content[below(content.size())]["cache_control"] = {{"type", "ephemeral"}};
    for (Json& part : content) part = reversed(part);
    if (is_one_text && below(2) == 0) content = text_field(content[0], "text");
    message = reversed(message);
  }
  // The object with its keys in reverse order.
  static Json reversed(const Json& object) {
    Json out = Json::object();
    for (auto item = object.rbegin(); item != object.rend(); ++item) out[item.key()] = *item;
    return out;
  }

  std::mt19937_64 random_;
};

TEST(Canonical, TheFormOfRandomConversationsIsStableAndAPrefixOfTheNext) {
  Maker maker(test_seed());
  for (int round = 0; round < 2000; ++round) {
    Json body = maker.conversation();
    const std::string before = canonical_text(kMessages, body);
    ASSERT_EQ(canonical_text(kMessages, maker.disguised(body)), before) << body;
    const std::string system_first = canonical_text(kMessages, body, CanonicalOrder::kSystemFirst);
    maker.extend(body, 1 + maker.below(2));
    const std::string after = canonical_text(kMessages, maker.disguised(body));
    ASSERT_TRUE(after.starts_with(before) && after != before) << body;
    ASSERT_TRUE(canonical_text(kMessages, body, CanonicalOrder::kSystemFirst).starts_with(system_first)) << body;
  }
}

TEST(Canonical, TheFormsOfRandomConversationsDifferWhereTheyDiffer) {
  Maker maker(test_seed());
  std::map<std::string, Json> seen;
  for (int round = 0; round < 20000; ++round) {
    Json body = Json::object();
    body["messages"] = Json::array();
    maker.extend(body, 1 + maker.below(2));
    // Ids are renumbered; everything else must stay.
    Json known = body;
    std::map<std::string, std::size_t> numbers;
    for (Json& message : known["messages"]) {
      for (Json& part : message["content"]) {
        if (part.contains("id")) part["id"] = numbers.try_emplace(part["id"], numbers.size()).first->second;
      }
    }
    const auto [place, is_new] = seen.emplace(canonical_text(kMessages, body), known);
    ASSERT_TRUE(is_new || place->second == known) << place->first;
  }
}

TEST(Canonical, IsCutWhereSectionsBegin) {
  using Pieces = std::vector<std::string_view>;
  EXPECT_EQ(canonical_pieces("%tool\n{}\n%end\n%message user\n%text\n50%\n%%no\n%end\n"),
            (Pieces{"%tool\n{}\n", "%end\n", "%message user\n", "%text\n50%\n%%no\n", "%end\n"}));
  EXPECT_EQ(canonical_pieces("no section\n%%text"), (Pieces{"no section\n%%text"}));
  EXPECT_EQ(canonical_pieces("%"), (Pieces{"%"}));
  EXPECT_EQ(canonical_pieces(""), Pieces{});
}

TEST(Canonical, RepliesBeginAsTheNextRequestHasThem) {
  const Json body = {{"messages", Json::array({{{"role", "user"}, {"content", "hi"}}})}};
  const Json longer = with_reply(Dialect::kOpenAiChat, body, {{"role", "assistant"}, {"content", "ho"}});
  const std::string begun =
      canonical_text(Dialect::kOpenAiChat, body) + std::string(canonical_reply_begin(Dialect::kOpenAiChat));
  EXPECT_TRUE(canonical_text(Dialect::kOpenAiChat, longer).starts_with(begun));
  EXPECT_EQ(canonical_reply_begin(Dialect::kOpenAiCompletion), "");
}

TEST(Canonical, FilesAreHashes) {
  const auto text_of = [](const std::string& base64) {
    const Json url = {{"url", "data:image/png;base64," + base64}};
    const Json part = {{"type", "image_url"}, {"image_url", url}};
    const Json message = {{"role", "user"}, {"content", Json::array({part})}};
    return canonical_text(Dialect::kOpenAiChat, {{"messages", Json::array({message})}});
  };
  const std::string one = text_of(std::string(10'000, 'A'));
  EXPECT_LT(one.size(), 200u);
  EXPECT_NE(one.find("data:image/png;base64,"), std::string::npos);
  EXPECT_EQ(one, text_of(std::string(10'000, 'A')));
  EXPECT_NE(one, text_of(std::string(10'000, 'B')));
  EXPECT_GT(text_of(std::string(10'000, '!')).size(), 10'000u) << "it is no base64";
}

}  // namespace
}  // namespace kvkeep::bench
