#include <gtest/gtest.h>

#include "policy/cut.h"

namespace kvkeep::policy {
namespace {

TEST(WholeCaptureStride, AllCapturesTogetherCopyABoundedMultiple) {
  for (std::size_t least = 1; least <= 600; least = least * 3 + 1) {
    for (std::size_t most_copies = 2; most_copies <= 17; ++most_copies) {
      std::size_t copied = 0;
      for (std::size_t at = whole_capture_stride(0, least, most_copies); at < 20'000;) {
        copied += at;
        ASSERT_LE(copied, most_copies * at) << least << " " << most_copies;
        const std::size_t stride = whole_capture_stride(at, least, most_copies);
        ASSERT_GE(stride, least);
        ASSERT_LE(stride, std::max(least, at / (most_copies - 1) + 1)) << "no more is lost in a crash than needed";
        at += stride;
      }
    }
  }
}

}  // namespace
}  // namespace kvkeep::policy
