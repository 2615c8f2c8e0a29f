#include "suggest.h"

#include <gtest/gtest.h>

namespace kvkeep::cli {
namespace {

TEST(Suggest, NearestIsGivenOnlyWhenNear) {
  const std::vector<std::string> known = {"--port", "--host", "--parallel"};
  EXPECT_EQ(nearest("--prot", known), "--port");
  EXPECT_EQ(nearest("--paralell", known), "--parallel");
  EXPECT_EQ(nearest("--zzzzzzzz", known), "");
  EXPECT_EQ(did_you_mean("--prot", known), "; did you mean '--port'?");
}

TEST(Suggest, AnotherWordIsNoSlip) {
  const std::vector<std::string> known = {"--cache-ram", "--kv-disk-dir", "--model", "--chat-template-file",
                                          "--log-file"};
  EXPECT_EQ(nearest("--cache-dir", known), "--kv-disk-dir");
  EXPECT_EQ(nearest("--cache-rma", known), "--cache-ram");
  EXPECT_EQ(nearest("--kv-disk-dri", known), "--kv-disk-dir");
  EXPECT_EQ(nearest("--kvdisk-dir", known), "--kv-disk-dir");
  EXPECT_EQ(nearest("--key-file", known), "") << "several end so";
}

TEST(Suggest, BeginningsAreCompleted) {
  const std::vector<std::string> types = {"f16", "q8_0", "q4_0", "q4_1"};
  EXPECT_EQ(nearest("q8", types), "q8_0");
  EXPECT_EQ(nearest("q4", types), "") << "which of them?";
  EXPECT_EQ(nearest("q", types), "");
}

TEST(Suggest, ShortWordsAreNotTakenForOthers) {
  const std::vector<std::string> known = {"--port", "-c", "-m", "-fa", "--seed"};
  for (const char* word : {"--poll", "-x", "-fx", "-C", "--", "-", ""}) EXPECT_EQ(nearest(word, known), "") << word;
  EXPECT_EQ(nearest("--sede", known), "--seed");
}

}  // namespace
}  // namespace kvkeep::cli
