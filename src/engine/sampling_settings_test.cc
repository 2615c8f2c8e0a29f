#include "engine/sampling_settings.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "engine/sampler_order.h"

namespace kvkeep::engine {
namespace {

using Lines = std::vector<std::string>;

TEST(ModelSampling, TakesThePlaceOfTheDefaults) {
  SamplingParams params;
  const auto notes = obey_model({{"temp", "0.600000"},
                                 {"top_k", "20"},
                                 {"top_p", "0.800000"},
                                 {"min_p", "0.000000"},
                                 {"xtc_probability", "0.5"},
                                 {"xtc_threshold", "0.2"},
                                 {"penalty_last_n", "-1"},
                                 {"penalty_repeat", "1.05"},
                                 {"mirostat", "2"},
                                 {"mirostat_tau", "4"},
                                 {"mirostat_eta", "0.2"},
                                 {"sequence", "top_k;temperature"}},
                                {}, params);
  EXPECT_EQ(params.temperature, 0.6F);
  EXPECT_EQ(params.top_k, 20);
  EXPECT_EQ(params.top_p, 0.8F);
  EXPECT_EQ(params.min_p, 0.0F);
  EXPECT_EQ(params.xtc_probability, 0.5F);
  EXPECT_EQ(params.xtc_threshold, 0.2F);
  EXPECT_EQ(params.repeat_last_n, -1);
  EXPECT_EQ(params.repeat_penalty, 1.05F);
  EXPECT_EQ(params.mirostat, 2);
  EXPECT_EQ(params.mirostat_tau, 4.0F);
  EXPECT_EQ(params.mirostat_eta, 0.2F);
  EXPECT_EQ(names_of(params.samplers), "top_k;temperature");
  EXPECT_EQ(notes.obeyed.size(), model_sampling_keys().size());
  EXPECT_EQ(notes.obeyed.front(), "samplers top_k;temperature");
  EXPECT_EQ(notes.refused, Lines{});
}

TEST(ModelSampling, TheUsersChoiceWins) {
  SamplingParams params;
  params.top_k = 7;
  const auto notes =
      obey_model({{"top_k", "20"}, {"temp", "0.6"}, {"sequence", "top_k"}}, {"top_k", "samplers"}, params);
  EXPECT_EQ(params.top_k, 7);
  EXPECT_EQ(params.samplers, default_sampler_order());
  EXPECT_EQ(notes.obeyed, Lines{"temperature 0.6"});
}

TEST(ModelSampling, ValuesThatNoRequestMayHaveChangeNothing) {
  SamplingParams params;
  const auto notes = obey_model(
      {{"top_p", "1.5"}, {"temp", "nan"}, {"mirostat", "3"}, {"sequence", "tfs_z"}, {"top_k", ""}}, {}, params);
  EXPECT_EQ(notes.obeyed, Lines{});
  EXPECT_EQ(params.top_p, SamplingParams{}.top_p);
  EXPECT_EQ(params.temperature, SamplingParams{}.temperature);
  EXPECT_EQ(params.mirostat, 0);
  EXPECT_EQ(params.samplers, default_sampler_order());
  ASSERT_EQ(notes.refused.size(), 5U);
  EXPECT_NE(std::ranges::find(notes.refused, "general.sampling.top_p is 1.5: must be between 0 and 1"),
            notes.refused.end());
}

TEST(SamplingSettings, DefaultsAreWithinTheirRanges) {
  EXPECT_TRUE(check_settings({}).ok());
  SamplingParams params;
  params.repeat_penalty = 0.01F;
  params.adaptive_decay = 0.99F;
  EXPECT_TRUE(check_settings(params).ok()) << "bounds are allowed";
}

TEST(SamplingSettings, EachIsCheckedOnBothSides) {
  const auto is_refused = [](const auto& setting, auto value) {
    SamplingParams params;
    params.*setting.member = value;
    const Status checked = check_settings(params);
    return !checked.ok() && checked.error().message.starts_with(setting.name);
  };
  for (const auto& setting : kRealSettings) {
    EXPECT_TRUE(is_refused(setting, static_cast<float>(setting.least) - 1)) << setting.name;
    EXPECT_TRUE(is_refused(setting, static_cast<float>(setting.most) + 1)) << setting.name;
    EXPECT_TRUE(is_refused(setting, std::numeric_limits<float>::quiet_NaN())) << setting.name;
  }
  for (const auto& setting : kWholeSettings) {
    if (setting.least > -kCountMost) {
      EXPECT_TRUE(is_refused(setting, static_cast<std::int32_t>(setting.least) - 1)) << setting.name;
    }
    if (setting.most < kCountMost) {
      EXPECT_TRUE(is_refused(setting, static_cast<std::int32_t>(setting.most) + 1)) << setting.name;
    }
  }
}

TEST(SamplingSettings, SequenceBreakersHaveLimits) {
  EXPECT_TRUE(check_dry_breakers({}).ok());
  EXPECT_TRUE(check_dry_breakers(Lines(16, std::string(40, 'x'))).ok());
  EXPECT_FALSE(check_dry_breakers(Lines(17, "x")).ok());
  EXPECT_FALSE(check_dry_breakers({std::string(41, 'x')}).ok());
  EXPECT_FALSE(check_dry_breakers({""}).ok());
  EXPECT_FALSE(check_dry_breakers({std::string("a\0b", 3)}).ok());
}

}  // namespace
}  // namespace kvkeep::engine
