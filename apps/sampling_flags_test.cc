// Flags of sampling: which settings they set, and that a model's file leaves those alone.

#include <gtest/gtest.h>

#include <cmath>

#include "engine/sampler_order.h"
#include "engine/sampling_settings.h"
#include "serve_flags.h"

namespace kvkeep::cli {
namespace {

Result<ServeOptions> sampling_options(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"-m", "model.gguf"});
  TRY_ASSIGN(ParsedServe parsed, parse_serve(arguments, {}));
  return parsed.options;
}

engine::SamplingParams sampling_of(std::vector<std::string> arguments) {
  return sampling_options(std::move(arguments)).value().defaults.sampling;
}

TEST(SamplingFlags, EachSamplerHasItsParameters) {
  const auto sampling = sampling_of(
      {"--dynatemp-range",     "0.5", "--dynatemp-exp",       "2",   "--top-n-sigma",    "1.5", "--typical",     "0.9",
       "--xtc-probability",    "0.5", "--xtc-threshold",      "0.2", "--dry-multiplier", "0.8", "--dry-base",    "2",
       "--dry-allowed-length", "3",   "--dry-penalty-last-n", "-1",  "--mirostat",       "2",   "--mirostat-lr", "0.2",
       "--mirostat-ent",       "4",   "--adaptive-target",    "0.3", "--adaptive-decay", "0.99"});
  EXPECT_EQ(sampling.dynatemp_range, 0.5F);
  EXPECT_EQ(sampling.dynatemp_exponent, 2.0F);
  EXPECT_EQ(sampling.top_n_sigma, 1.5F);
  EXPECT_EQ(sampling.typical_p, 0.9F);
  EXPECT_EQ(sampling.xtc_probability, 0.5F);
  EXPECT_EQ(sampling.xtc_threshold, 0.2F);
  EXPECT_EQ(sampling.dry_multiplier, 0.8F);
  EXPECT_EQ(sampling.dry_base, 2.0F);
  EXPECT_EQ(sampling.dry_allowed_length, 3);
  EXPECT_EQ(sampling.dry_penalty_last_n, -1);
  EXPECT_EQ(sampling.mirostat, 2);
  EXPECT_EQ(sampling.mirostat_eta, 0.2F);
  EXPECT_EQ(sampling.mirostat_tau, 4.0F);
  EXPECT_EQ(sampling.adaptive_target, 0.3F);
  EXPECT_EQ(sampling.adaptive_decay, 0.99F);
}

TEST(SamplingFlags, OneOrderIsGiven) {
  EXPECT_EQ(names_of(sampling_of({"--samplers", "top-k;temp"}).samplers), "top_k;temperature");
  EXPECT_EQ(names_of(sampling_of({"--sampling-seq", "ta"}).samplers), "temperature;adaptive_p");
  EXPECT_FALSE(sampling_options({"--sampler-seq", "p", "--samplers", "top_k"}).ok());
}

TEST(SamplingFlags, TheFirstBreakerReplacesTheDefaults) {
  using Texts = std::vector<std::string>;
  EXPECT_EQ(sampling_of({}).dry_breakers, (Texts{"\n", ":", "\"", "*"}));
  EXPECT_EQ(sampling_of({"--dry-sequence-breaker", "\\n", "--dry-sequence-breaker", "a\\x2dz\\q\\"}).dry_breakers,
            (Texts{"\n", "a-z\\q\\"}));
  EXPECT_EQ(sampling_of({"--dry-sequence-breaker", "none"}).dry_breakers, Texts{});
  EXPECT_FALSE(sampling_options({"--dry-sequence-breaker", std::string(41, 'x')}).ok());
  std::vector<std::string> many;
  for (int i = 0; i < 17; ++i) many.insert(many.end(), {"--dry-sequence-breaker", "x"});
  EXPECT_FALSE(sampling_options(many).ok());
}

