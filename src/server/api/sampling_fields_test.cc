#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "engine/sampler_order.h"
#include "engine/sampling_settings.h"
#include "server/api/generation_fields.h"

namespace kvkeep::server::api {
namespace {

using enum engine::SamplerStep;
using testing::StartsWith;

engine::SamplingParams sampled(const std::string& body) {
  engine::SamplingParams sampling;
  const Status read = read_sampling_fields(Json::parse(body), sampling);
  EXPECT_TRUE(read.ok()) << body;
  return sampling;
}

std::string sampling_refusal(const std::string& body) {
  engine::SamplingParams sampling;
  const Status read = read_sampling_fields(Json::parse(body), sampling);
  EXPECT_EQ(sampling_json(sampling)["samplers"], sampling_json({})["samplers"]);
  return read ? "accepted" : read.error().message;
}

TEST(SamplingFields, NumbersAreReadByName) {
  const auto sampling = sampled(R"({"temperature": 0.5, "dynatemp_range": 0.2, "top_n_sigma": 1.5, "typical_p": 0.9,
      "xtc_probability": 0.5, "xtc_threshold": 0.2, "dry_multiplier": 0.8, "dry_base": 2, "dry_allowed_length": 3,
      "dry_penalty_last_n": -1, "mirostat": 2, "mirostat_tau": 4, "mirostat_eta": 0.2, "adaptive_target": 0.3,
      "adaptive_decay": 0.99, "min_keep": 5, "top_k": 0, "repeat_last_n": 128, "top_p": null})");
  EXPECT_EQ(sampling.temperature, 0.5F);
  EXPECT_EQ(sampling.dynatemp_range, 0.2F);
  EXPECT_EQ(sampling.top_n_sigma, 1.5F);
  EXPECT_EQ(sampling.typical_p, 0.9F);
  EXPECT_EQ(sampling.xtc_probability, 0.5F);
  EXPECT_EQ(sampling.xtc_threshold, 0.2F);
  EXPECT_EQ(sampling.dry_multiplier, 0.8F);
  EXPECT_EQ(sampling.dry_base, 2.0F);
  EXPECT_EQ(sampling.dry_allowed_length, 3);
  EXPECT_EQ(sampling.dry_penalty_last_n, -1);
  EXPECT_EQ(sampling.mirostat, 2);
  EXPECT_EQ(sampling.mirostat_tau, 4.0F);
  EXPECT_EQ(sampling.mirostat_eta, 0.2F);
  EXPECT_EQ(sampling.adaptive_target, 0.3F);
  EXPECT_EQ(sampling.adaptive_decay, 0.99F);
  EXPECT_EQ(sampling.min_keep, 5);
  EXPECT_EQ(sampling.top_k, 0);
  EXPECT_EQ(sampling.repeat_last_n, 128);
  EXPECT_EQ(sampling.top_p, 0.95F);
}

TEST(SamplingFields, ABaseBelowOneIsAsIfAbsent) {
  EXPECT_EQ(sampled(R"({"dry_base": 0.9})").dry_base, 1.75F);
  EXPECT_EQ(sampled(R"({"dry_base": 1})").dry_base, 1.0F);
}

TEST(SamplingFields, EachNumberNamesItsBounds) {
  const auto check = [](const auto& setting) {
    const std::string name(setting.name);
    const double range = setting.most - setting.least;
    for (const double wrong : {setting.least - range, setting.most + range}) {
      EXPECT_THAT(sampling_refusal(Json{{name, wrong}}.dump()),
                  StartsWith(fmt::format("'{}' must be between {} and {}, not ", name, setting.least, setting.most)));
    }
    EXPECT_THAT(sampling_refusal(Json{{name, "1"}}.dump()), StartsWith("'" + name + "' must be a "));
    sampled(Json{{name, setting.least}}.dump());
    sampled(Json{{name, setting.most}}.dump());
  };
  for (const auto& setting : engine::kRealSettings) check(setting);
  for (const auto& setting : engine::kWholeSettings) check(setting);
}

TEST(SamplingFields, TheOrderIsAListOfNamesOrLetters) {
  const auto order = [](const std::string& value) { return sampled(R"({"samplers": )" + value + "}").samplers; };
  EXPECT_EQ(order("null"), engine::default_sampler_order());
  EXPECT_EQ(order(R"(["top-k", "Temperature", "adaptive_p"])"),
            (engine::SamplerOrder{kTopK, kTemperature, kAdaptiveP}));
  EXPECT_EQ(order("\"tki\""), (engine::SamplerOrder{kTemperature, kTopK, kInfill}));
  EXPECT_EQ(order("[]"), engine::SamplerOrder{});
  EXPECT_EQ(order("\"\""), engine::SamplerOrder{});
}

TEST(SamplingFields, WrongOrdersAreRefusedByName) {
  const auto refusal_of = [](const std::string& value) { return sampling_refusal(R"({"samplers": )" + value + "}"); };
  EXPECT_THAT(refusal_of(R"(["tfs_z"])"), StartsWith("'samplers': 'tfs_z' is not a sampler; there are penalties"));
  EXPECT_THAT(refusal_of("\"kf\""), StartsWith("'samplers': 'f' is not a sampler"));
  EXPECT_EQ(refusal_of("[1]"), "'samplers' must be made of strings, not a number");
  EXPECT_EQ(refusal_of("{}"), "'samplers' must be an array of names or a string of letters, not an object");
  const std::string many = Json(std::vector<std::string>(33, "top_k")).dump();
  EXPECT_EQ(refusal_of(many), "'samplers': at most 32 samplers may be named");
  EXPECT_EQ(refusal_of("\"" + std::string(33, 'k') + "\""), "'samplers': at most 32 samplers may be named");
}

TEST(SamplingFields, SequenceBreakersAreTexts) {
  const auto breakers = [](const std::string& value) { return R"({"dry_sequence_breakers": )" + value + "}"; };
  EXPECT_EQ(sampled(breakers(R"(["\n", "---"])")).dry_breakers, (std::vector<std::string>{"\n", "---"}));
  EXPECT_EQ(sampled("{}").dry_breakers, (std::vector<std::string>{"\n", ":", "\"", "*"}));
  EXPECT_EQ(sampling_refusal(breakers("5")), "'dry_sequence_breakers' must be an array of strings, not a number");
  EXPECT_EQ(sampling_refusal(breakers("[]")), "'dry_sequence_breakers' must hold 1 to 16 strings");
  EXPECT_EQ(sampling_refusal(breakers("[1]")), "'dry_sequence_breakers' must be made of strings, not a number");
  EXPECT_EQ(sampling_refusal(breakers("[\"\"]")),
            "'dry_sequence_breakers': a sequence breaker is a text of 1 to 40 bytes without zeros");
  EXPECT_EQ(sampling_refusal(breakers("[\"" + std::string(41, 'x') + "\"]")),
            "'dry_sequence_breakers': a sequence breaker is a text of 1 to 40 bytes without zeros");
  EXPECT_EQ(sampling_refusal(breakers(Json(std::vector<std::string>(17, "x")).dump())),
            "'dry_sequence_breakers' must hold 1 to 16 strings");
}

TEST(SamplingFields, RepliesShowEveryField) {
  const Json json = sampling_json(sampled(R"({"samplers": "kt", "min_keep": 3, "dry_sequence_breakers": ["x"]})"));
  EXPECT_EQ(json["samplers"], Json::array({"top_k", "temperature"}));
  EXPECT_EQ(json["min_keep"], 3);
  EXPECT_EQ(json["top_n_sigma"], -1.0);
  EXPECT_EQ(json["dry_sequence_breakers"], Json::array({"x"}));
  for (const std::string_view name : sampling_fields()) EXPECT_TRUE(json.contains(name)) << name;
  EXPECT_EQ(json.size(), sampling_fields().size());
}

}  // namespace
}  // namespace kvkeep::server::api
