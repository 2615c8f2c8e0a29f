#include "server/api/openai/reply.h"

#include <gtest/gtest.h>

#include <limits>

#include "server/api/errors.h"
#include "server/api/models.h"
#include "server/api/score_list_test.h"

namespace kvkeep::server::api {
namespace {

ReplyHeader header() {
  return {.id = "chatcmpl-1", .created_s = 1718100000, .model = "m", .system_fingerprint = "b1-kvkeep"};
}

GenerationResult result() {
  GenerationResult values;
  values.finish = FinishReason::kLength;
  values.content = {{.text = "grüße"}};
  values.tokens = {7, 8, 9};
  values.prompt_tokens = 10;
  values.timings = {.cache_n = 6,
                    .prompt_n = 4,
                    .prompt_ms = 8,
                    .predicted_n = 3,
                    .predicted_ms = 1,
                    .cache_source = "ram-token",
                    .memory_tokens = 2,
                    .ram_tokens = 4,
                    .disk_tokens = 0,
                    .cache_point = "disk",
                    .cache_miss_reason = "new-tokens",
                    .slot = 1};
  values.reasoning_tokens = 2;
  return values;
}

const std::string expected_timings =
    R"("timings":{"cache_n":6,"prompt_n":4,"prompt_ms":8.0,"prompt_per_token_ms":2.0,"prompt_per_second":500.0,)"
    R"("predicted_n":3,"predicted_ms":1.0,"predicted_per_token_ms":0.5,"predicted_per_second":2000.0,)"
    R"("cache_source":"ram-token","cache_tokens":{"memory":2,"ram":4,"disk":0,"shared":0},"cache_point":"disk",)"
    R"("cache_miss_reason":"new-tokens","id_slot":1})";
const std::string expected_usage =
    R"("usage":{"completion_tokens":3,"prompt_tokens":10,"total_tokens":13,"prompt_tokens_details":{"cached_tokens":6},)"
    R"("completion_tokens_details":{"reasoning_tokens":2}})";
const std::string expected_chunk_head =
    R"("created":1718100000,"id":"chatcmpl-1","model":"m","system_fingerprint":"b1-kvkeep","object":"chat.completion.chunk")";

std::string chat_chunk(const std::string& choices, const std::string& more = "") {
  return "data: {\"choices\":[" + choices + "]," + expected_chunk_head + more + "}\n\n";
}

TEST(ChatReply, Whole) {
  EXPECT_EQ(ChatReplyWriter(header(), {}).whole(result()),
            R"({"choices":[{"finish_reason":"length","index":0,"message":{"role":"assistant","content":"grüße"}}],)"
            R"("created":1718100000,"model":"m","system_fingerprint":"b1-kvkeep","object":"chat.completion",)" +
                expected_usage + R"(,"id":"chatcmpl-1",)" + expected_timings + "}");
}

TEST(ChatReply, Stream) {
  GenerationRequest request;
  request.include_usage = true;
  ChatReplyWriter writer(header(), request);
  const std::string role = R"({"finish_reason":null,"index":0,"delta":{"role":"assistant","content":null}})";
  EXPECT_EQ(writer.first({}), chat_chunk(role));
  EXPECT_EQ(writer.progress({.total = 10, .cached = 6, .processed = 8, .time_ms = 3.7}),
            chat_chunk(role, R"(,"prompt_progress":{"total":10,"cache":6,"processed":8,"time_ms":3})"));
  EXPECT_EQ(writer.delta({.text = "a\"b"}),
            chat_chunk(R"({"finish_reason":null,"index":0,"delta":{"content":"a\"b"}})"));
  EXPECT_EQ(writer.finish(result()), chat_chunk(R"({"finish_reason":"length","index":0,"delta":{}})") +
                                         chat_chunk("", "," + expected_usage + "," + expected_timings) +
                                         "data: [DONE]\n\n");
}

TEST(ChatReply, WithoutUsageTheTimingsComeWithTheFinishReason) {
  GenerationResult stopped = result();
  stopped.finish = FinishReason::kStop;
  EXPECT_EQ(
      ChatReplyWriter(header(), {}).finish(stopped),
      chat_chunk(R"({"finish_reason":"stop","index":0,"delta":{}})", "," + expected_timings) + "data: [DONE]\n\n");
}

TEST(ChatReply, TimingsAndTokensPerChunkOnlyIfAskedFor) {
  const std::vector<TokenId> tokens = {7, 8};
  const Timings timings = result().timings;
  const Delta delta{.text = "x", .tokens = tokens, .timings = &timings};
  const std::string plain = R"({"finish_reason":null,"index":0,"delta":{"content":"x"}})";
  EXPECT_EQ(ChatReplyWriter(header(), {}).delta(delta), chat_chunk(plain));
  GenerationRequest request;
  request.timings_per_token = request.return_tokens = true;
  EXPECT_EQ(ChatReplyWriter(header(), request).delta(delta),
            chat_chunk(plain, R"(,"tokens":[7,8],)" + expected_timings));
  EXPECT_NE(ChatReplyWriter(header(), request).whole(result()).find(R"("tokens":[7,8,9])"), std::string::npos);
}

TEST(ChatReply, ReasoningAndCallsInAStream) {
  ChatReplyWriter writer(header(), {});
  const auto expect = [&](const Delta& delta, const std::string& json) {
    EXPECT_EQ(writer.delta(delta), chat_chunk(R"({"finish_reason":null,"index":0,"delta":{)" + json + "}}"));
  };
  expect({.kind = DeltaKind::kReasoning, .text = "hm"}, R"("reasoning_content":"hm")");
  expect({.kind = DeltaKind::kCallBegin, .call_index = 1, .call_id = "call_9", .call_name = "f"},
         R"("tool_calls":[{"index":1,"id":"call_9","type":"function","function":{"name":"f","arguments":""}}])");
  expect({.kind = DeltaKind::kCallArguments, .text = R"({"a":)", .call_index = 1},
         R"("tool_calls":[{"index":1,"function":{"arguments":"{\"a\":"}}])");
  EXPECT_EQ(writer.delta({.kind = DeltaKind::kCallEnd, .call_index = 1}), "");
  EXPECT_NE(writer.delta({.kind = DeltaKind::kCallEnd, .call_index = 1, .call_is_whole = false})
                .find(R"("tool_calls":[{"index":1,"function":{"arguments":""},"incomplete":true}])"),
            std::string::npos);
  EXPECT_NE(writer.finish({.finish = FinishReason::kToolCalls}).find(R"("finish_reason":"tool_calls")"),
            std::string::npos);
}

