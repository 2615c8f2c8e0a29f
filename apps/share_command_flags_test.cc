// Command lines of `kvkeep share`: the engine's flags are those of serve, as far as they matter.

#include "share_command_flags.h"

#include <gtest/gtest.h>

#include "command_line.h"

namespace kvkeep::cli {
namespace {

Result<ParsedShare> parsed_share(const std::vector<std::string>& arguments) { return parse_share(arguments, {}); }
std::string share_error(const std::vector<std::string>& arguments) { return parsed_share(arguments).error().message; }

TEST(ShareCommandFlags, Values) {
  const ShareCommandOptions push =
      parsed_share({"push", "--share", "dir:/nas", "--kv-disk-dir", "/d", "--max-mb", "7", "--dry-run", "--model", "ab",
                    "--share-key-file", "/k", "--share-encrypt", "--share-ttl-hours", "5", "--device", "CPU", "--json"})
          .value()
          .options;
  EXPECT_EQ(push.action, ShareAction::kPush);
  EXPECT_EQ(push.shared.url, "dir:/nas");
  EXPECT_EQ(push.shared.key_file, "/k");
  EXPECT_TRUE(push.shared.encrypt && push.dry && push.json);
  EXPECT_EQ(push.shared.ttl_hours, 5);
  EXPECT_EQ(push.most, mebibytes(7));
  EXPECT_EQ(push.cache.fingerprint, "ab");
  EXPECT_EQ(push.cache.tiers.disk_directory, "/d");
  EXPECT_EQ(push.device, "CPU");
  const ShareCommandOptions pull =
      parsed_share({"pull", "--share", "dir:/nas", "--kv-disk-space-mb", "64", "--share-across-devices"})
          .value()
          .options;
  EXPECT_EQ(pull.action, ShareAction::kPull);
  EXPECT_TRUE(pull.shared.across_devices);
  EXPECT_EQ(pull.cache.tiers.disk_budget, mebibytes(64));
  EXPECT_EQ(parsed_share({"ls", "--share", "dir:/nas"})->options.action, ShareAction::kList);
}

TEST(ShareCommandFlags, TheDirectoryMayComeFromTheEnvironment) {
  const os::Environment environment = {{"LLAMA_ARG_KV_DISK_DIR", "/e"}};
  EXPECT_EQ(parse_share({"push", "--share", "dir:/n"}, environment)->options.cache.tiers.disk_directory, "/e");
}

// A flag that would not be obeyed is refused.
TEST(ShareCommandFlags, FlagsThatDoNothingAreUnknown) {
  for (const char* command : {"ls", "push", "pull"}) {
    EXPECT_TRUE(share_error({command, "--share", "dir:/n", "--share-mode", "read"}).starts_with("unknown flag"))
        << share_error({command, "--share", "dir:/n", "--share-mode", "read"});
  }
  for (const char* flag : {"--share-ttl-hours=3", "--share-encrypt"}) {
    EXPECT_FALSE(parsed_share({"pull", "--share", "dir:/n", "--share-key-file", "/k", flag})) << flag;
    EXPECT_TRUE(parsed_share({"push", "--share", "dir:/n", "--share-key-file", "/k", flag})) << flag;
  }
  for (const char* flag : {"--max-mb=3", "--dry-run", "--device=CPU", "--model=ab", "--kv-disk-dir=/d"}) {
    EXPECT_FALSE(parsed_share({"ls", "--share", "dir:/n", flag})) << flag;
  }
  EXPECT_FALSE(parsed_share({"push", "--share", "dir:/n", "--kv-disk-space-mb", "3"}));
}

TEST(ShareCommandFlags, MistakesAreNamed) {
  EXPECT_EQ(share_error({"push"}), "no shared tier was named: kvkeep share push --share URL");
  EXPECT_NE(share_error({"push", "--share", "ftp://x"}).find("--share: "), std::string::npos);
  EXPECT_EQ(share_error({"pusch", "--share", "dir:/n"}), "unknown command 'share pusch'; did you mean 'push'?");
  EXPECT_NE(share_error({"push", "--share", "dir:/n", "--dry-rum"}).find("'--dry-run'"), std::string::npos);
  EXPECT_EQ(share_error({"--share", "dir:/n", "ls"}), "the command comes first: kvkeep share ls --share dir:/n ls");
  EXPECT_EQ(share_error({"push", "--share", "dir:/n", "--share-encrypt"}),
            "--share-encrypt needs --share-key-file FILE");
  EXPECT_EQ(share_error({"push", "--share", "dir:/n", "--device", "x", "--share-across-devices"}),
            "name a --device or --share-across-devices, not both");
  EXPECT_FALSE(parsed_share({"push", "--share", "dir:/n", "extra"}));
}

TEST(ShareCommandFlags, HelpIsGrouped) {
  for (const auto& words : std::vector<std::vector<std::string>>{{}, {"--help"}, {"help"}}) {
    EXPECT_NE(parsed_share(words)->help.find("push         publish"), std::string::npos);
  }
  const std::string help = parsed_share({"pull", "--help"})->help;
  for (const char* group : {"Shared tier", "Directory", "Choice", "Output"}) {
    EXPECT_NE(help.find(std::string("\n") + group), std::string::npos) << group;
  }
  EXPECT_TRUE(std::holds_alternative<ShareCommandOptions>(
      parse_command_line({"share", "ls", "--share", "dir:/n"}, {}).value()));
}

}  // namespace
}  // namespace kvkeep::cli
