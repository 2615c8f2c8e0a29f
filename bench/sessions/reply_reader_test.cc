#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "bench/sessions/dialect.h"
#include "bench/sessions/event_splitter.h"
#include "bench/sessions/json_fields.h"

namespace kvkeep::bench {
namespace {

using testing::HasSubstr;

ReplyFacts read(Dialect dialect, std::string_view bytes, int status = 200) {
  ReplyReader reader(dialect, status);
  reader.feed(bytes);
  return reader.finish();
}

// All facts, for comparison.
std::string summary(const ReplyFacts& facts) {
  const auto count = [](std::optional<std::uint64_t> value) { return value ? std::to_string(*value) : "-"; };
  return facts.text + "|" + to_line(facts.message) + "|" + facts.finish_reason + "|" + count(facts.prompt_tokens) +
         "|" + count(facts.cached_tokens) + "|" + count(facts.prefilled_tokens) + "|" + count(facts.reply_tokens) +
         "|" + facts.cache_source + "|" + facts.error;
}

std::string replaced(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  for (std::size_t at = 0; (at = text.find(from)) != std::string_view::npos; text.remove_prefix(at + from.size())) {
    out.append(text.substr(0, at)).append(to);
  }
  return out.append(text);
}

struct Sample {
  const char* name;
  Dialect dialect;
  std::string bytes;
  std::size_t answered_at;  // number of bytes after which the first piece of the answer had come
};

std::string chunk(const std::string& rest) { return "data: {\"object\":\"chat.completion.chunk\"," + rest + "}\n\n"; }

Sample sample(const char* name, Dialect dialect, const std::string& before, const std::string& first,
              const std::string& after) {
  return {name, dialect, before + first + after, before.size() + first.size()};
}

Sample chat_sample() {
  return sample(
      "chat", Dialect::kOpenAiChat,
      std::string(": keep-alive\n\n") +
          chunk(R"("choices":[{"index":0,"delta":{"role":"assistant","content":null}}])") +
          chunk(
              R"("choices":[{"index":0,"delta":{"role":"assistant","content":null}}],"prompt_progress":{"total":9,"cache":0,"processed":4})"),
      chunk(R"("choices":[{"index":0,"delta":{"reasoning_content":"hm "}}])"),
      chunk(R"("choices":[{"index":0,"delta":{"reasoning_content":"so"}}],"usage":null)") +
          chunk(R"("choices":[{"index":0,"delta":{"content":"Gr\u00fc\u00dfe, 🌱"}}])") +
          chunk(
              R"("choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"sow","arguments":""}}]}}])") +
          chunk(
              R"("choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"what\":"}}]}}])") +
          chunk(
              R"("choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"\"peas\"}"}},{"index":1,"id":"c2","function":{"name":"dig","arguments":"{}"}}]}}])") +
          chunk(R"("choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}])") +
          chunk(
              R"("choices":[],"usage":{"prompt_tokens":30,"completion_tokens":7,"prompt_tokens_details":{"cached_tokens":20}},)"
              R"("timings":{"cache_n":20,"prompt_n":10,"predicted_n":7,"cache_source":"disk-token"})") +
          "data: [DONE]\n\n");
}

std::string named(const std::string& type, const std::string& rest) {
  return "event: " + type + "\ndata: {\"type\":\"" + type + "\"" + (rest.empty() ? "" : "," + rest) + "}\n\n";
}

