// A day's writing: never more than was granted; the most valuable segments get it, and others serve from RAM.

#include <algorithm>
#include <deque>
#include <memory>
#include <random>
#include <utility>

#include "base/test_seed.h"
#include "cache/cache_test_fixture.h"
#include "store/layout.h"

namespace kvkeep::cache {
namespace {

constexpr std::uint64_t kFile = 8192;  // of 16 tokens, on disk

class DailyWriting : public testing::Test {
 protected:
  // For so many files a day, of which an eighth may gather.
  void open(std::uint64_t files_a_day) {
    world.written_per_day = ByteCount{files_a_day * kFile};
    ASSERT_TRUE(world.open());
  }
  void store(const Tokens& tokens) {
    ASSERT_EQ(world.grow(tokens), tokens.size());
    world.writer.run_all();
  }
  // One-off requests until the allowance is used up as far as they may.
  void fill() {
    for (TokenId i = 0; i < 200; ++i) store(conversation(10'000 + i * 10, 16));
  }
  std::size_t files() const { return world.segment_files().size(); }

  World world;
  const Tokens a = conversation(100, 64);
};

TEST_F(DailyWriting, WithoutALimitAllIsWrittenAndNothingIsNoted) {
  ASSERT_TRUE(world.open());
  fill();
  EXPECT_EQ(files(), 200U);
  EXPECT_EQ(world.cache->stats().put_off, 0U);
  for (const std::string& path : world.files.paths()) EXPECT_FALSE(path.ends_with("writes")) << path;
}

TEST_F(DailyWriting, RefusedSegmentsServeFromRamAndAreWrittenLater) {
  open(400);
  fill();
  EXPECT_LT(files(), 51U);
  EXPECT_GT(world.cache->stats().put_off, 100U);
  EXPECT_EQ(world.cache->stats().disk_refused, 0U);
  store(a);
  EXPECT_EQ(world.check(a), 64U);
  for (int hour = 0; hour < 24; ++hour) world.pass(1);
  EXPECT_EQ(files(), 204U);
  ASSERT_TRUE(world.restart());
  EXPECT_EQ(world.check(a), 64U);
}

TEST_F(DailyWriting, NoMoreIsRememberedThanMayWait) {
  world.most_waiting = 8;
  open(400);
  fill();
  EXPECT_GT(world.cache->stats().put_off, 100U);
  EXPECT_EQ(world.cache->stats().remembered, 8U);
}

TEST_F(DailyWriting, APathThatIsUsedAgainIsWrittenBeforeTheRest) {
  open(400);
  fill();
  world.pass(1);
  fill();  // what came back is used up as well
  const std::size_t before = files();
  store(a);
  ASSERT_EQ(files(), before) << "short, and nobody came back to it";
  world.clock.advance_ms(kHourMs / 2);
  for (int i = 0; i < 8; ++i) world.use(a);
  EXPECT_EQ(files(), before + 4);
  ASSERT_TRUE(world.restart());
  EXPECT_EQ(world.check(a), 64U);
}

TEST_F(DailyWriting, AConversationThatGoesOnTakesItsBeginningAlong) {
  open(400);
  fill();
  Tokens tokens = a;
  const std::size_t before = files();
  for (TokenId turn = 0; turn < 6; ++turn) {
    store(tokens);
    world.clock.advance_ms(kHourMs / 10);
    world.use(tokens);
    tokens = tokens + conversation(500 + turn * 20, 32);
  }
  EXPECT_GT(files(), before);
  const std::size_t there = files();
  ASSERT_TRUE(world.restart());
  EXPECT_EQ(files(), there);
  EXPECT_EQ(world.cache->stats().segments, there) << "nothing hangs below what was not written";
  EXPECT_GE(world.check(tokens), 64U);
}

TEST_F(DailyWriting, KeptPathsAreWrittenFirst) {
  open(400);
  fill();
  store(a);
  const std::size_t before = files();
  world.cache->keep(world.cache->track(a), kHourMs * 1'000'000);
  world.clock.advance_ms(kHourMs / 4);
  world.use(a);
  EXPECT_EQ(files(), before + 4);
}

// Segments after the file that used the allowance up wait.
TEST_F(DailyWriting, APathIsWrittenAsFarAsMayBe) {
  open(400);
  const auto store_to_keep = [&](const Tokens& tokens) {
    store(tokens);
    world.cache->keep(world.cache->track(tokens), kHourMs * 1'000'000);
    world.use(tokens);
  };
  for (TokenId i = 0; i < 100; ++i) store_to_keep(conversation(50'000 + i * 10, 16));
  ASSERT_EQ(world.store->writes()->left, ByteCount{});
  store_to_keep(a);
  const std::size_t before = files();
  world.clock.advance_ms(kHourMs / 5);  // not three files' worth
  world.use(a);
  EXPECT_GT(files(), before);
  EXPECT_LT(files(), before + 4);
  EXPECT_EQ(world.check(a), 64U) << "the rest serves from RAM";
}

// Random days: whatever comes, and however often it is killed, no 24 hours see more than a day's bytes and one file.
// All that grows below the fingerprint's directory counts: abandoned files and saved indexes as well.
TEST_F(DailyWriting, NeverMoreThanADaysInADay) {
  std::mt19937 random(static_cast<std::mt19937::result_type>(test_seed()));
  const auto below = [&](std::uint32_t limit) { return random() % limit; };
  constexpr std::uint64_t kFilesADay = 160;
  std::int64_t minutes = 0;
  std::deque<std::pair<std::int64_t, std::uint64_t>> last_day;  // minutes, bytes
  const std::string own = store::make_layout("/cache", {}).own;
  std::uint64_t there = 0, in_a_day = 0, total = 0;
  double came_back = 0;  // in one piece no more than what anything may use: half of what may gather
  world.files.set_observer([&] {
    const std::uint64_t now = world.files.physical_bytes() - world.files.physical_bytes(own);
    if (now > there) {
      last_day.emplace_back(minutes, now - there);
      in_a_day += now - there;
      total += now - there;
    }
    there = now;
  });
  // Closing writes as well, after this function's counts are gone.
  const std::shared_ptr<void> no_longer(nullptr, [this](void*) { world.files.set_observer(nullptr); });
  world.disk_budget = ByteCount{kFile * 100};
  open(kFilesADay);
  while (minutes < 6 * 24 * 60) {
    const std::int64_t step = below(30) + (below(40) == 0 ? 600 : 0);
    minutes += step;
    came_back += std::min(static_cast<double>(step) / (24 * 60) * 7 / 8, 1.0 / 16) * kFilesADay * kFile;
    world.clock.advance_ms(step * 60'000);
    world.cache->tick();
    const Tokens tokens =
        conversation(static_cast<TokenId>(below(below(2) == 0 ? 40 : 4000) * 100), 16 * (1 + below(6)));
    world.grow(tokens);
    world.writer.run_all();
    if (below(2) == 0) world.use(tokens);
    for (; !last_day.empty() && last_day.front().first <= minutes - 24 * 60; last_day.pop_front()) {
      in_a_day -= last_day.front().second;
    }
    ASSERT_LE(in_a_day, (kFilesADay + 1) * kFile) << minutes;
    if (below(100) != 0) continue;
    world.files.set_plan({sim::FaultKind::kFailForever, 1});  // killed: it does not report what is left
    world.die();
    world.files.heal();
    world.files.kill();
    ASSERT_TRUE(world.open());
  }
  // There are always more offers. Bytes that a killed process did not report are lost.
  EXPECT_GT(static_cast<double>(total), came_back * 15 / 16) << "it is used";
}

}  // namespace
}  // namespace kvkeep::cache
