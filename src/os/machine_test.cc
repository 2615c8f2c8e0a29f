#include "os/machine.h"

#include <gtest/gtest.h>

namespace kvkeep::os {
namespace {

TEST(MachineInfoTest, SaysWhatItRunsOn) {
  const MachineInfo info = machine_info();
  EXPECT_GE(info.logical_cpus, 1U);
  EXPECT_GT(info.memory.value(), 16U << 20);
  EXPECT_EQ(info.processor.find_first_of("\n\t"), std::string::npos);
  EXPECT_EQ(info.system.find('"'), std::string::npos);
}

}  // namespace
}  // namespace kvkeep::os