Sample anthropic_sample() {
  return sample(
      "anthropic", Dialect::kAnthropic,
      named("message_start", R"("message":{"role":"assistant","content":[],"usage":{"input_tokens":5,)"
                             R"("cache_read_input_tokens":40,"cache_creation_input_tokens":3,"output_tokens":1}})") +
          named("ping", "") +
          named("content_block_start", R"("index":0,"content_block":{"type":"thinking","thinking":""})"),
      named("content_block_delta", R"("index":0,"delta":{"type":"thinking_delta","thinking":"let me"})"),
      named("content_block_delta", R"("index":0,"delta":{"type":"signature_delta","signature":"sig"})") +
          named("content_block_stop", R"("index":0)") +
          named("content_block_start", R"("index":1,"content_block":{"type":"text","text":""})") +
          named("content_block_delta", R"("index":1,"delta":{"type":"text_delta","text":"I "})") +
          named("content_block_delta", R"("index":1,"delta":{"type":"text_delta","text":"dig"})") +
          named("content_block_stop", R"("index":1)") +
          named("content_block_start",
                R"("index":2,"content_block":{"type":"tool_use","id":"t1","name":"dig","input":{}})") +
          named("content_block_delta", R"("index":2,"delta":{"type":"input_json_delta","partial_json":"{\"deep\":"})") +
          named("content_block_delta", R"("index":2,"delta":{"type":"input_json_delta","partial_json":"3}"})") +
          named("content_block_stop", R"("index":2)") +
          named("message_delta", R"("delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":12})") +
          named("message_stop", ""));
}

Sample responses_sample() {
  return sample(
      "responses", Dialect::kOpenAiResponses,
      named("response.created", R"("response":{"status":"in_progress","output":[]})") +
          named("response.output_item.added", R"("output_index":0,"item":{"type":"message","content":[]})"),
      named("response.output_text.delta", R"("delta":"ra")"),
      named("response.output_text.delta", R"("delta":"in")") +
          named(
              "response.output_item.done",
              R"("output_index":0,"item":{"type":"message","role":"assistant","content":[{"type":"output_text","text":"rain"}]})") +
          named("response.output_item.done",
                R"("output_index":1,"item":{"type":"function_call","call_id":"f1","name":"look","arguments":"{}"})") +
          named("response.completed", R"("response":{"status":"completed","output":[],"usage":{"input_tokens":50,)"
                                      R"("input_tokens_details":{"cached_tokens":48},"output_tokens":6}})"));
}

Sample completion_sample() {
  return sample("completion", Dialect::kOpenAiCompletion, "", chunk(R"("choices":[{"text":"one "}])"),
                chunk(R"("choices":[{"text":"two","finish_reason":"length"}])") +
                    chunk(R"("choices":[],"usage":{"prompt_tokens":4,"completion_tokens":2})") + "data: [DONE]\n\n");
}

class Samples : public testing::TestWithParam<Sample> {};
INSTANTIATE_TEST_SUITE_P(ReplyReader, Samples,
                         testing::Values(chat_sample(), anthropic_sample(), responses_sample(), completion_sample()),
                         [](const auto& given) { return given.param.name; });

TEST_P(Samples, ReadTheSameWhereverTheyAreCut) {
  const Sample& given = GetParam();
  const std::string expected = summary(read(given.dialect, given.bytes));
  for (std::size_t cut = 0; cut <= given.bytes.size(); ++cut) {
    ReplyReader reader(given.dialect, 200);
    EXPECT_EQ(reader.feed(given.bytes.substr(0, cut)), cut >= given.answered_at) << cut;
    reader.feed(given.bytes.substr(cut));
    ASSERT_EQ(summary(reader.finish()), expected) << cut;
  }
}

TEST_P(Samples, ReadTheSameByteByByteAndWithOtherLineEnds) {
  const Sample& given = GetParam();
  const std::string expected = summary(read(given.dialect, given.bytes));
  const std::string with_comments = replaced(given.bytes, "\n\n", "\n: wait\n\n:\n");
  for (const std::string& bytes :
       {given.bytes, replaced(given.bytes, "\n", "\r\n"), replaced(given.bytes, "\n", "\r"), with_comments,
        std::string("\xEF\xBB\xBF").append(given.bytes), std::string("\n").append(given.bytes)}) {
    ReplyReader reader(given.dialect, 200);
    for (const char byte : bytes) reader.feed({&byte, 1});
    EXPECT_EQ(summary(reader.finish()), expected);
  }
}

