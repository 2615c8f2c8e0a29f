#include "bench/run/memory_state.h"

#include <gtest/gtest.h>

namespace kvkeep::bench {
namespace {

constexpr char kSliceable[] =
    "[info] memory class sliceable: rows [a, b) are all of it\n[info] state: 6156 bytes of rows per token\n";
constexpr char kWindowed[] =
    "[info] memory class windowed: windows\n[info] state: 152 bytes of rows per token, 690 of window rows\n";
constexpr char kHybrid[] =
    "[info] memory class hybrid: rows and a point\n[info] state: 512 bytes of rows per token, 0.3 MiB per point\n";
constexpr char kRecurrent[] =
    "[info] memory class recurrent: points\n[info] state: 0 bytes of rows per token, 18.5 MiB per point\n";
// A whole state grows: its size is not in the log.
constexpr char kOpaque[] = "[info] memory class opaque: whole states\n[info] state: 0 bytes of rows per token\n";
constexpr char kUncached[] = "[warning] this model is served without a prefix cache: an encoder\n";

TEST(MemoryStateTest, TheLogSaysWhatThereIs) {
  EXPECT_EQ(memory_state_of(kSliceable).memory_class, "sliceable");
  EXPECT_EQ(memory_state_of(kSliceable).row_bytes_per_token, 6156U);
  EXPECT_EQ(memory_state_of(kSliceable).window_bytes_per_token, 0U);
  EXPECT_FALSE(memory_state_of(kSliceable).has_points);
  EXPECT_EQ(memory_state_of(kWindowed).row_bytes_per_token, 152U);
  EXPECT_EQ(memory_state_of(kWindowed).window_bytes_per_token, 690U);
  EXPECT_EQ(memory_state_of(kHybrid).row_bytes_per_token, 512U);
  EXPECT_TRUE(memory_state_of(kHybrid).has_points);
  EXPECT_EQ(memory_state_of(kRecurrent).row_bytes_per_token, 0U);
  EXPECT_TRUE(memory_state_of(kRecurrent).is_known());
  EXPECT_TRUE(memory_state_of(kOpaque).is_known());
  EXPECT_TRUE(memory_state_of(kOpaque).has_points);
}

TEST(MemoryStateTest, ALogThatSaysNothingIsNoClass) {
  for (const char* log : {"", " bytes of rows per token", "bytes of rows per token", "x bytes of rows per token"}) {
    EXPECT_FALSE(memory_state_of(log).is_known()) << log;
    EXPECT_EQ(memory_state_of(log).memory_class, "");
  }
}

TEST(MemoryStateTest, TheBoundGoesByWhatCanBeRestored) {
  Workload workload;
  EXPECT_EQ(ratio_bound(memory_state_of(kSliceable), workload), kRatioBound);
  EXPECT_EQ(ratio_bound(memory_state_of(kWindowed), workload), kRatioBound);
  EXPECT_EQ(ratio_bound(memory_state_of(kHybrid), workload), kPointRatioBound);
  EXPECT_EQ(ratio_bound(memory_state_of(kRecurrent), workload), kPointRatioBound);
  EXPECT_EQ(ratio_bound(memory_state_of(kOpaque), workload), kPointRatioBound);
  EXPECT_EQ(ratio_bound(memory_state_of(kUncached), workload), std::nullopt);
  EXPECT_EQ(ratio_bound(memory_state_of(""), workload), kRatioBound);
}

TEST(MemoryStateTest, AWorkloadsOwnBoundIsOnlyForPoints) {
  Workload workload;
  workload.point_bound = 1.08;
  EXPECT_EQ(ratio_bound(memory_state_of(kHybrid), workload), 1.08);
  EXPECT_EQ(ratio_bound(memory_state_of(kWindowed), workload), kRatioBound);
}

}  // namespace
}  // namespace kvkeep::bench
