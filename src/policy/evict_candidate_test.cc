#include "policy/evict_candidate.h"

#include <gtest/gtest.h>

#include "policy/numbers_fixture.h"

namespace kvkeep::policy {
namespace {

constexpr std::int64_t kNowNs = 1000 * kHourNs;

TEST(Expire, EveryHourOfUseAndKeeping) {
  for (std::int64_t used = -50; used <= 50; ++used) {
    for (std::int64_t kept = -50; kept <= 50; ++kept) {
      const Lifetime known{kNowNs + used * kHourNs, kNowNs + kept * kHourNs};
      const bool asked_for = kept > 0 && kept <= 24;  // no request can ask for more than a day
      EXPECT_EQ(expired(known, kNowNs, 10 * kHourNs), used <= -10 && !asked_for) << used << " " << kept;
      EXPECT_FALSE(expired(known, kNowNs, 0)) << "no time to live";
    }
  }
}

TEST(Expire, NoRequestAskedForItToStay) { EXPECT_TRUE(expired({kNowNs - kHourNs, 0}, kNowNs, kHourNs)); }

}  // namespace
}  // namespace kvkeep::policy