TEST_P(Samples, CutOffAnywhereBeforeTheEndIsAnError) {
  const Sample& given = GetParam();
  const ReplyFacts facts = read(given.dialect, given.bytes.substr(0, given.answered_at));
  EXPECT_EQ(facts.error, "the stream stopped before its end");
}

TEST(ReplyReader, UnderstandsChat) {
  const ReplyFacts facts = read(Dialect::kOpenAiChat, chat_sample().bytes);
  EXPECT_EQ(facts.error, "");
  EXPECT_EQ(facts.text, "Grüße, 🌱");
  EXPECT_EQ(facts.finish_reason, "tool_calls");
  EXPECT_EQ(facts.prompt_tokens, 30U);
  EXPECT_EQ(facts.cached_tokens, 20U);
  EXPECT_EQ(facts.prefilled_tokens, 10U);
  EXPECT_EQ(facts.reply_tokens, 7U);
  EXPECT_EQ(facts.cache_source, "disk-token");
  EXPECT_EQ(to_line(facts.message),
            R"({"role":"assistant","content":"Grüße, 🌱","reasoning_content":"hm so","tool_calls":[)"
            R"({"id":"c1","type":"function","function":{"name":"sow","arguments":"{\"what\":\"peas\"}"}},)"
            R"({"id":"c2","type":"function","function":{"name":"dig","arguments":"{}"}}]})");
}

TEST(ReplyReader, UnderstandsMessages) {
  const ReplyFacts facts = read(Dialect::kAnthropic, anthropic_sample().bytes);
  EXPECT_EQ(facts.error, "");
  EXPECT_EQ(facts.text, "I dig");
  EXPECT_EQ(facts.finish_reason, "tool_use");
  EXPECT_EQ(facts.prompt_tokens, 48U) << "the three parts do not overlap";
  EXPECT_EQ(facts.cached_tokens, 40U);
  EXPECT_EQ(facts.prefilled_tokens, 8U);
  EXPECT_EQ(facts.reply_tokens, 12U);
  EXPECT_EQ(to_line(facts.message),
            R"({"role":"assistant","content":[{"type":"thinking","thinking":"let me","signature":"sig"},)"
            R"({"type":"text","text":"I dig"},{"type":"tool_use","id":"t1","name":"dig","input":{"deep":3}}]})");
}

TEST(ReplyReader, UnderstandsResponses) {
  const ReplyFacts facts = read(Dialect::kOpenAiResponses, responses_sample().bytes);
  EXPECT_EQ(facts.error, "");
  EXPECT_EQ(facts.text, "rain");
  EXPECT_EQ(facts.finish_reason, "completed");
  EXPECT_EQ(facts.prompt_tokens, 50U);
  EXPECT_EQ(facts.prefilled_tokens, 2U);
  EXPECT_EQ(facts.reply_tokens, 6U);
  ASSERT_EQ(facts.message.size(), 2U);
  EXPECT_EQ(text_field(facts.message[1], "call_id"), "f1");
}

TEST(ReplyReader, TellsHowFarThePrefillIs) {
  ReplyReader reader(Dialect::kOpenAiChat, 200);
  EXPECT_EQ(reader.processed_tokens(), 0U);
  EXPECT_FALSE(reader.feed(chunk(R"("choices":[],"prompt_progress":{"total":9,"cache":0,"processed":4})")));
  EXPECT_EQ(reader.processed_tokens(), 4U);
  EXPECT_TRUE(reader.feed(chunk(R"("choices":[{"index":0,"delta":{"content":"a"}}])")));
  EXPECT_EQ(reader.processed_tokens(), 4U);
}

