#include "server/api/embeddings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "server/api/body_fuzz_test.h"

namespace kvkeep::server::api {
namespace {

using Ids = std::vector<TokenId>;

constexpr EmbeddingDefaults kEmbeddingDefaults{.normalize = 2, .vocabulary_size = 100, .vector_size = 4};

Result<EmbeddingsRequest> parsed_embeddings(std::string_view body) {
  return parse_embeddings(std::string(body), kEmbeddingDefaults);
}
std::vector<EmbeddingInput> embedding_inputs(std::string_view body) { return parsed_embeddings(body).value().inputs; }
std::string embedding_refusal(std::string_view body) { return parsed_embeddings(body).error().message; }

TEST(EmbeddingsBody, InputsAreTextsIdsAndBothMixed) {
  EXPECT_EQ(embedding_inputs(R"({"input":"a"})"), (std::vector<EmbeddingInput>{{"a"}}));
  EXPECT_EQ(embedding_inputs(R"({"input":""})"), (std::vector<EmbeddingInput>{{""}}));
  EXPECT_EQ(embedding_inputs(R"({"input":[1,2]})"), (std::vector<EmbeddingInput>{{Ids{1, 2}}}));
  EXPECT_EQ(embedding_inputs(R"({"input":[1,2,"a",3]})"), (std::vector<EmbeddingInput>{{Ids{1, 2}, "a", Ids{3}}}));
  EXPECT_EQ(embedding_inputs(R"({"input":["a","b"]})"), (std::vector<EmbeddingInput>{{"a"}, {"b"}}));
  EXPECT_EQ(embedding_inputs(R"({"input":["a",[1,"b"],[2]]})"),
            (std::vector<EmbeddingInput>{{"a"}, {Ids{1}, "b"}, {Ids{2}}}));
  EXPECT_EQ(embedding_inputs(R"({"input":{"prompt_string":"a"}})"), (std::vector<EmbeddingInput>{{"a"}}));
  EXPECT_EQ(embedding_inputs(R"({"input":{"prompt_string":"a","multimodal_data":[]}})"),
            (std::vector<EmbeddingInput>{{"a"}}));
  EXPECT_EQ(embedding_inputs(R"({"input":["a",{"content":[{"type":"text","text":"b "},{"type":"text","text":"c"}]}]})"),
            (std::vector<EmbeddingInput>{{"a"}, {"b c"}}));
  EXPECT_TRUE(parsed_embeddings(R"({"content":["a"]})").value().content);
  EXPECT_FALSE(parsed_embeddings(R"({"content":"b","input":["a"]})").value().content);
}

TEST(EmbeddingsBody, RefusesOtherInputs) {
  EXPECT_EQ(embedding_refusal("{}"), "'input' or 'content' is required");
  EXPECT_EQ(embedding_refusal(R"({"input":[]})"), "'input' must not be empty");
  EXPECT_EQ(embedding_refusal(R"({"input":[[]]})"), "'input' must not be empty");
  EXPECT_EQ(embedding_refusal(R"({"input":5})"), "'input' must be a text, token ids, or a list of them, not a number");
  EXPECT_THAT(embedding_refusal(R"({"input":[1,[2]]})"), testing::HasSubstr("must be a string, not an array"));
  for (const char* body : {R"({"input":[100]})", R"({"input":[[-1]]})", R"({"input":[1.5]})"}) {
    EXPECT_EQ(parsed_embeddings(body).error().kind, ErrorKind::kInvalid) << body;
  }
  EXPECT_THAT(embedding_refusal(R"({"input":{"content":"a"}})"), testing::HasSubstr("list of parts"));
  EXPECT_THAT(embedding_refusal(R"({"input":{"content":[{"type":"image_url","image_url":{}}]}})"),
              testing::HasSubstr("only text is embedded"));
  const auto with_file = parsed_embeddings(R"({"input":["a",{"prompt_string":"b","multimodal_data":["iVBORw0K"]}]})");
  ASSERT_FALSE(with_file.ok());
  EXPECT_EQ(with_file.error().message, "'multimodal_data' must be empty: only text is embedded");
  std::string many = R"({"input":["a")";
  for (std::size_t i = 0; i < kMostEmbeddingInputs; ++i) many += R"(,"a")";
  EXPECT_EQ(embedding_refusal(many + "]}"), "'input' has 2049 inputs; send at most 2048 at a time");
}

TEST(EmbeddingsBody, TheFormOfVectors) {
  const EmbeddingsRequest plain = parsed_embeddings(R"({"input":"a"})").value();
  EXPECT_FALSE(plain.base64 || plain.dimensions);
  EXPECT_EQ(plain.normalize, 2);
  const EmbeddingsRequest other =
      parsed_embeddings(R"({"input":"a","encoding_format":"base64","dimensions":3,"embd_normalize":-1,"model":"m"})")
          .value();
  EXPECT_TRUE(other.base64);
  EXPECT_EQ(other.dimensions, 3U);
  EXPECT_EQ(other.normalize, -1);
  EXPECT_EQ(other.model, "m");
  EXPECT_EQ(embedding_refusal(R"({"input":"a","encoding_format":"hex"})"),
            "'encoding_format' must be 'float' or 'base64', not 'hex'");
  EXPECT_EQ(embedding_refusal(R"({"input":"a","dimensions":5})"), "'dimensions' must be between 1 and 4, not 5");
  EXPECT_EQ(embedding_refusal(R"({"input":"a","dimensions":0})"), "'dimensions' must be between 1 and 4, not 0");
  EXPECT_EQ(embedding_refusal(R"({"input":"a","embd_normalize":-2})"),
            "'embd_normalize' must be between -1 and 1000, not -2");
}

TEST(EmbeddingsBody, NamesFieldsThatAreNotRead) {
  EXPECT_THAT(parsed_embeddings(R"({"input":"a","dimension":3,"user":"u"})").value().unknown_fields,
              testing::ElementsAre("dimension"));
  EmbeddingDefaults strict = kEmbeddingDefaults;
  strict.strict_fields = true;
  EXPECT_THAT(parse_embeddings(R"({"input":"a","dimension":3})", strict).error().message,
              testing::HasSubstr("did you mean 'dimensions'?"));
}

std::vector<float> normalized(std::vector<float> vector, std::int64_t kind) {
  normalize_vector(vector, kind);
  return vector;
}

TEST(NormalizeVector, ByKind) {
  EXPECT_EQ(normalized({3, -4}, -1), (std::vector<float>{3, -4}));
  EXPECT_EQ(normalized({3, -4}, 0), (std::vector<float>{24'570, -32'760}));
  EXPECT_EQ(normalized({3, -1}, 1), (std::vector<float>{0.75F, -0.25F}));
  EXPECT_EQ(normalized({3, -4}, 2), (std::vector<float>{0.6F, -0.8F}));
  const std::vector<float> cubic = normalized({3, -4}, 3);
  EXPECT_NEAR(std::pow(cubic[0], 3) - std::pow(cubic[1], 3), 1, 1e-6);
  EXPECT_EQ(normalized({0, 0}, 2), (std::vector<float>{0, 0}));
}

TEST(EmbeddingsReply, InBothShapes) {
  const std::vector<float> one{3, 4};
  const std::vector<float> two{0.1F, -1e-20F};
  const InputVectors all[] = {{one, 2}, {two, 2}};
  EXPECT_EQ(openai_embeddings(all, {}, "m", 7).value(),
            R"({"object":"list","model":"m","usage":{"prompt_tokens":7,"total_tokens":7},"data":[)"
            R"({"object":"embedding","index":0,"embedding":[3,4]},)"
            R"({"object":"embedding","index":1,"embedding":[0.1,-1e-20]}]})");
  EXPECT_EQ(native_embeddings(all, {.dimensions = 1, .normalize = 2}).value(),
            R"([{"index":0,"embedding":[[1]]},{"index":1,"embedding":[[1]]}])");
  const std::vector<float> tokens{1, 2, 3, 4};
  const InputVectors unpooled[] = {{tokens, 2}};
  EXPECT_EQ(native_embeddings(unpooled, {}).value(), R"([{"index":0,"embedding":[[1,2],[3,4]]}])");
  const Json encoded = Json::parse(openai_embeddings(all, {.base64 = true}, "m", 7).value())["data"][0];
  EXPECT_EQ(encoded["embedding"], "AABAQAAAgEA=");
  EXPECT_EQ(encoded["encoding_format"], "base64");
}

TEST(EmbeddingsReply, ValuesThatAreNoNumbersAreAnError) {
  const std::vector<float> bad{1, std::numeric_limits<float>::quiet_NaN()};
  const InputVectors all[] = {{bad, 2}};
  EXPECT_EQ(openai_embeddings(all, {}, "m", 1).error().kind, ErrorKind::kIo);
  EXPECT_EQ(native_embeddings(all, {.base64 = true}).error().kind, ErrorKind::kIo);
}

TEST(Rerank, BodyInBothShapes) {
  const RerankRequest jina =
      parse_rerank(R"({"query":"q","documents":["a",{"text":"b"}],"top_n":1,"return_documents":true,"model":"m"})")
          .value();
  EXPECT_EQ(jina.query, "q");
  EXPECT_THAT(jina.documents, testing::ElementsAre("a", "b"));
  EXPECT_EQ(jina.top_n, 1U);
  EXPECT_TRUE(jina.return_documents && !jina.is_tei);
  const RerankRequest tei = parse_rerank(R"({"query":"q","texts":["a"],"return_text":true,"truncate":true})").value();
  EXPECT_TRUE(tei.is_tei && tei.return_documents);
  EXPECT_THAT(tei.unknown_fields, testing::ElementsAre("truncate"));
  for (const char* documents : {"[]", "null", "123", "[1,2]", R"(["a",null])", R"([{"txt":"a"}])"}) {
    const auto refused = parse_rerank(std::string(R"({"query":"q","documents":)") + documents + "}");
    EXPECT_EQ(refused.error().message, "'documents' must be a list of texts that is not empty") << documents;
  }
  EXPECT_EQ(parse_rerank(R"({"documents":["a"]})").error().message, "'query' is required");
  EXPECT_EQ(parse_rerank(R"({"query":1,"documents":["a"]})").error().message, "'query' must be a string, not a number");
  EXPECT_FALSE(parse_rerank(R"({"query":"q","documents":["a"],"top_n":-1})").ok());
}

TEST(Rerank, TheBestComeFirst) {
  RerankRequest request{.query = "q", .documents = {"a", "b", "c"}, .top_n = 2, .return_documents = true};
  const float scores[] = {-1, 0.5F, 0.25F};
  EXPECT_EQ(rerank_reply(request, scores, "m", 9).value(),
            R"({"model":"m","object":"list","usage":{"prompt_tokens":9,"total_tokens":9},"results":[)"
            R"({"index":1,"relevance_score":0.5,"document":{"text":"b"}},)"
            R"({"index":2,"relevance_score":0.25,"document":{"text":"c"}}]})");
  request.is_tei = true;
  request.top_n = 99;
  EXPECT_EQ(rerank_reply(request, scores, "m", 9).value(),
            R"([{"index":1,"score":0.5,"text":"b"},{"index":2,"score":0.25,"text":"c"},)"
            R"({"index":0,"score":-1.0,"text":"a"}])");
  const float bad[] = {0, std::numeric_limits<float>::infinity(), 0};
  EXPECT_EQ(rerank_reply(request, bad, "m", 9).error().kind, ErrorKind::kIo);
}

constexpr std::string_view kEmbeddingWords[] = {
    "input", "content",       "model", "encoding_format", "dimensions", "embd_normalize",   "user",
    "query", "documents",     "texts", "top_n",           "text",       "return_documents", "base64",
    "float", "prompt_string", "type",  "return_text"};

// Any body is parsed, or refused as the client's mistake.
TEST(EmbeddingsBody, AnyBodyIsAnsweredOrInvalid) {
  std::mt19937_64 random(18);
  const Json valid[] = {
      Json::parse(R"({"input":["a",[1,"b"],{"content":[{"type":"text","text":"c"}]}],"dimensions":2})"),
      Json::parse(R"({"query":"q","documents":["a",{"text":"b"}],"top_n":1})")};
  for (int i = 0; i < 4'000; ++i) {
    Json body = i % 2 == 0 ? random_body_value(random, kEmbeddingWords, 4) : valid[i / 2 % 2];
    if (i % 2 != 0) mutate_body(random, kEmbeddingWords, body);
    const std::string text = to_line(body);
    const auto embeddings = parse_embeddings(text, kEmbeddingDefaults);
    EXPECT_TRUE(embeddings || embeddings.error().kind == ErrorKind::kInvalid) << text;
    const auto ranking = parse_rerank(text);
    EXPECT_TRUE(ranking || ranking.error().kind == ErrorKind::kInvalid) << text;
  }
}

}  // namespace
}  // namespace kvkeep::server::api
