#include "server/api/tokenize_routes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "chat/chat_template.h"
#include "chat/fake_vocabulary_test.h"

namespace kvkeep::server::api {
namespace {

TEST(Tokenize, FieldsAndShapes) {
  const chat::FakeVocabulary vocabulary(chat::FakeVocabulary::standard_special(), /*add_bos=*/true);
  const chat::LongText tokenizer(vocabulary);
  const auto ask = [&](std::string_view body) {
    return tokenize_reply(std::string(body), vocabulary, tokenizer, [] { return false; });
  };
  const auto reply = [&](std::string_view body) { return ask(body).value().body; };
  EXPECT_EQ(reply(R"({"content":"ab"})"), R"({"tokens":[97,98]})");
  EXPECT_EQ(reply("{}"), R"({"tokens":[]})");
  const std::string bos = std::to_string(*vocabulary.bos());
  EXPECT_EQ(reply(R"({"content":"a","add_special":true})"), R"({"tokens":[)" + bos + ",97]}");
  EXPECT_EQ(reply(R"({"content":"<s>"})"), R"({"tokens":[)" + bos + "]}");
  EXPECT_EQ(reply(R"({"content":"<s>","parse_special":false})"), R"({"tokens":[60,115,62]})");
  EXPECT_EQ(reply(R"({"content":"aü","with_pieces":true})"),
            R"({"tokens":[{"id":97,"piece":"a"},{"id":195,"piece":[195]},{"id":188,"piece":[188]}]})");
  EXPECT_EQ(ask(R"({"content":5})").error().message,
            "'content' must be a text or an array of texts and token ids, not a number");
}

TEST(Tokenize, AListOfTextsAndIds) {
  const chat::FakeVocabulary vocabulary(chat::FakeVocabulary::standard_special(), /*add_bos=*/true);
  const chat::LongText tokenizer(vocabulary);
  const auto ask = [&](std::string_view body) {
    return tokenize_reply(std::string(body), vocabulary, tokenizer, [] { return false; });
  };
  const std::string bos = std::to_string(*vocabulary.bos());
  EXPECT_EQ(ask(R"({"content":["ab",5,6,"","c"]})").value().body, R"({"tokens":[97,98,5,6,99]})");
  EXPECT_EQ(ask(R"({"content":["a","b"],"add_special":true})").value().body, R"({"tokens":[)" + bos + ",97,98]}");
  EXPECT_EQ(ask(R"({"content":[5,"b"],"add_special":true})").value().body, R"({"tokens":[5,98]})");
  EXPECT_EQ(ask(R"({"content":["a",98],"with_pieces":true})").value().body,
            R"({"tokens":[{"id":97,"piece":"a"},{"id":98,"piece":"b"}]})");
  EXPECT_EQ(ask(R"({"content":[]})").value().body, R"({"tokens":[]})");
  for (const char* body : {R"({"content":[["a"]]})", R"({"content":["a",true]})", R"({"content":[-1]})",
                           R"({"content":["a",99999999]})", R"({"content":[1.5]})"}) {
    EXPECT_FALSE(ask(body).ok()) << body;
  }
}

TEST(Detokenize, FieldsAndShapes) {
  const chat::FakeVocabulary vocabulary;
  const std::string end = std::to_string(*vocabulary.id_of("<|im_end|>"));
  EXPECT_EQ(detokenize_reply("{\"tokens\":[97,195,188," + end + "]}", vocabulary).value().body,
            R"({"content":"aü<|im_end|>"})");
  EXPECT_EQ(detokenize_reply(R"({"tokens":[195]})", vocabulary).value().body, "{\"content\":\"\xEF\xBF\xBD\"}");
  EXPECT_EQ(detokenize_reply("{}", vocabulary).value().body, R"({"content":""})");
  for (const char* body :
       {R"({"tokens":"x"})", R"({"tokens":["x"]})", R"({"tokens":[99999999]})", R"({"tokens":[-1]})"}) {
    const auto reply = detokenize_reply(std::string(body), vocabulary);
    ASSERT_FALSE(reply.ok()) << body;
    EXPECT_EQ(reply.error().kind, ErrorKind::kInvalid);
  }
}

TEST(ApplyTemplate, RendersAsAChatWouldBe) {
  const chat::FakeVocabulary vocabulary;
  const chat::MarkerSet markers(vocabulary, chat::default_template_source());
  const auto engine = chat::make_chat_template("", {}).value();
  const auto reply = [&](std::string_view body) {
    return apply_template_reply(std::string(body), vocabulary, *engine, markers, {}, 0);
  };
  EXPECT_EQ(reply(R"({"messages":[{"role":"user","content":"Hi"}]})").value().body,
            R"({"prompt":"<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"})");
  EXPECT_EQ(reply(R"({"messages":[{"role":"user","content":"Hi"}],"add_generation_prompt":false})").value().body,
            R"({"prompt":"<|im_start|>user\nHi<|im_end|>\n"})");
  EXPECT_EQ(reply(R"({"messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":"So"}]})").value().body,
            R"({"prompt":"<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nSo"})");
  EXPECT_EQ(reply(R"({"messages":[]})").error().message, "'messages' must not be empty");
}

// The result of /apply-template is a prompt for /v1/completions, which puts a BOS before it.
TEST(ApplyTemplate, LeavesOutABosThatTheVocabularyAdds) {
  constexpr std::string_view kSource = "{{ bos_token }}{% for m in messages %}{{ m.content }}{% endfor %}";
  const std::string kBody = R"({"messages":[{"role":"user","content":"<s>Hi"}]})";
  for (const bool adds : {true, false}) {
    const chat::FakeVocabulary vocabulary(chat::FakeVocabulary::standard_special(), adds);
    const chat::MarkerSet markers(vocabulary, kSource);
    const auto engine = chat::make_chat_template(kSource, {.bos = "<s>", .eos = "</s>"}).value();
    const auto reply = apply_template_reply(kBody, vocabulary, *engine, markers, {}, 0).value();
    EXPECT_EQ(reply.body, adds ? R"({"prompt":"<s>Hi"})" : R"({"prompt":"<s><s>Hi"})");
  }
}

TEST(ApplyTemplate, LeavesOutWhatAChatLeavesOut) {
  const chat::FakeVocabulary vocabulary;
  const chat::MarkerSet markers(vocabulary, chat::default_template_source());
  const auto engine = chat::make_chat_template("", {}).value();
  const std::string kBody =
      R"({"messages":[{"role":"system","content":"x-anthropic-billing-header: a1\nBe brief"},
    {"role":"user","content":"Hi"}],"add_generation_prompt":false})";
  EXPECT_EQ(apply_template_reply(kBody, vocabulary, *engine, markers, {.billing_line = true}, 0).value().body,
            R"({"prompt":"<|im_start|>system\nBe brief<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"})");
  EXPECT_THAT(apply_template_reply(kBody, vocabulary, *engine, markers, {.billing_line = false}, 0).value().body,
              testing::HasSubstr("billing-header: a1"));
}

}  // namespace
}  // namespace kvkeep::server::api