TEST(ReplyReader, DoesNotGuessWhatTheServerDoesNotSay) {
  const ReplyFacts facts = read(Dialect::kOpenAiCompletion, completion_sample().bytes);
  EXPECT_EQ(facts.prompt_tokens, 4U);
  EXPECT_EQ(facts.cached_tokens, std::nullopt);
  EXPECT_EQ(facts.prefilled_tokens, std::nullopt);
  EXPECT_EQ(facts.message, "one two");
}

TEST(ReplyReader, ReadsWholeBodies) {
  const ReplyFacts chat = read(
      Dialect::kOpenAiChat,
      R"({"choices":[{"message":{"role":"assistant","content":null,"tool_calls":[{"id":"a","function":{"name":"f","arguments":"{}"}},)"
      R"({"id":"b","function":{"name":"g","arguments":"{}"}}]},"finish_reason":"tool_calls"}],)"
      R"("timings":{"cache_n":3,"prompt_n":4,"predicted_n":2}})");
  EXPECT_EQ(chat.error, "");
  EXPECT_EQ(chat.message["tool_calls"].size(), 2U) << "without an index, ids tell calls apart";
  EXPECT_TRUE(chat.message["content"].is_null());
  EXPECT_EQ(chat.prompt_tokens, 7U) << "from timings where there is no usage";
  EXPECT_EQ(chat.reply_tokens, 2U);

  const ReplyFacts messages = read(Dialect::kAnthropic, R"({"type":"message","content":[{"type":"text","text":"hay"}],)"
                                                        R"("stop_reason":"end_turn","usage":{"input_tokens":9}})");
  EXPECT_EQ(messages.text, "hay");
  EXPECT_EQ(messages.prompt_tokens, 9U);
  EXPECT_EQ(messages.cached_tokens, std::nullopt);

  const ReplyFacts responses =
      read(Dialect::kOpenAiResponses,
           R"({"object":"response","status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},)"
           R"("output":[{"type":"message","content":[{"type":"output_text","text":"oats"}]}]})");
  EXPECT_EQ(responses.text, "oats");
  EXPECT_EQ(responses.finish_reason, "max_output_tokens");
}

TEST(ReplyReader, ReadsCallsAndDeltasOfCarelessServers) {
  const ReplyFacts chat =
      read(Dialect::kOpenAiChat,
           chunk(R"("choices":[{"delta":{"tool_calls":[{"id":"a","function":{"name":"f","arguments":"{"}}]}}])") +
               chunk(R"("choices":[{"delta":{"tool_calls":[{"function":{"arguments":"}"}}]}}])") +
               chunk(R"("choices":[{"delta":{},"finish_reason":"stop"}])"));
  EXPECT_EQ(text_field(chat.message["tool_calls"][0]["function"], "arguments"), "{}");
  const ReplyFacts messages = read(Dialect::kAnthropic,
                                   "event: content_block_delta\n"
                                   "data: {\"delta\":{\"type\":\"text_delta\",\ndata: \"text\":\"x\"}}\n\n"
                                   "event: message_stop\ndata: {}\n\n");
  EXPECT_EQ(messages.error, "");
  EXPECT_EQ(messages.text, "x") << "the type from the event's name, data of two lines, no start";
}

TEST(ReplyReader, GivesErrorsInTheServersWords) {
  const auto error = [](Dialect dialect, std::string_view body, int status) {
    return read(dialect, body, status).error;
  };
  EXPECT_EQ(error(Dialect::kOpenAiChat, R"({"error":{"message":"too long","type":"x"}})", 400), "too long");
  EXPECT_EQ(error(Dialect::kOpenAiChat, R"({"error":"no model"})", 404), "no model");
  EXPECT_EQ(error(Dialect::kOpenAiChat, R"({"detail":[{"loc":"body"}]})", 422), R"([{"loc":"body"}])");
  EXPECT_EQ(error(Dialect::kAnthropic, R"({"type":"error","error":{"type":"overloaded_error","message":"busy"}})", 529),
            "busy");
  EXPECT_EQ(error(Dialect::kOpenAiResponses, R"({"error":{"message":"no"}})", 500), "no");
  EXPECT_EQ(error(Dialect::kOther, "Not\nFound", 404), "Not Found");
  EXPECT_EQ(error(Dialect::kAnthropic, "", 503), "HTTP 503");
  EXPECT_EQ(error(Dialect::kAnthropic, "<html>gateway</html>", 502), "<html>gateway</html>");
  EXPECT_EQ(error(Dialect::kOpenAiChat, std::string(400, 'x'), 500).size(), 303U) << "no longer than a line";
  EXPECT_EQ(error(Dialect::kOther, "{", 200), "") << "only waited for";
}

