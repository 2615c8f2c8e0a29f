// Slices of prompts with pictures and sounds: a chunk goes into one slice, and one that is being encoded into none.

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
ScheduledRequest at_picture(std::size_t tokens) {
  ScheduledRequest request = begun(1);
  request.at_once = tokens;
  return request;
}
ScheduledRequest unready(ScheduledRequest request) {
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

TEST(NextSlice, HasAllOfAPictureWhateverTheLimits) {
  EXPECT_EQ(slice_of({at_picture(19)}, kSliceLimits), "19 of 0");
  EXPECT_EQ(slice_of({at_picture(19), unready(at_picture(3))}, kSliceLimits), "19 of 0")
      << "somebody waits for its end";
  CallLimits pinned = kSliceLimits;
  pinned.pinned_tokens = 4;
  EXPECT_EQ(slice_of({at_picture(7)}, pinned), "7 of 0");
}

TEST(NextSlice, IsOfNoneThatWaitsForItsPicture) {
  EXPECT_EQ(slice_of({unready(at_picture(19))}, kSliceLimits), "none");
  EXPECT_EQ(slice_of({unready(at_picture(3)), begun(0)}, kSliceLimits), "8 of 1") << "though it has less to do";
  ScheduledRequest passed = unready(at_picture(3));
  passed.passed = kMostPassed;
  EXPECT_EQ(slice_of({passed, begun(0)}, kSliceLimits), "8 of 1") << "though others went first often enough";
}

}  // namespace
}  // namespace kvkeep::policy