TEST(SamplingFlags, ValuesThatSwitchASamplerOffAreTaken) {
  EXPECT_TRUE(sampling_options({"--mirostat", "0", "--typical", "1.0", "--dry-multiplier", "0", "--top-n-sigma", "-1",
                                "--xtc-probability", "0", "--xtc-threshold", "1.0", "--dynatemp-range", "0",
                                "--adaptive-target", "-1", "--dry-penalty-last-n", "0"})
                  .ok());
}

TEST(SamplingFlags, WrongValuesAreErrors) {
  const std::vector<std::vector<std::string>> wrong = {
      {"--mirostat", "3"},     {"--typical", "1.5"},          {"--xtc-probability", "-1"}, {"--samplers", "tfs_z"},
      {"--sampler-seq", "f"},  {"--adaptive-decay", "1"},     {"--dry-base", "-1"},        {"--repeat-penalty", "0"},
      {"--mirostat-ent", "x"}, {"--dry-penalty-last-n", "-2"}};
  for (const auto& arguments : wrong) EXPECT_FALSE(sampling_options(arguments).ok()) << arguments[0];
}

TEST(SamplingFlags, BiasesOfOneTokenAddUp) {
  using Biases = std::vector<std::pair<TokenId, float>>;
  const auto biases = [](const std::vector<std::string>& arguments) {
    return sampling_options(arguments).value().defaults.sampling.logit_bias;
  };
  EXPECT_EQ(biases({"-l", "15043+1", "--logit-bias", "7-2.5", "-l", "15043-3"}), (Biases{{15043, -2}, {7, -2.5}}));
  const auto forbidden = biases({"-l", "2-inf"});
  ASSERT_EQ(forbidden.size(), 1U);
  EXPECT_TRUE(std::isinf(forbidden[0].second) && forbidden[0].second < 0);
  for (const char* wrong : {"15043", "+1", "a+1", "1+", "1+x", "1+-1", "1+nan", "99999999999+1", "1+2000000"}) {
    EXPECT_FALSE(sampling_options({"-l", wrong}).ok()) << wrong;
  }
}

TEST(SamplingFlags, RepliesHaveOneForm) {
  EXPECT_EQ(sampling_options({"-j", "{}"}).value().reply_form.schema, "{}");
  EXPECT_EQ(sampling_options({"-jf", "f"}).value().reply_form.schema_file, "f");
  EXPECT_EQ(sampling_options({"--grammar", "root ::= [a]"}).value().reply_form.grammar, "root ::= [a]");
  EXPECT_EQ(sampling_options({"--grammar-file", "g"}).value().reply_form.grammar_file, "g");
  EXPECT_FALSE(sampling_options({"--grammar-file", "g", "-j", "{}"}).ok());
}

// Otherwise a model's file would overrule the command line.
TEST(SamplingFlags, EverySettingThatAFlagNamesIsTheUsersChoice) {
  EXPECT_TRUE(sampling_options({}).value().chosen_sampling.empty());
  const auto chosen = sampling_options({"--temp",           "1",   "--top-k",           "5",  "--top-p",         "1",
                                        "--min-p",          "0",   "--xtc-probability", "0",  "--xtc-threshold", "0.1",
                                        "--repeat-penalty", "1",   "--repeat-last-n",   "64", "--mirostat",      "0",
                                        "--mirostat-lr",    "0.1", "--mirostat-ent",    "5",  "--sampler-seq",   "k"})
                          .value()
                          .chosen_sampling;
  const auto is_chosen = [&](const auto& setting) {
    return setting.model_key.empty() || chosen.contains(setting.name);
  };
  for (const auto& setting : engine::kRealSettings) EXPECT_TRUE(is_chosen(setting)) << setting.name;
  for (const auto& setting : engine::kWholeSettings) EXPECT_TRUE(is_chosen(setting)) << setting.name;
  EXPECT_TRUE(chosen.contains("samplers"));
}

}  // namespace
}  // namespace kvkeep::cli
