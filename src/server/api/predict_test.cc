#include "server/api/predict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "server/api/body_fuzz_test.h"
#include "server/api/json_body.h"

namespace kvkeep::server::api {
namespace {

TEST(Predict, AnInstanceIsARequestOfThePathThatItsFormatNames) {
  const auto instances = parse_predict(R"({"instances":[
      {"@requestFormat":"chatCompletions","messages":[1],"max_tokens":8,"stream":false},
      {"@requestFormat":"tokenize","content":"a"}],"parameters":{}})")
                             .value();
  ASSERT_EQ(instances.size(), 2U);
  EXPECT_EQ(instances[0].path, "/v1/chat/completions");
  EXPECT_EQ(instances[0].body, R"({"messages":[1],"max_tokens":8,"stream":false})");
  EXPECT_EQ(instances[1].path, "/tokenize");
  EXPECT_FALSE(instances[0].error || instances[1].error);
  EXPECT_TRUE(parse_predict(R"({"instances":[]})").value().empty());
}

TEST(Predict, OneBadInstanceLeavesTheOthersTheirs) {
  const auto instances = parse_predict(R"({"instances":[5,{},{"@requestFormat":5},{"@requestFormat":"nope"},
      {"@requestFormat":"completion","stream":true},{"@requestFormat":"completion","stream":1},
      {"@requestFormat":"completion","prompt":"p"}]})")
                             .value();
  ASSERT_EQ(instances.size(), 7U);
  const auto message = [&](std::size_t i) { return instances[i].error->message; };
  EXPECT_EQ(message(0), "'instances' must be made of objects, not a number");
  EXPECT_THAT(message(1), testing::HasSubstr("each instance needs '@requestFormat'"));
  EXPECT_EQ(message(2), "'@requestFormat' must be a string, not a number");
  EXPECT_THAT(message(3), testing::HasSubstr("must be one of chatCompletions, "));
  EXPECT_EQ(message(4), "the reply to instances is one body: leave 'stream' out");
  EXPECT_TRUE(instances[5].error);
  EXPECT_FALSE(instances[6].error);
}

TEST(Predict, RefusesBodiesThatAreNoLists) {
  for (const char* body : {"{}", R"({"instances":null})", R"({"instances":{}})", R"({"instances":5})", "[]", "x",
                           R"({"instances":[],"parameters":{"temperature":1}})"}) {
    EXPECT_FALSE(parse_predict(body).ok()) << body;
  }
  std::string many = R"({"instances":[0)";
  for (std::size_t i = 0; i < kMostInstances; ++i) many += ",0";
  EXPECT_FALSE(parse_predict(many + "]}").ok());
}

TEST(Predict, ResultsKeepTheirOrder) {
  const std::vector<std::string> results = {R"({"a":1})", R"({"b":2})"};
  EXPECT_EQ(predict_reply(results), R"({"predictions":[{"a":1},{"b":2}]})");
  EXPECT_EQ(predict_reply({}), R"({"predictions":[]})");
}

// Whatever an instance is, it becomes a request of a known path with an object as its body, or an error.
TEST(PredictFuzz, RandomBodies) {
  constexpr std::string_view kWords[] = {"instances",  "@requestFormat", "chatCompletions", "tokenize",
                                         "parameters", "stream",         "messages",        "content"};
  std::mt19937_64 random(20261123);
  for (int round = 0; round < 3'000; ++round) {
    Json body =
        Json::parse(R"({"instances":[{"@requestFormat":"tokenize","content":"a"},{"@requestFormat":"infill"}]})");
    for (std::uint64_t edits = random() % 4; edits > 0; --edits) mutate_body(random, kWords, body);
    const auto instances = parse_predict(body.dump());
    if (!instances) continue;
    for (const PredictInstance& instance : *instances) {
      if (instance.error) continue;
      EXPECT_THAT(predict_paths(), testing::Contains(instance.path));
      EXPECT_TRUE(parse_body(instance.body).ok()) << body;
    }
  }
}

}  // namespace
}  // namespace kvkeep::server::api
