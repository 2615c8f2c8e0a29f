#include "cache_flags.h"

#include <gtest/gtest.h>

namespace kvkeep::cli {
namespace {

Result<ParsedCache> parsed_cache(const std::vector<std::string>& arguments) { return parse_cache(arguments, {}); }

std::string cache_error(const std::vector<std::string>& arguments) {
  const auto result = parsed_cache(arguments);
  return result ? "none" : result.error().message;
}

TEST(CacheFlags, HelpNamesEveryCommand) {
  const std::string help = parsed_cache({}).value().help;
  for (const char* name : {"stat", "ls", "show", "verify", "gc", "rm", "export", "import", "pin", "unpin"}) {
    EXPECT_NE(help.find(std::string("  ").append(name)), std::string::npos) << name;
    const std::string own = parsed_cache({name, "--help"}).value().help;
    EXPECT_NE(own.find("--kv-disk-dir"), std::string::npos) << name;
    EXPECT_NE(own.find("--json"), std::string::npos) << name;
    EXPECT_NE(own.find(std::string("Usage: kvkeep cache ").append(name)), std::string::npos) << own;
  }
  EXPECT_EQ(parsed_cache({"--help"}).value().help, help);
}

TEST(CacheFlags, UnknownWordsSuggestTheNearest) {
  EXPECT_EQ(cache_error({"stats"}), "unknown command 'cache stats'; did you mean 'stat'?");
  EXPECT_EQ(cache_error({"frobnicate"}), "unknown command 'cache frobnicate'; see kvkeep cache --help");
  EXPECT_EQ(cache_error({"verify", "--repiar"}),
            "unknown flag '--repiar'; did you mean '--repair'? Try: kvkeep cache verify --repair");
  EXPECT_EQ(cache_error({"stat", "--repair"}), "unknown flag '--repair'; --help lists all flags");
  EXPECT_EQ(cache_error({"stat", "abc"}), "unexpected argument 'abc'; a directory is named with --kv-disk-dir abc");
  EXPECT_EQ(cache_error({"show", "abc", "def"}), "unexpected argument 'def'");
}

TEST(CacheFlags, StatShowsASharedTierOrADirectory) {
  EXPECT_EQ(parsed_cache({"stat", "--share", "dir:/mnt/nas"}).value().options.share, "dir:/mnt/nas");
  EXPECT_TRUE(cache_error({"stat", "--share", "nas"}).starts_with("--share: "));
  for (const char* flag : {"--kv-disk-dir", "--kv-disk-space-mb"}) {
    EXPECT_TRUE(cache_error({"stat", "--share", "dir:/mnt/nas", flag, "7"}).ends_with("not both")) << flag;
  }
  EXPECT_TRUE(parse_cache({"stat", "--share", "dir:/mnt/nas"}, {{"LLAMA_ARG_KV_DISK_DIR", "/var/cache"}}).ok())
      << "the servers' directory is not named by this command";
}

TEST(CacheFlags, FlagsMayStandBeforeTheCommand) {
  const CacheCommandOptions options = parsed_cache({"--kv-disk-dir", "ls", "--json", "stat"}).value().options;
  EXPECT_EQ(options.action, CacheAction::kStat);
  EXPECT_EQ(options.tiers.disk_directory, "ls");
  EXPECT_TRUE(options.json);
  EXPECT_EQ(parsed_cache({"--kv-disk-dir=/d", "-n", "2", "list"})->options.action, CacheAction::kList);
  EXPECT_EQ(parsed_cache({"--kv-disk-dir", "/d", "--help"})->help, parsed_cache({})->help);
  EXPECT_EQ(cache_error({"--kv-disk-dir", "/d"}), "no command: kvkeep cache stat --kv-disk-dir /d");
}

TEST(CacheFlags, TheDirectoryMayComeFromTheEnvironment) {
  const os::Environment environment = {{"LLAMA_ARG_KV_DISK_DIR", "/e"}};
  EXPECT_EQ(parse_cache({"stat"}, environment)->options.tiers.disk_directory, "/e");
  EXPECT_EQ(parse_cache({"stat", "--kv-disk-dir", "/d"}, environment)->options.tiers.disk_directory, "/d");
}

TEST(CacheFlags, RemovalsNeedAName) {
  EXPECT_EQ(cache_error({"rm"}), "no ID or FILE was given: kvkeep cache rm [flags] ID...");
  EXPECT_EQ(cache_error({"show"}), "no ID or FILE was given: kvkeep cache show [flags] ID");
  EXPECT_EQ(cache_error({"rm", "abcd", "--model", "ab"}), "name ids or a --model to remove, not both");
  for (const char* word : {"clear", "purge", "delete", "remove"}) {
    const std::string error = cache_error({word});
    EXPECT_NE(error.find("kvkeep cache rm"), std::string::npos) << error;
    EXPECT_NE(error.find("kvkeep cache gc"), std::string::npos) << error;
  }
  EXPECT_TRUE(parsed_cache({"rm", "--model", "ab"}));
  EXPECT_EQ(parsed_cache({"rm", "abcd", "-y", "ef01"})->options.words, (std::vector<std::string>{"abcd", "ef01"}));
  EXPECT_EQ(cache_error({"export"}), "no ID or FILE was given: kvkeep cache export [flags] FILE [ID...]");
  EXPECT_EQ(parsed_cache({"export", "f", "abcd", "ef01"})->options.words.size(), 3U);
  EXPECT_EQ(cache_error({"import", "f", "g"}), "unexpected argument 'g'");
  EXPECT_EQ(parsed_cache({"gc", "--to-mb", "0"})->options.to, ByteCount{0});
}

TEST(CacheFlags, Values) {
  const CacheCommandOptions list =
      parsed_cache({"ls", "-n", "5", "--depth", "2", "--sort", "size", "--model", "ab", "--json"}).value().options;
  EXPECT_EQ(list.action, CacheAction::kList);
  EXPECT_EQ(list.most_runs, 5U);
  EXPECT_EQ(list.most_depth, 2U);
  EXPECT_EQ(list.order, inspect::Order::kSize);
  EXPECT_EQ(list.fingerprint, "ab");
  EXPECT_TRUE(list.json);
  const CacheCommandOptions verify = parsed_cache({"verify", "--repair", "--kv-disk-dir", "/x"}).value().options;
  EXPECT_TRUE(verify.repair);
  EXPECT_EQ(verify.tiers.disk_directory, "/x");
  EXPECT_EQ(cache_error({"ls", "-n", "0"}), "-n (--limit): '0' is not a whole number from 1 up");
  EXPECT_EQ(cache_error({"ls", "-n", "-5"}), "-n (--limit): '-5' is not a whole number from 1 up");
  EXPECT_EQ(cache_error({"ls", "--limit", "1", "-n", "x"}), "-n (--limit): 'x' is not a whole number from 1 up");
}

}  // namespace
}  // namespace kvkeep::cli