TEST(ReplyReader, SeesErrorsInStreams) {
  EXPECT_EQ(read(Dialect::kOpenAiChat, chunk(R"("error":{"message":"out of memory"})")).error, "out of memory");
  EXPECT_EQ(read(Dialect::kAnthropic, named("error", R"("error":{"type":"overloaded_error","message":"busy"})")).error,
            "busy");
  EXPECT_EQ(read(Dialect::kOpenAiResponses,
                 named("response.failed", R"("response":{"status":"failed","error":{"message":"broke"}})"))
                .error,
            "broke");
  EXPECT_EQ(read(Dialect::kOpenAiResponses, named("error", R"("message":"bad")")).error, "bad");
  EXPECT_THAT(read(Dialect::kOpenAiChat, "data: {oops\n\ndata: [DONE]\n\n").error,
              HasSubstr("an event that is not JSON"));
  EXPECT_EQ(read(Dialect::kOpenAiChat, ": nothing\n\n").error, "the stream stopped before its end");
}

TEST(ReplyReader, FindsFaultWithBodiesThatAreNoReply) {
  EXPECT_EQ(read(Dialect::kOpenAiChat, "").error, "an empty reply");
  EXPECT_THAT(read(Dialect::kOpenAiChat, "hello").error, HasSubstr("a reply that is not JSON"));
  for (const char* body :
       {"[]", "3", "{}", R"({"choices":7,"usage":[],"timings":"x"})", R"({"choices":[[],{"delta":4}]})",
        R"({"usage":{"prompt_tokens":-1,"completion_tokens":1.5}})", R"({"type":4,"content":[1,{}]})"}) {
    for (const Dialect dialect : {Dialect::kOpenAiChat, Dialect::kOpenAiCompletion, Dialect::kOpenAiResponses,
                                  Dialect::kAnthropic, Dialect::kOther}) {
      const ReplyFacts facts = read(dialect, body);
      EXPECT_EQ(facts.prompt_tokens, std::nullopt) << body;
      EXPECT_EQ(facts.text, "") << body;
    }
  }
}

TEST(EventSplitter, DropsWhatIsTooLong) {
  std::vector<std::string> events;
  EventSplitter splitter(20, [&](std::string_view, std::string_view data) { events.emplace_back(data); });
  splitter.feed("data: 12345\n\ndata: " + std::string(30, 'x') + "\n\ndata: 6\n\n");
  splitter.finish();
  EXPECT_TRUE(splitter.overflowed());
  EXPECT_EQ(events.front(), "12345");
  EXPECT_EQ(events.back(), "6");
}

TEST(EventSplitter, FollowsTheStandard) {
  std::vector<std::string> events;
  EventSplitter splitter(1000, [&](std::string_view name, std::string_view data) {
    events.push_back(std::string(name) + "=" + std::string(data));
  });
  splitter.feed(
      "event: a\n\nid: 7\nretry: 5\ndata:  two spaces\n\ndata\n\nevent: b\ndata:x\ndata:\ndata: y\n\ndata: end");
  splitter.finish();
  EXPECT_THAT(events, testing::ElementsAre("= two spaces", "=", "b=x\n\ny", "=end"));
}

}  // namespace
}  // namespace kvkeep::bench
