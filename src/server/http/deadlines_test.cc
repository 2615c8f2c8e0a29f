#include "server/http/deadlines.h"

#include <gtest/gtest.h>

namespace kvkeep::server {
namespace {

constexpr std::int64_t kMs = 1'000'000;

TEST(Deadlines, EachPhaseHasItsOwn) {
  const ChannelLimits limits{.idle_ms = 1, .header_ms = 20, .hurried_header_ms = 3, .body_ms = 400, .room_ms = 50};
  const PhaseTimes times{.begun_ns = 1'000 * kMs, .body_ns = 500 * kMs, .progress_ns = 800 * kMs};
  const auto at = [&](Phase phase, bool hurried) { return deadline_ns(phase, times, limits, hurried) / kMs; };
  EXPECT_EQ(at(Phase::kFirst, false), 1'020);
  EXPECT_EQ(at(Phase::kFirst, true), 1'003);
  EXPECT_EQ(at(Phase::kIdle, false), 1'001);
  EXPECT_EQ(at(Phase::kIdle, true), 1'000) << "at once";
  EXPECT_EQ(at(Phase::kHead, false), 1'020);
  EXPECT_EQ(at(Phase::kHead, true), 1'003);
  EXPECT_EQ(at(Phase::kBody, false), 900) << "all of it, from the end of the head on";
  EXPECT_EQ(at(Phase::kBody, true), 803) << "the next piece";
  EXPECT_EQ(at(Phase::kRoom, false), 900) << "a wait for room is part of the body's time";
  EXPECT_EQ(at(Phase::kLinger, true), 2'000);
  EXPECT_EQ(deadline_ns(Phase::kReply, times, limits, true), kNever);
}

// At the slowest pace that brings a body of 1 MiB in a minute, 17 KiB come in a second; half of that is a piece.
TEST(Deadlines, ABodyGrowsInPieces) {
  const ChannelLimits limits;
  PhaseTimes times;
  const auto grows = [&](std::size_t held_bytes) {
    times.progress_ns = 0;
    note_growth(held_bytes, 1, limits, times);
    return times.progress_ns == 1;
  };
  EXPECT_FALSE(grows(0));
  EXPECT_TRUE(grows(1));
  EXPECT_FALSE(grows(1));
  EXPECT_TRUE(grows(2)) << "bytes now and then are a piece of a small body";
  EXPECT_TRUE(grows(1 << 20));
  EXPECT_FALSE(grows((1 << 20) + 8'000)) << "and none of a large one";
  EXPECT_TRUE(grows((1 << 20) + 9'000));
}

}  // namespace
}  // namespace kvkeep::server