TEST(ChatReply, TokensOfACallsEndAreSent) {
  GenerationRequest request;
  request.return_tokens = true;
  const std::vector<TokenId> tokens = {7};
  EXPECT_EQ(ChatReplyWriter(header(), request).delta({.kind = DeltaKind::kCallEnd, .tokens = tokens}),
            chat_chunk(R"({"finish_reason":null,"index":0,"delta":{}})", R"(,"tokens":[7])"));
}

std::string message_of(const std::vector<ReplyPart>& content) {
  GenerationResult values;
  values.finish = FinishReason::kToolCalls;
  values.content = content;
  return Json::parse(ChatReplyWriter(header(), {}).whole(values))["choices"][0]["message"].dump();
}

TEST(ChatReply, ReasoningAndCallsInOneBody) {
  const ReplyPart call = {.kind = PartKind::kCall, .text = "{}", .call_id = "call_1", .call_name = "f"};
  const std::string calls =
      R"("tool_calls":[{"type":"function","id":"call_1","function":{"name":"f","arguments":"{}"}}]})";
  EXPECT_EQ(message_of({call}), R"({"role":"assistant","content":null,)" + calls);
  EXPECT_EQ(message_of({{.kind = PartKind::kReasoning, .text = "hm"}, {.text = "so"}, call}),
            R"({"role":"assistant","content":"so","reasoning_content":"hm",)" + calls);
  ReplyPart cut_off = call;
  cut_off.is_whole = false;
  EXPECT_NE(message_of({cut_off}).find(R"("incomplete":true)"), std::string::npos);
  EXPECT_EQ(message_of({{.kind = PartKind::kReasoning, .text = "hm"}}),
            R"({"role":"assistant","content":"","reasoning_content":"hm"})");
}

