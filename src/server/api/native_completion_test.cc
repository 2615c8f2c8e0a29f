#include "server/api/native_completion.h"

#include <gtest/gtest.h>

#include "server/api/score_list_test.h"

namespace kvkeep::server::api {
namespace {

ReplyHeader native_header() { return {.id = "cmpl-1", .created_s = 1, .model = "m", .system_fingerprint = "b1"}; }

// The JSON of one event.
Json parsed_event(const std::string& bytes) {
  EXPECT_TRUE(bytes.starts_with("data: ") && bytes.ends_with("}\n\n")) << bytes;
  return Json::parse(bytes.substr(6));
}

GenerationResult three_tokens() {
  GenerationResult out;
  out.finish = FinishReason::kLength;
  out.content = {{.text = "a\nb"}};
  out.tokens = {7, 8, 9};
  out.prompt_tokens = 10;
  out.timings = {.cache_n = 6, .prompt_n = 4, .predicted_n = 3};
  return out;
}

TEST(NativeCompletion, Whole) {
  GenerationRequest request;
  request.max_tokens = 3;
  request.sampling.seed = 42;
  request.stop = {"x"};
  const Json json = Json::parse(NativeCompletionWriter(native_header(), request, {"the prompt"}).whole(three_tokens()));
  EXPECT_EQ(json["content"], "a\nb");
  EXPECT_EQ(json["prompt"], "the prompt");
  EXPECT_EQ(json["stop"], true);
  EXPECT_EQ(json["stop_type"], "limit");
  EXPECT_EQ(json["truncated"], false);
  EXPECT_EQ(json["has_new_line"], true);
  EXPECT_EQ(json["tokens_evaluated"], 10);
  EXPECT_EQ(json["tokens_predicted"], 3);
  EXPECT_EQ(json["tokens_cached"], 12);
  EXPECT_EQ(json["timings"]["cache_n"], 6);
  EXPECT_EQ(json["generation_settings"]["seed"], 42);
  EXPECT_EQ(json["generation_settings"]["n_predict"], 3);
  EXPECT_EQ(json["generation_settings"]["stop"], Json::array({"x"}));
}

TEST(NativeCompletion, ShowsProbabilitiesIfAsked) {
  GenerationRequest request;
  GenerationResult scored = three_tokens();
  const TokenScore score{.id = 7, .text = "a", .logprob = -1};
  scored.scores = score_list({score});
  EXPECT_FALSE(Json::parse(NativeCompletionWriter(native_header(), request, {""}).whole(scored))
                   .contains("completion_probabilities"));
  request.scored_tokens = 0;
  NativeCompletionWriter writer(native_header(), request, {""});
  EXPECT_EQ(Json::parse(writer.whole(scored))["completion_probabilities"][0]["logprob"], -1.0);
  const Json piece = parsed_event(writer.delta({.text = "a", .score = &score}));
  EXPECT_EQ(piece["completion_probabilities"][0]["token"], "a");
}

TEST(NativeCompletion, ShowsProbabilitiesOfTheDrawUnderTheirOwnNames) {
  GenerationRequest request;
  request.scored_tokens = 1;
  request.sampling.keeps_candidates = true;
  GenerationResult scored = three_tokens();
  scored.scores = score_list({{.id = 7, .text = "a", .logprob = 0, .likeliest = {{.id = 7, .text = "a"}}}});
  const Json one =
      Json::parse(NativeCompletionWriter(native_header(), request, {""}).whole(scored))["completion_probabilities"][0];
  EXPECT_EQ(one["prob"], 1.0);
  EXPECT_EQ(one["top_probs"][0]["prob"], 1.0);
  EXPECT_FALSE(one.contains("logprob") || one.contains("top_logprobs"));
}

TEST(NativeCompletion, SaysWhyItEnded) {
  const auto type_of = [](GenerationResult given, std::optional<std::int64_t> most = 3) {
    GenerationRequest request;
    request.max_tokens = most;
    const Json json = Json::parse(NativeCompletionWriter(native_header(), request, {""}).whole(given));
    EXPECT_EQ(json["truncated"], given.finish == FinishReason::kLength && most != 3);
    return json["stop_type"].get<std::string>() + ":" + json["stopping_word"].get<std::string>();
  };
  GenerationResult given = three_tokens();
  EXPECT_EQ(type_of(given), "limit:");
  EXPECT_EQ(type_of(given, std::nullopt), "limit:") << "the context is full";
  EXPECT_EQ(type_of(given, 4), "limit:");
  given.finish = FinishReason::kStop;
  EXPECT_EQ(type_of(given), "eos:");
  given.stop_string = "END";
  EXPECT_EQ(type_of(given), "word:END");
}

TEST(NativeCompletion, Stream) {
  GenerationRequest request;
  request.stream = true;
  NativeCompletionWriter writer(native_header(), request, {"p"});
  EXPECT_EQ(writer.first({.prompt_tokens = 10, .cached_tokens = 6}), "");
  EXPECT_EQ(parsed_event(writer.progress({.total = 10, .cached = 6, .processed = 8}))["prompt_progress"]["processed"],
            8);
  const std::vector<TokenId> ids = {7};
  const Json first = parsed_event(writer.delta({.text = "a\n", .tokens = ids}));
  EXPECT_EQ(first["content"], "a\n");
  EXPECT_EQ(first["tokens"], Json::array({7}));
  EXPECT_EQ(first["stop"], false);
  EXPECT_EQ(first["tokens_predicted"], 1);
  EXPECT_EQ(first["tokens_evaluated"], 10);
  EXPECT_FALSE(first.contains("timings"));
  EXPECT_EQ(parsed_event(writer.delta({.text = "b", .tokens = ids}))["tokens_predicted"], 2);
  const Json last = parsed_event(writer.finish(three_tokens()));
  EXPECT_EQ(last["stop"], true);
  EXPECT_EQ(last["content"], "");
  EXPECT_EQ(last["has_new_line"], true) << "of the whole text";
  EXPECT_TRUE(last.contains("generation_settings"));
}

TEST(NativeCompletion, TellsTheSlotInEachPart) {
  NativeCompletionWriter writer(native_header(), {}, {"p"});
  EXPECT_EQ(parsed_event(writer.progress({.total = 10, .slot = 3}))["id_slot"], 3);
  EXPECT_EQ(parsed_event(writer.delta({.text = "a", .slot = 3}))["id_slot"], 3);
  EXPECT_EQ(parsed_event(writer.delta({.text = "a"}))["id_slot"], -1) << "it has none yet";
  GenerationResult result = three_tokens();
  result.slot = 2;
  EXPECT_EQ(parsed_event(writer.finish(result))["id_slot"], 2);
  EXPECT_EQ(Json::parse(writer.whole(result))["id_slot"], 2);
}

TEST(NativeCompletion, ShowsBiasesAndWhatCannotCome) {
  GenerationRequest request;
  request.sampling.logit_bias = {{3, 1.5F}};
  request.withheld = {9};
  NativeCompletionWriter writer(native_header(), request, {"p"});
  const Json biases = Json::parse(writer.whole(three_tokens()))["generation_settings"]["logit_bias"];
  EXPECT_EQ(biases, Json::parse(R"([{"bias":1.5,"token":3},{"bias":null,"token":9}])"));
}

TEST(Props, TellTheDefaults) {
  RequestDefaults defaults;
  defaults.sampling.top_k = 7;
  const Json json = Json::parse(props_reply({.model_name = "m",
                                             .model_path = "/m.gguf",
                                             .chat_template_caps = {{"supports_tools", true}},
                                             .bos_token = "<s>",
                                             .context_tokens = 512,
                                             .parallel = 4,
                                             .file_type = "Q8_0"},
                                            defaults));
  EXPECT_EQ(json["chat_template_caps"]["supports_tools"], true);
  EXPECT_EQ(json["default_generation_settings"]["n_ctx"], 512);
  EXPECT_EQ(json["default_generation_settings"]["params"]["top_k"], 7);
  EXPECT_EQ(json["default_generation_settings"]["params"]["n_predict"], -1);
  EXPECT_EQ(json["total_slots"], 4);
  EXPECT_EQ(json["model_alias"], "m");
  EXPECT_EQ(json["model_ftype"], "Q8_0");
  EXPECT_EQ(json["bos_token"], "<s>");
  EXPECT_EQ(json["modalities"]["vision"], false);
}

TEST(NativeCompletion, SeveralChoicesAreAnArray) {
  GenerationRequest request;
  request.prompt = "a";
  request.more_prompts = {"b"};
  request.choices_per_prompt = 2;
  NativeCompletionWriter writer(native_header(), request, {"a", "b"});
  std::vector<GenerationResult> results(4, three_tokens());
  for (std::size_t i = 0; i < results.size(); ++i) results[i].choice = i;
  const Json all = Json::parse(writer.whole_of_all(results).rest());
  ASSERT_EQ(all.size(), 4U);
  EXPECT_EQ(all[1]["prompt"], "a");
  EXPECT_EQ(all[2]["prompt"], "b");
  EXPECT_EQ(all[3]["index"], 3);
  const std::vector<TokenId> ids = {7};
  (void)writer.first({.prompt_tokens = 5, .choice = 2});
  (void)writer.delta({.text = "x\n", .tokens = ids, .choice = 2});
  EXPECT_EQ(parsed_event(writer.delta({.text = "y", .tokens = ids, .choice = 2}))["tokens_predicted"], 2);
  EXPECT_EQ(parsed_event(writer.delta({.text = "y", .tokens = ids, .choice = 3}))["tokens_predicted"], 1);
  results[3].content.clear();
  EXPECT_EQ(parsed_event(writer.end_choice(results[2]))["has_new_line"], true);
  EXPECT_EQ(parsed_event(writer.finish(results[3]))["has_new_line"], false);
}

TEST(NativeCompletion, SendsOnlyTheFieldsThatAreAskedFor) {
  GenerationRequest request;
  request.response_fields = {"content", "timings/prompt_n", "generation_settings/n_predict",
                             "none",    "timings/none",     "content/none",
                             "timings/"};
  NativeCompletionWriter writer(native_header(), request, {"p"});
  EXPECT_EQ(writer.whole(three_tokens()),
            R"({"content":"a\nb","timings/prompt_n":4,"generation_settings/n_predict":-1})");
  EXPECT_EQ(parsed_event(writer.finish(three_tokens())).size(), 3U);
}

TEST(NativeCompletion, AReplyThatALimitOfLinesEndedIsNotTruncated) {
  GenerationResult given = three_tokens();
  const GenerationRequest request;
  const auto truncated = [&] {
    return Json::parse(NativeCompletionWriter(native_header(), request, {""}).whole(given))["truncated"];
  };
  EXPECT_EQ(truncated(), true);
  given.by_line_limit = true;
  EXPECT_EQ(truncated(), false);
}

}  // namespace
}  // namespace kvkeep::server::api
