#include "server/routes/said_once.h"

#include <gtest/gtest.h>

namespace kvkeep::server {
namespace {

using Say = SaidOnce::Say;

TEST(SaidOnce, SaysEachOnceAndNamesTheLast) {
  SaidOnce said(3);
  EXPECT_EQ(said.first("a"), Say::kNow);
  EXPECT_EQ(said.first("a"), Say::kNot);
  EXPECT_EQ(said.first("b"), Say::kNow);
  EXPECT_EQ(said.first("c"), Say::kNowAndNoMore);
  for (const char* later : {"a", "c", "d"}) EXPECT_EQ(said.first(later), Say::kNot) << later;
}

TEST(SaidOnce, LongWordsTakeBoundedMemory) {
  SaidOnce said(3);
  const std::string begin(SaidOnce::kMostBytes, 'x');
  EXPECT_EQ(said.first(begin + "one"), Say::kNow);
  EXPECT_EQ(said.first(begin + "two"), Say::kNot);
  EXPECT_EQ(said.first(begin.substr(1)), Say::kNow);
}

}  // namespace
}  // namespace kvkeep::server