TEST(Deltas, AddUpToParts) {
  std::vector<ReplyPart> content;
  for (const Delta& delta : std::vector<Delta>{{.kind = DeltaKind::kReasoning, .text = "a"},
                                               {.kind = DeltaKind::kReasoning, .text = "b"},
                                               {.text = ""},
                                               {.text = "c"},
                                               {.kind = DeltaKind::kCallBegin, .call_id = "1", .call_name = "f"},
                                               {.kind = DeltaKind::kCallArguments, .text = "{"},
                                               {.kind = DeltaKind::kCallArguments, .text = "}"},
                                               {.kind = DeltaKind::kCallEnd},
                                               {.kind = DeltaKind::kCallBegin, .call_id = "2", .call_name = "f"},
                                               {.kind = DeltaKind::kCallEnd, .call_index = 1, .call_is_whole = false},
                                               {.text = "d"}}) {
    append_delta(content, delta);
  }
  EXPECT_EQ(content,
            (std::vector<ReplyPart>{{.kind = PartKind::kReasoning, .text = "ab"},
                                    {.text = "c"},
                                    {.kind = PartKind::kCall, .text = "{}", .call_id = "1", .call_name = "f"},
                                    {.kind = PartKind::kCall, .call_id = "2", .call_name = "f", .is_whole = false},
                                    {.text = "d"}}));
}

const std::string expected_completion_tail =
    R"(],"created":1718100000,"model":"m","system_fingerprint":"b1-kvkeep","object":"text_completion","id":"chatcmpl-1")";

TEST(CompletionReply, Whole) {
  EXPECT_EQ(CompletionReplyWriter(header(), {}).whole(result()),
            R"({"choices":[{"text":"grüße","index":0,"logprobs":null,"finish_reason":"length"})" +
                expected_completion_tail + "," + expected_usage + "," + expected_timings + "}");
}

TEST(CompletionReply, Stream) {
  CompletionReplyWriter writer(header(), {});
  EXPECT_EQ(writer.first({}), "");
  EXPECT_EQ(writer.delta({.text = "x"}),
            R"(data: {"choices":[{"text":"x","index":0,"logprobs":null,"finish_reason":null})" +
                expected_completion_tail + "}\n\n");
  EXPECT_EQ(writer.progress({.total = 2, .cached = 1, .processed = 1}),
            R"(data: {"choices":[{"text":"","index":0,"logprobs":null,"finish_reason":null})" +
                expected_completion_tail + R"(,"prompt_progress":{"total":2,"cache":1,"processed":1,"time_ms":0}})" +
                "\n\n");
  EXPECT_EQ(writer.finish(result()),
            R"(data: {"choices":[{"text":"","index":0,"logprobs":null,"finish_reason":"length"})" +
                expected_completion_tail + "," + expected_usage + "," + expected_timings + "}\n\ndata: [DONE]\n\n");
}

TokenScore score() {
  return {.id = 7, .text = "é", .logprob = -0.5F, .likeliest = {{.id = 9, .text = "b", .logprob = -0.25F}, {.id = 7}}};
}

