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

TEST(Suggest, ShortWordsAreNotTakenForOthers) {
  const std::vector<std::string> known = {"--port", "-c", "-m", "-fa", "--seed"};
  for (const char* word : {"--poll", "-x", "-fx", "-C", "--", "-", ""}) EXPECT_EQ(nearest(word, known), "") << word;
  EXPECT_EQ(nearest("--sede", known), "--seed");
}

}  // namespace
}  // namespace kvkeep::cli
