#include "os/process_io.h"

#include <gtest/gtest.h>

#include <fstream>

#include "os/process.h"
#include "os/temporary_directory.h"

namespace kvkeep::os {
namespace {

TEST(ProcessIoTest, CountsWhatAProcessWrites) {
  const TemporaryDirectory directory = TemporaryDirectory::make("kvkeep-io-").value();
  const auto before = bytes_written_by(process_id());
  ASSERT_TRUE(before.ok()) << before.error().message;
  constexpr std::size_t kBytes = 1'000'000;
  std::ofstream(directory.path() + "/file") << std::string(kBytes, 'x');
  const std::uint64_t written = bytes_written_by(process_id()).value() - *before;
  EXPECT_GE(written, kBytes);
  EXPECT_LT(written, 2 * kBytes);
}

TEST(ProcessIoTest, NoProcessIsNoFigure) {
  const auto written = bytes_written_by(-1);
  ASSERT_FALSE(written.ok());
  EXPECT_EQ(written.error().kind, ErrorKind::kUnsupported);
}

}  // namespace
}  // namespace kvkeep::os
