#include "policy/turnover.h"

#include <gtest/gtest.h>

#include "policy/numbers_fixture.h"

namespace kvkeep::policy {
namespace {

TEST(Turnover, ATierThatIsFilledAnewInAnHourForgetsSooner) {
  Turnover turnover;
  std::optional<std::int64_t> last;
  for (std::int64_t hour = 1; hour < 100; ++hour) {
    if (const auto changed = turnover.note_left(ByteCount{1'000}, ByteCount{1'000}, hour * kHourNs)) last = changed;
  }
  ASSERT_TRUE(last.has_value());
  EXPECT_EQ(*last, turnover.half_life_ns());
  EXPECT_LE(*last, half_life_for(2 * kHourNs));
  EXPECT_GE(*last, half_life_for(kHourNs / 2));
}

// A budget of nothing, nothing that left, a clock that went back or far ahead: always a half-life that is one.
TEST(Turnover, EveryBudgetAndClock) {
  for (const std::uint64_t limit : {0ULL, 1ULL, 3ULL, 4ULL, 1'000ULL, 1ULL << 60}) {
    for (const std::uint64_t bytes : {0ULL, 1ULL, 1'000ULL, 1ULL << 60}) {
      Turnover turnover;
      for (const std::int64_t now_ns : {std::int64_t{1}, 2'000'000 * kHourNs, -5 * kHourNs, std::int64_t{0}, kHourNs}) {
        (void)turnover.note_left(ByteCount{bytes}, ByteCount{limit}, now_ns);
        ASSERT_GE(turnover.half_life_ns(), half_life_for(0)) << limit << " " << bytes << " " << now_ns;
        ASSERT_LE(turnover.half_life_ns(), kLongestHalfLifeNs) << limit << " " << bytes << " " << now_ns;
      }
    }
  }
}

}  // namespace
}  // namespace kvkeep::policy
