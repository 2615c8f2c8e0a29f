#include "engine/sampler_order.h"

#include <gtest/gtest.h>

namespace kvkeep::engine {
namespace {

using enum SamplerStep;

TEST(SamplerOrder, TheDefaultIsThatOfLlamaServer) {
  EXPECT_EQ(names_of(default_sampler_order()), "penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature");
  EXPECT_EQ(parse_sampler_letters("edskypmxt").value(), default_sampler_order());
}

TEST(SamplerOrder, EveryNameAndLetterIsRead) {
  const SamplerOrder all = {kPenalties, kDry, kTopNSigma,   kTopK,   kTypicalP, kTopP,
                            kMinP,      kXtc, kTemperature, kInfill, kAdaptiveP};
  EXPECT_EQ(parse_sampler_names(names_of(all)).value(), all);
  EXPECT_EQ(parse_sampler_letters("edskypmxtia").value(), all);
  for (const SamplerStep step : all) EXPECT_EQ(sampler_named(name_of(step)), step);
}

TEST(SamplerOrder, NamesHaveOtherSpellings) {
  for (const char* name : {"top_k", "top-k", "topk", "TOP_K", "Top-K"}) EXPECT_EQ(sampler_named(name), kTopK) << name;
  for (const char* name : {"typ_p", "typ", "typical", "typical_p", "typical-p"}) {
    EXPECT_EQ(sampler_named(name), kTypicalP) << name;
  }
  EXPECT_EQ(sampler_named("temp"), kTemperature);
  EXPECT_EQ(sampler_named("nucleus"), kTopP);
  EXPECT_EQ(sampler_named("tfs_z"), std::nullopt);
  EXPECT_EQ(sampler_named(""), std::nullopt);
}

TEST(SamplerOrder, AListMayRepeatAStepOrNameNone) {
  EXPECT_EQ(parse_sampler_names("").value(), SamplerOrder{});
  EXPECT_EQ(parse_sampler_letters("").value(), SamplerOrder{});
  EXPECT_EQ(parse_sampler_names("top_k;temp;top_k").value(), (SamplerOrder{kTopK, kTemperature, kTopK}));
  EXPECT_EQ(parse_sampler_names("top_k;").value(), SamplerOrder{kTopK}) << "the last one may be closed";
}

TEST(SamplerOrder, UnknownStepsAndTooManyAreRefused) {
  const auto unknown = parse_sampler_names("top_k;tfs_z");
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.error().kind, ErrorKind::kInvalid);
  EXPECT_EQ(unknown.error().message.substr(0, 57), "'tfs_z' is not a sampler; there are penalties (e), dry (d");
  EXPECT_FALSE(parse_sampler_names("top_k;;top_p").ok());
  EXPECT_FALSE(parse_sampler_letters("kf").ok());
  EXPECT_TRUE(parse_sampler_letters(std::string(32, 'k')).ok());
  EXPECT_EQ(parse_sampler_letters(std::string(33, 'k')).error().message, "at most 32 samplers may be named");
}

}  // namespace
}  // namespace kvkeep::engine