TEST(Scores, AreShownInTheShapesOfBothServers) {
  const std::string list =
      R"([{"id":7,"token":"é","bytes":[195,169],"logprob":-0.5,"top_logprobs":[)"
      R"({"id":9,"token":"b","bytes":[98],"logprob":-0.25},{"id":7,"token":"","bytes":[],"logprob":0.0}]}])";
  GenerationRequest request;
  request.scored_tokens = 2;
  GenerationResult scored = result();
  scored.scores = score_list({score()});
  const TokenScore one = score();
  const Json chat = Json::parse(ChatReplyWriter(header(), request).whole(scored));
  EXPECT_EQ(chat["choices"][0]["logprobs"]["content"], Json::parse(list));
  const std::string chunk = ChatReplyWriter(header(), request).delta({.text = "é", .score = &one});
  EXPECT_EQ(Json::parse(chunk.substr(6))["choices"][0]["logprobs"]["content"], Json::parse(list));
  scored.scores = score_list({score(), score()});
  const Json whole = Json::parse(CompletionReplyWriter(header(), request).whole(scored))["choices"][0]["logprobs"];
  EXPECT_EQ(whole["content"].size(), 2U);
  EXPECT_EQ(whole["tokens"], Json::array({"é", "é"}));
  EXPECT_EQ(whole["token_logprobs"], Json::array({-0.5, -0.5}));
  EXPECT_EQ(whole["text_offset"], Json::array({0, 2}));
  EXPECT_EQ(whole["top_logprobs"][1], Json::parse(R"({"b":-0.25,"":0.0})"));
  CompletionReplyWriter stream(header(), request);
  for (const int offset : {0, 2}) {
    const Json event = Json::parse(stream.delta({.text = "é", .score = &one}).substr(6));
    EXPECT_EQ(event["choices"][0]["logprobs"]["text_offset"], Json::array({offset}));
  }
}

TEST(Scores, ATokenThatCannotComeHasANumber) {
  const TokenScore never{.logprob = -std::numeric_limits<float>::infinity()};
  EXPECT_EQ(score_json(never, ScoreKind::kLogprobs)["logprob"], -9999.0);
}

TEST(Timings, NothingIsDividedByZero) {
  EXPECT_EQ(to_line(timings_json({})),
            R"({"cache_n":0,"prompt_n":0,"prompt_ms":0.0,"prompt_per_token_ms":0.0,"prompt_per_second":0.0,)"
            R"("predicted_n":0,"predicted_ms":0.0,"predicted_per_token_ms":0.0,"predicted_per_second":0.0,)"
            R"("cache_source":"none","cache_tokens":{"memory":0,"ram":0,"disk":0,"shared":0},"cache_point":"none"})");
}

TEST(Replies, InvalidUtf8NeverThrows) {
  EXPECT_NE(ChatReplyWriter(header(), {}).delta({.text = "\xFFx"}).find("\xEF\xBF\xBDx"), std::string::npos);
}

TEST(Errors, StatusAndTypeByKind) {
  const std::vector<std::tuple<ErrorKind, int, std::string>> cases = {
      {ErrorKind::kInvalid, 400, "invalid_request_error"},
      {ErrorKind::kNotFound, 404, "not_found_error"},
      {ErrorKind::kUnsupported, 501, "not_supported_error"},
      {ErrorKind::kBusy, 503, "unavailable_error"},
      {ErrorKind::kNoSpace, 413, "invalid_request_error"},
      {ErrorKind::kAborted, 503, "unavailable_error"},
      {ErrorKind::kDamaged, 500, "server_error"},
      {ErrorKind::kIo, 500, "server_error"}};
  for (const auto& [kind, status, type] : cases) {
    const ErrorReply reply = error_reply({kind, "why \"so\""});
    EXPECT_EQ(reply.status, status);
    EXPECT_EQ(reply.body,
              R"({"error":{"code":)" + std::to_string(status) + R"(,"message":"why \"so\"","type":")" + type + "\"}}");
  }
}

