// Slices of prompts with pictures and sounds: one that is being encoded goes into none.

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "policy/next_call.h"

namespace kvkeep::policy {
namespace {

ScheduledRequest begun(std::size_t held) {
  return {.phase = ScheduledRequest::Phase::kPrefill, .tokens = 20, .held = held};
}
ScheduledRequest unready() {
  ScheduledRequest request = begun(17);
  request.encodes = true;
  return request;
}

std::string slice_of(const std::vector<ScheduledRequest>& admitted, const CallLimits& limits) {
  ScheduleView view;
  view.limits = limits;
  view.admitted = admitted;
  const std::optional<NextSlice> slice = next_slice(view);
  return slice ? std::to_string(slice->tokens) + " of " + std::to_string(slice->at) : "none";
}

constexpr CallLimits kSliceLimits{
    .batch_tokens = 18, .shared_slice_tokens = 8, .own_slice_tokens = 16, .ahead_slice_tokens = 4};

TEST(NextSlice, IsOfNoneThatWaitsForItsPicture) {
  EXPECT_EQ(slice_of({unready()}, kSliceLimits), "none");
  EXPECT_EQ(slice_of({unready(), begun(0)}, kSliceLimits), "8 of 1") << "though it has less to do";
  ScheduledRequest passed = unready();
  passed.passed = kMostPassed;
  EXPECT_EQ(slice_of({passed, begun(0)}, kSliceLimits), "8 of 1") << "though others went first often enough";
}

}  // namespace
}  // namespace kvkeep::policy
