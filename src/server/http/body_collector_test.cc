#include "server/http/body_collector.h"

#include <gtest/gtest.h>

#include "server/http/gunzip.h"

namespace kvkeep::server {
namespace {

using Trouble = BodyCollector::Trouble;

// Feeds all bytes, `step` at a time, until there is trouble.
void feed(BodyCollector& body, std::string_view bytes, std::size_t step) {
  while (!bytes.empty() && body.trouble() == Trouble::kNone) {
    bytes.remove_prefix(body.take(bytes.substr(0, step)));
  }
}

TEST(BodyCollector, PlainBodiesUpToTheLimit) {
  Budget budget(100);
  BodyCollector body(budget, 8);
  ASSERT_TRUE(body.set_encoding("identity"));
  feed(body, "12345678", 3);
  EXPECT_EQ(body.trouble(), Trouble::kNone);
  EXPECT_TRUE(body.is_whole());
  EXPECT_EQ(body.take("9"), 0U);
  EXPECT_EQ(body.trouble(), Trouble::kTooLarge);
  EXPECT_FALSE(budget.has_room_for(93));
  EXPECT_EQ(body.release()->bytes, "12345678");
  EXPECT_TRUE(budget.has_room_for(100)) << "given back with the body";
}

TEST(BodyCollector, WithoutRoomNothingIsTakenUntilThereIsSome) {
  Budget budget(10);
  Budget::Share others(budget);
  ASSERT_TRUE(others.take(8));
  BodyCollector body(budget, 10);
  EXPECT_EQ(body.take("123"), 0U);
  EXPECT_EQ(body.trouble(), Trouble::kNoRoom);
  others.give_back();
  EXPECT_EQ(body.take("123"), 3U);
  EXPECT_EQ(body.trouble(), Trouble::kNone);
}

TEST(BodyCollector, CompressedBodiesAreUnpacked) {
  std::string text;
  for (int i = 0; i < 10'000; ++i) text += std::to_string(i);
  const std::string packed = gzip(text);
  for (const std::size_t step : {std::size_t{1}, std::size_t{1'000}, packed.size()}) {
    Budget budget(100'000);
    BodyCollector body(budget, 60'000);
    ASSERT_TRUE(body.set_encoding("GZIP"));
    feed(body, packed, step);
    EXPECT_EQ(body.trouble(), Trouble::kNone);
    EXPECT_TRUE(body.is_whole());
    EXPECT_TRUE(body.release()->bytes == text);
    EXPECT_TRUE(budget.has_room_for(100'000));
  }
}

// A small body that unpacks to a huge one is refused as soon as it is too large.
TEST(BodyCollector, UnpackedBodiesHaveTheSameLimit) {
  const std::string packed = gzip(std::string(10 << 20, 'a'));
  Budget budget(1 << 20);
  BodyCollector body(budget, 1'000);
  ASSERT_TRUE(body.set_encoding("gzip"));
  feed(body, packed, packed.size());
  EXPECT_EQ(body.trouble(), Trouble::kTooLarge);
  EXPECT_LE(body.release()->bytes.size(), 1'001U);
}

TEST(BodyCollector, DamagedAndCutOffBodies) {
  std::string packed = gzip("some text");
  Budget budget(1 << 20);
  BodyCollector cut(budget, 1'000);
  ASSERT_TRUE(cut.set_encoding("gzip"));
  feed(cut, packed.substr(0, packed.size() - 3), 5);
  EXPECT_EQ(cut.trouble(), Trouble::kNone);
  EXPECT_FALSE(cut.is_whole());
  for (const std::string& bad : {std::string("no gzip at all"), packed + "more"}) {
    BodyCollector body(budget, 1'000);
    ASSERT_TRUE(body.set_encoding("gzip"));
    feed(body, bad, bad.size());
    EXPECT_EQ(body.trouble(), Trouble::kDamaged) << bad;
  }
  BodyCollector other(budget, 1'000);
  EXPECT_FALSE(other.set_encoding("br"));
}

}  // namespace
}  // namespace kvkeep::server