TEST(Errors, ContextExceeded) {
  const ErrorReply reply = context_exceeded_reply(3009, true, 2048);
  EXPECT_EQ(reply.status, 400);
  EXPECT_EQ(
      reply.body,
      R"({"error":{"code":400,"message":"request (3009 tokens) exceeds the available context size (2048 tokens), )"
      R"(try increasing it","type":"exceed_context_size_error","n_prompt_tokens":3009,"n_ctx":2048}})");
  EXPECT_EQ(stream_error(reply), "data: " + reply.body + "\n\n");
  EXPECT_NE(context_exceeded_reply(2048, true, 2048).body.find("(2048 tokens, one of them for the reply)"),
            std::string::npos);
  EXPECT_NE(context_exceeded_reply(3009, false, 2048).body.find("request (at least 3009 tokens) exceeds"),
            std::string::npos);
}

TEST(Models, OneObjectForAllFamiliesOfClients) {
  const std::string line = models_reply({.id = "m",
                                         .created_s = 1718100000,
                                         .vocabulary_size = 3874,
                                         .context_tokens = 2048,
                                         .trained_context_tokens = 131072,
                                         .embedding_size = 128,
                                         .parameters = 1435008,
                                         .size_bytes = 1942048,
                                         .vocabulary_type = 2,
                                         .file_type = "Q8_0",
                                         .names = {"m", "n"},
                                         .tags = {"t"}});
  const Json reply = Json::parse(line);
  EXPECT_EQ(
      to_line(reply["data"]),
      R"([{"id":"m","object":"model","created":1718100000,"owned_by":"kvkeep","type":"model",)"
      R"("display_name":"m","aliases":["m","n"],"tags":["t"],"architecture":{"input_modalities":["text"],)"
      R"("output_modalities":["text"]},"created_at":"2024-06-11T10:00:00Z","meta":{"vocab_type":2,"n_vocab":3874,)"
      R"("n_ctx":2048,"n_ctx_train":131072,"n_embd":128,"n_params":1435008,"size":1942048,"ftype":"Q8_0"}}])");
  EXPECT_EQ(to_line(reply["models"]),
            R"([{"name":"m","model":"m","modified_at":"","size":"","digest":"","type":"model","description":"",)"
            R"("tags":[""],"capabilities":["completion"],"parameters":"","details":{"parent_model":"",)"
            R"("format":"gguf","family":"","families":[""],"parameter_size":"","quantization_level":""}}])");
  EXPECT_EQ(reply["object"], "list");
  EXPECT_EQ(reply["has_more"], false);
  EXPECT_EQ(reply["first_id"], "m");
  EXPECT_EQ(reply["last_id"], "m");
  EXPECT_EQ(health_reply(), R"({"status":"ok"})");
}

TEST(Models, Rfc3339) {
  EXPECT_EQ(rfc3339(0), "1970-01-01T00:00:00Z");
  EXPECT_EQ(rfc3339(951827696), "2000-02-29T12:34:56Z");
}

TEST(ChatReply, SeveralChoicesHaveTheirIndexAndOneUsage) {
  GenerationRequest request;
  request.choices_per_prompt = 2;
  request.include_usage = true;
  ChatReplyWriter writer(header(), request);
  std::vector<GenerationResult> results(2, result());
  results[1].choice = 1;
  results[0].usage_of_all = {.prompt_tokens = 10, .cached_tokens = 6, .completion_tokens = 6, .reasoning_tokens = 4};
  const Json whole = Json::parse(writer.whole_of_all(results).rest());
  EXPECT_EQ(whole["choices"].size(), 2U);
  EXPECT_EQ(whole["choices"][1]["index"], 1);
  EXPECT_EQ(whole["usage"]["total_tokens"], 16);
  EXPECT_EQ(writer.first({.choice = 1}),
            chat_chunk(R"({"finish_reason":null,"index":1,"delta":{"role":"assistant","content":null}})"));
  EXPECT_EQ(writer.delta({.text = "x", .choice = 1}),
            chat_chunk(R"({"finish_reason":null,"index":1,"delta":{"content":"x"}})"));
  EXPECT_EQ(writer.end_choice(results[1]), chat_chunk(R"({"finish_reason":"length","index":1,"delta":{}})"));
}

