#include "flag_set.h"

#include <gtest/gtest.h>

#include "flag_values.h"

namespace kvkeep::cli {
namespace {

struct Options {
  int count = 1;
  bool warm = true;
  std::vector<std::string> names;
  std::string range;
};

FlagSet flags(Options& options) {
  return FlagSet("test", "A test.",
                 {{.group = "One",
                   .spelling = "-cnt, -c, --count N",
                   .environment = "LLAMA_ARG_COUNT",
                   .effect = "Counts.",
                   .assign = number_into(options.count, -5, 10)},
                  {.spelling = "--warm, --no-warm, -nw",
                   .environment = "LLAMA_ARG_WARM",
                   .effect = "Warms.",
                   .assign = switch_into(options.warm)},
                  {.group = "Two",
                   .spelling = "--name NAME,...",
                   .effect = "Names.",
                   .assign = appended_to(options.names, parse_list)},
                  {.spelling = "--range START END", .effect = "Ranges.", .assign = text_into(options.range)},
                  {.spelling = "-nap, --nap N",
                   .environment = "LLAMA_ARG_NAP",
                   .effect = "Rests.",
                   .assign = always_so(),
                   .only = {{"0", "none"}, "it never sleeps"}}},
                 {{{"--gone", "--gone-*", "*-lost"}, {"LLAMA_ARG_GONE", "LLAMA_ARG_LOST_*"}, "it is gone", true},
                  {{"--no-light"}, {"LLAMA_ARG_LIGHT=off"}, "it is always on", true},
                  {{"--noise"}, {"LLAMA_ARG_NOISE=on"}, "it is always off", true},
                  {{"--speed"}, {"LLAMA_ARG_SPEED"}, "it is as fast as it is"},
                  {{"--number"}, {}, "it is called --count here", false, "--count"},
                  {{"--hot"}, {}, "it is called --warm here", false, "--warm"},
                  {{"--cold"}, {}, "it is called --no-warm here", false, "--no-warm --count 1"}});
}

std::string error_of(const std::vector<std::string>& arguments, const os::Environment& environment = {}) {
  Options options;
  const auto parsed = flags(options).parse(arguments, environment);
  return parsed ? "" : parsed.error().message;
}

Options parsed(const std::vector<std::string>& arguments, const os::Environment& environment = {}) {
  Options options;
  const auto result = flags(options).parse(arguments, environment);
  EXPECT_TRUE(result) << (result ? "" : result.error().message);
  return options;
}

TEST(FlagSet, EverySpellingOfAFlagIsTheFlag) {
  for (const char* name : {"--count", "-cnt", "-c"}) EXPECT_EQ(parsed({name, "7"}).count, 7) << name;
  EXPECT_EQ(parsed({"--count=7"}).count, 7);
}

TEST(FlagSet, AFlagMayAcceptOnlyTheValuesThatAskForWhatIsSo) {
  for (const char* value : {"0", "0.0", "none"}) EXPECT_EQ(error_of({"--nap", value}), "") << value;
  EXPECT_EQ(error_of({"--nap=1"}), "--nap 1 is not supported: it never sleeps. Try: test");
  EXPECT_EQ(error_of({"-c", "3", "-nap", "9"}), "-nap (--nap) 9 is not supported: it never sleeps. Try: test -c 3");
  EXPECT_EQ(error_of({}, {{"LLAMA_ARG_NAP", "1"}}), "") << "it changes no answer";
  Options options;
  const FlagSet known = flags(options);
  EXPECT_EQ(known.ignored_variables({{"LLAMA_ARG_NAP", "1"}}),
            std::vector<std::string>{
                "the environment variable LLAMA_ARG_NAP sets nothing: --nap 1 is not supported: it never sleeps"});
  EXPECT_TRUE(known.ignored_variables({{"LLAMA_ARG_NAP", "0"}}).empty());
}

TEST(FlagSet, ValuesMayStartWithADash) { EXPECT_EQ(parsed({"-c", "-3"}).count, -3); }

TEST(FlagSet, SwitchesTurnOffAndTheLastOneWins) {
  EXPECT_FALSE(parsed({"--no-warm"}).warm);
  EXPECT_FALSE(parsed({"-nw"}).warm);
  EXPECT_TRUE(parsed({"--no-warm", "--warm"}).warm);
  EXPECT_EQ(parsed({"-c", "2", "-c", "3"}).count, 3);
}

TEST(FlagSet, RepeatedListsAddUpAndTwoValuesAreTakenTogether) {
  EXPECT_EQ(parsed({"--name", "a,b", "--name", "c"}).names, (std::vector<std::string>{"a", "b", "c"}));
  EXPECT_EQ(parsed({"--range", "2", "5"}).range, "2,5");
  EXPECT_NE(error_of({"--range", "2"}), "");
}

TEST(FlagSet, ErrorsAreOneLineAndNameTheFlag) {
  EXPECT_EQ(error_of({"--conut", "1"}), "unknown flag '--conut'; did you mean '--count'? Try: test --count 1");
  EXPECT_EQ(error_of({"-ctn", "1"}), "unknown flag '-ctn'; did you mean '-cnt'? Try: test -cnt 1");
  EXPECT_EQ(error_of({"--qqqqq", "1"}), "unknown flag '--qqqqq'; --help lists all flags");
  EXPECT_EQ(error_of({"--count", "x"}), "--count: 'x' is not a whole number from -5 to 10");
  EXPECT_EQ(error_of({"--count"}), "--count needs a value: N");
  EXPECT_EQ(error_of({"--count="}), "--count needs a value: N");
  EXPECT_EQ(error_of({"--count", "--warm"}), "--count needs a value: N") << "a flag is no value";
  EXPECT_EQ(error_of({"-cnt", "-c", "2"}), "-cnt (--count) needs a value: N");
  EXPECT_EQ(error_of({"-cnt", "x"}), "-cnt (--count): 'x' is not a whole number from -5 to 10") << "as it was typed";
  EXPECT_EQ(error_of({"--count", "1", "-c", "99"}), "-c (--count): '99' is not a whole number from -5 to 10");
  EXPECT_EQ(error_of({"--warm=1"}), "--warm takes no value");
  EXPECT_EQ(error_of({"word"}), "unexpected argument 'word'");
  EXPECT_EQ(error_of({"--gone"}), "--gone is not supported: it is gone. Try: test");
}

TEST(FlagSet, AllRefusalsAreReportedAtOnceWithTheLineThatWorks) {
  EXPECT_EQ(
      error_of({"-c", "2", "--gone-far", "away", "--no-light", "--nmae", "a b", "--gone-far", "again", "--warm"}),
      "--gone-far is not supported: it is gone. --no-light is not supported: it is always on. unknown flag '--nmae'; "
      "did you mean '--name'? Try: test -c 2 --name 'a b' --warm");
  EXPECT_EQ(error_of({"--gone=1", "--qqqqq", "-c", "2"}),
            "--gone is not supported: it is gone. unknown flag '--qqqqq'; --help lists all flags")
      << "what it does is not known: no line";
}

TEST(FlagSet, BadValuesAreReportedWithTheRestAndLeaveNoLine) {
  const std::string bad_count = "'x' is not a whole number from -5 to 10";
  EXPECT_EQ(error_of({"--gone", "--count", "x"}), "--gone is not supported: it is gone. --count: " + bad_count);
  EXPECT_EQ(error_of({"--number", "x"}), "--number is not supported: it is called --count here. --count: " + bad_count);
  EXPECT_EQ(error_of({"--count", "x", "-c", "x"}), "--count: " + bad_count + ". -c (--count): " + bad_count);
}

TEST(FlagSet, FlagsOfOtherNamesArePutInOurs) {
  const auto line = [](const std::vector<std::string>& arguments) {
    const std::string error = error_of(arguments);
    return error.substr(std::min(error.find("Try: "), error.size()));
  };
  EXPECT_EQ(line({"--number", "3", "--warm"}), "Try: test --count 3 --warm");
  EXPECT_EQ(line({"--number=3"}), "Try: test --count 3");
  EXPECT_EQ(line({"--number", "-3"}), "Try: test --count -3");
  EXPECT_EQ(line({"--hot", "--count", "1"}), "Try: test --warm --count 1");
  EXPECT_EQ(line({"--cold", "--name", "a"}), "Try: test --no-warm --count 1 --name a");
}

TEST(FlagSet, TheEnvironmentFillsWhatIsNotGiven) {
  EXPECT_EQ(parsed({}, {{"LLAMA_ARG_COUNT", "4"}}).count, 4);
  EXPECT_EQ(parsed({"-cnt", "5"}, {{"LLAMA_ARG_COUNT", "4"}}).count, 5);
  EXPECT_EQ(parsed({}, {{"LLAMA_ARG_COUNT", ""}}).count, 1);
  for (const char* off : {"off", "disabled", "false", "0"}) EXPECT_FALSE(parsed({}, {{"LLAMA_ARG_WARM", off}}).warm);
  EXPECT_FALSE(parsed({}, {{"LLAMA_ARG_NO_WARM", "1"}}).warm);
  EXPECT_NE(error_of({}, {{"LLAMA_ARG_WARM", "maybe"}}), "");
  EXPECT_EQ(error_of({}, {{"LLAMA_ARG_COUNT", "x"}}), "LLAMA_ARG_COUNT: 'x' is not a whole number from -5 to 10");
  EXPECT_NE(error_of({}, {{"LLAMA_ARG_GONE", "x"}}), "");
}

TEST(FlagSet, RefusedNamesMayStandForMany) {
  for (const char* name : {"--gone", "--gone-", "--gone-away", "--all-lost"}) {
    EXPECT_EQ(error_of({name, "1"}), std::string(name) + " is not supported: it is gone. Try: test");
  }
  for (const char* name : {"--gon", "--goner", "--lost-all"}) {
    EXPECT_TRUE(error_of({name, "1"}).starts_with("unknown flag")) << name;
  }
}

TEST(FlagSet, RefusedVariablesMayBeHarmless) {
  EXPECT_EQ(error_of({}, {{"LLAMA_ARG_LIGHT", "0"}}),
            "the environment variable LLAMA_ARG_LIGHT is set, but --no-light is not supported: it is always on; to "
            "start without it, unset LLAMA_ARG_LIGHT");
  EXPECT_NE(error_of({}, {{"LLAMA_ARG_NO_LIGHT", "1"}}), "");
  EXPECT_NE(error_of({}, {{"LLAMA_ARG_LIGHT", "perhaps"}}), "");
  EXPECT_NE(error_of({}, {{"LLAMA_ARG_NOISE", "true"}}), "");
  EXPECT_NE(error_of({}, {{"LLAMA_ARG_LOST_KEYS", "2"}}), "");
  parsed({}, {{"LLAMA_ARG_LIGHT", "1"}, {"LLAMA_ARG_NOISE", "off"}, {"LLAMA_ARG_NO_NOISE", "1"}});
}

TEST(FlagSet, NamesVariablesThatNothingReads) {
  Options options;
  const os::Environment environment = {
      {"HOME", "/h"},           {"LLAMA_ARG_COUNT", "1"},    {"LLAMA_ARG_EMPTY", ""},
      {"LLAMA_ARG_LIGHT", "1"}, {"LLAMA_ARG_NO_COUNT", "1"}, {"LLAMA_ARG_NO_WARM", "1"},
      {"LLAMA_ARG_SPEED", "9"}, {"LLAMA_ARG_TYPO", "1"}};
  EXPECT_EQ(
      flags(options).ignored_variables(environment),
      (std::vector<std::string>{
          "the environment variable LLAMA_ARG_NO_COUNT is not known here and sets nothing",
          "the environment variable LLAMA_ARG_SPEED sets nothing: --speed is not supported: it is as fast as it is",
          "the environment variable LLAMA_ARG_TYPO is not known here and sets nothing"}))
      << "a flag without an off form has no LLAMA_ARG_NO_...";
  parsed({}, environment);
}

TEST(FlagSet, HelpIsAskedForWhateverElseIsWrong) {
  Options options;
  for (const char* name : {"--help", "-h"}) EXPECT_TRUE(*flags(options).parse({"--nonsense", name}, {})) << name;
}

TEST(FlagSet, HelpShowsGroupsSpellingsDefaultsAndVariables) {
  Options options;
  const std::string help = flags(options).help();
  for (const char* text : {"One:", "Two:", "-cnt, -c, --count N", "--warm, --no-warm, -nw", "(default: 1)",
                           "(env: LLAMA_ARG_COUNT)", "--help"}) {
    EXPECT_NE(help.find(text), std::string::npos) << text << "\n" << help;
  }
}

}  // namespace
}  // namespace kvkeep::cli
