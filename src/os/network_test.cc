#include "os/network.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>

namespace kvkeep::os {
namespace {

TEST(OwnAddresses, AreNumbersThatOthersCanUse) {
  bool wide_ones = false;
  for (const std::string& address : own_addresses()) {
    in_addr narrow{};
    in6_addr wide{};
    const bool is_narrow = ::inet_pton(AF_INET, address.c_str(), &narrow) == 1;
    EXPECT_TRUE(is_narrow || ::inet_pton(AF_INET6, address.c_str(), &wide) == 1) << address;
    EXPECT_FALSE(is_narrow && wide_ones) << "those of four bytes come first";
    wide_ones |= !is_narrow;
    EXPECT_FALSE(address.starts_with("127.") || address == "::1" || address.starts_with("fe80:")) << address;
  }
}

}  // namespace
}  // namespace kvkeep::os
