#include "top_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "command_line.h"

namespace kvkeep::cli {
namespace {

using ::testing::HasSubstr;

TopCommandOptions parsed(const std::vector<std::string>& arguments, const os::Environment& environment = {}) {
  const auto top = parse_top(arguments, environment);
  EXPECT_TRUE(top) << (top ? "" : top.error().message);
  return top ? top->options : TopCommandOptions{};
}

TEST(TopFlags, LookAtTheServerOfThisMachineByDefault) {
  const TopCommandOptions options = parsed({});
  EXPECT_EQ(options.server.url, "http://127.0.0.1:8080");
  EXPECT_EQ(options.server.api_key, "");
  EXPECT_EQ(options.interval_s, 1);
  EXPECT_FALSE(options.once);
}

TEST(TopFlags, ChooseTheFirstList) {
  EXPECT_EQ(parsed({}).list, top::List::kRequests);
  EXPECT_EQ(parsed({"--list", "causes"}).list, top::List::kCauses);
  EXPECT_FALSE(parse_top({"--list", "all"}, {}));
}

TEST(TopFlags, AreChecked) {
  for (const char* interval : {"0", "-1", "soon", "4000"})
    EXPECT_FALSE(parse_top({"--interval", interval}, {})) << interval;
  EXPECT_FALSE(parse_top({"server"}, {}));
  EXPECT_THAT(parse_top({"--ulr", "x"}, {}).error().message, HasSubstr("did you mean '--url'"));
}

TEST(TopFlags, BelongToACommandOfTheProgram) {
  const auto command = parse_command_line({"top", "--once"}, {});
  ASSERT_TRUE(command && std::holds_alternative<TopCommandOptions>(*command));
  EXPECT_TRUE(std::get<TopCommandOptions>(*command).once);
  const auto help = parse_command_line({"help", "top"}, {});
  ASSERT_TRUE(help && std::holds_alternative<PrintText>(*help));
  EXPECT_THAT(std::get<PrintText>(*help).text, HasSubstr("--interval SECONDS"));
}

}  // namespace
}  // namespace kvkeep::cli
