#include "server/api/known_fields.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/api/anthropic.h"
#include "server/api/cache_lookup.h"
#include "server/api/openai_chat.h"
#include "server/api/openai_completions.h"
#include "server/api/responses.h"

namespace kvkeep::server::api {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* kMessages = R"({"messages":[{"role":"user","content":"hi"}],"max_tokens":9)";
constexpr const char* kPrompt = R"({"prompt":"hi")";
constexpr const char* kInput = R"({"input":"hi")";

std::vector<std::string> unknown_in(const std::string& body, Dialect dialect) {
  return unknown_fields(parse_body(body).value(), dialect, /*strict=*/false).value();
}

// The same misspelt field in each dialect, in the words of its parser.
template <typename Parse>
void expect_told(const Parse& parse, const std::string& begin) {
  const auto told =
      parse(begin + R"(,"max_token":5,"temperature":1,"temprature":1,"nothing":null})", RequestDefaults{});
  ASSERT_TRUE(told.ok()) << told.error().message;
  EXPECT_THAT(*told, ElementsAre("max_token", "temprature"));
  const auto refused = parse(begin + R"(,"temprature":1})", RequestDefaults{.sampling = {}, .strict_fields = true});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::kInvalid);
  EXPECT_THAT(refused.error().message,
              HasSubstr("'temprature' is no field of this request (did you mean 'temperature'?)"));
  EXPECT_TRUE(
      parse(begin + R"(,"nothing":null,"seed":1})", RequestDefaults{.sampling = {}, .strict_fields = true}).ok());
}

using Told = Result<std::vector<std::string>>;

TEST(UnknownFields, AreToldInEveryDialectAndRefusedWhereItIsStrict) {
  expect_told(
      [](const std::string& body, const RequestDefaults& defaults) -> Told {
        TRY_ASSIGN(GenerationRequest request, parse_chat(body, defaults));
        return std::move(request.unknown_fields);
      },
      kMessages);
  expect_told(
      [](const std::string& body, const RequestDefaults& defaults) -> Told {
        TRY_ASSIGN(GenerationRequest request, parse_completion(body, defaults));
        return std::move(request.unknown_fields);
      },
      kPrompt);
  expect_told(
      [](const std::string& body, const RequestDefaults& defaults) -> Told {
        TRY_ASSIGN(MessagesRequest request, parse_messages(body, defaults));
        return std::move(request.generation.unknown_fields);
      },
      kMessages);
  expect_told(
      [](const std::string& body, const RequestDefaults& defaults) -> Told {
        TRY_ASSIGN(CountRequest request, parse_count_tokens(body, defaults));
        return std::move(request.unknown_fields);
      },
      kMessages);
  expect_told(
      [](const std::string& body, const RequestDefaults& defaults) -> Told {
        TRY_ASSIGN(ResponsesRequest request, parse_responses(body, defaults));
        return std::move(request.generation.unknown_fields);
      },
      kInput);
  expect_told(
      [](const std::string& body, const RequestDefaults& defaults) -> Told {
        TRY_ASSIGN(InputTokensRequest request, parse_input_tokens(body, defaults));
        return std::move(request.unknown_fields);
      },
      kInput);
  expect_told(
      [](const std::string& body, const RequestDefaults& defaults) -> Told {
        TRY_ASSIGN(LookupRequest request, parse_lookup(body, defaults));
        return std::move(request.unknown_fields);
      },
      kPrompt);
}

TEST(UnknownFields, WhatClientsSendOnPurposeIsKnown) {
  EXPECT_THAT(
      unknown_in(R"({"store":false,"metadata":{},"service_tier":"auto","n":1,"logprobs":false})", Dialect::kChat),
      IsEmpty());
  EXPECT_THAT(unknown_in(R"({"context_management":{},"metadata":{},"betas":[],"system":""})", Dialect::kMessages),
              IsEmpty());
  EXPECT_THAT(unknown_in(R"({"content":"x","model":"m"})", Dialect::kTokenize), IsEmpty());
  EXPECT_THAT(unknown_in(R"({"context":"x"})", Dialect::kTokenize), ElementsAre("context"));
}

// A header field and a line of the log hold them.
TEST(UnknownFields, NamesAreFewShortAndPrintable) {
  std::string body = R"({"a\r\nSet-Cookie: x":1,"b,c":1)";
  for (int i = 0; i < 30; ++i) body += fmt::format(",\"{}{}\":1", std::string(100, 'x'), i);
  const std::vector<std::string> unknown = unknown_in(body + "}", Dialect::kChat);
  ASSERT_EQ(unknown.size(), kMostUnknownFields);
  EXPECT_EQ(unknown[0], "a??Set-Cookie:?x");
  EXPECT_EQ(unknown[1], "b?c");
  EXPECT_EQ(unknown[2], std::string(kMostFieldNameBytes, 'x'));
}

TEST(UnknownFields, OnlyANearFieldIsSuggested) {
  EXPECT_EQ(meant_field(Dialect::kChat, "max_token"), " (did you mean 'max_tokens'?)");
  EXPECT_EQ(meant_field(Dialect::kTokenize, "contnet"), " (did you mean 'content'?)");
  EXPECT_EQ(meant_field(Dialect::kChat, "guided_json_object"), "");
}

}  // namespace
}  // namespace kvkeep::server::api