TEST(CompletionReply, SeveralPromptsAreRepeatedWithEcho) {
  GenerationRequest request;
  request.more_prompts = {"b"};
  CompletionReplyWriter writer(header(), request, {"a", "bc"});
  std::vector<GenerationResult> results(2, result());
  results[1].choice = 1;
  const Json whole = Json::parse(writer.whole_of_all(results).rest());
  EXPECT_EQ(whole["choices"][0]["text"], "agrüße");
  EXPECT_EQ(whole["choices"][1]["text"], "bcgrüße");
  EXPECT_NE(writer.first({.choice = 1}).find(R"({"text":"bc","index":1,)"), std::string::npos);
  EXPECT_EQ(writer.end_choice(results[0]).find("usage"), std::string::npos);
  EXPECT_NE(writer.finish(results[1]).find("usage"), std::string::npos);
}

TEST(CompletionReply, EchoMayHaveTheScoresOfThePrompt) {
  GenerationRequest request;
  request.scored_tokens = 1;
  CompletionReplyWriter writer(header(), request, {"ab"});
  const std::vector<TokenScore> prompt = {{.id = 1, .text = "a", .logprob = std::numeric_limits<float>::quiet_NaN()},
                                          {.id = 2, .text = "b", .logprob = -2, .likeliest = {{.id = 3, .text = "c"}}}};
  GenerationResult scored = result();
  scored.scores = score_list({{.id = 7, .text = "x", .logprob = -1}});
  scored.prompt_scores = score_list(prompt);
  const Json logprobs = Json::parse(writer.whole(scored))["choices"][0]["logprobs"];
  EXPECT_EQ(logprobs["tokens"], Json::array({"a", "b", "x"}));
  EXPECT_EQ(logprobs["token_logprobs"], Json::array({nullptr, -2.0, -1.0}));
  EXPECT_EQ(logprobs["top_logprobs"][0], nullptr);
  EXPECT_EQ(logprobs["top_logprobs"][1], Json({{"c", 0.0}}));
  EXPECT_EQ(logprobs["text_offset"], Json::array({0, 1, 2}));
  EXPECT_NE(writer.first({.prompt_scores = score_list(prompt)}).find(R"("tokens":["a","b"])"), std::string::npos);
}

// Scores are made when they leave: before, a reply of many tokens took a hundred times its numbers.
TEST(Scores, OfAWholeReplyAreMadeAsItLeaves) {
  constexpr std::size_t kTokens = 20'000;
  GenerationRequest request;
  request.scored_tokens = 0;
  request.choices_per_prompt = 2;
  std::size_t made = 0;
  std::vector<GenerationResult> results(2, result());
  results[1].choice = 1;
  for (GenerationResult& one : results) {
    one.scores = {kTokens, [&made](std::size_t number) {
                    ++made;
                    return TokenScore{.id = static_cast<TokenId>(number), .text = "x", .logprob = -1};
                  }};
  }
  ChatReplyWriter writer(header(), request);
  JsonPieces pieces = writer.whole_of_all(results);
  std::string text;
  for (std::string piece = pieces.next(); !piece.empty(); piece = pieces.next()) {
    EXPECT_LT(piece.size(), kPieceBytes + 10'000);
    text += piece;
    EXPECT_LE(made, text.size() / 60);
  }
  const Json whole = Json::parse(text);
  EXPECT_EQ(made, 2 * kTokens);
  EXPECT_EQ(whole["choices"][1]["logprobs"]["content"].size(), kTokens);
  EXPECT_EQ(whole["choices"][1]["logprobs"]["content"].back()["id"], kTokens - 1);
  EXPECT_EQ(whole["usage"]["prompt_tokens"], result().prompt_tokens);
}

}  // namespace
}  // namespace kvkeep::server::api
