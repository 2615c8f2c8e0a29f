#include "http_setup.h"

#include <gtest/gtest.h>

namespace kvkeep::cli {
namespace {

using Urls = std::vector<std::string>;

TEST(ServedUrls, AreOnesThatClientsCanUse) {
  const Urls own = {"192.168.1.5", "10.0.0.7", "2001:db8::1"};
  EXPECT_EQ(served_urls("127.0.0.1", 8080, own), Urls{"http://127.0.0.1:8080"});
  EXPECT_EQ(served_urls("box.lan", 80, own), Urls{"http://box.lan:80"});
  EXPECT_EQ(served_urls("::1", 8080, own), Urls{"http://[::1]:8080"});
  EXPECT_EQ(served_urls("0.0.0.0", 8080, own),
            (Urls{"http://127.0.0.1:8080", "http://192.168.1.5:8080", "http://10.0.0.7:8080"}));
  EXPECT_EQ(served_urls("::", 8080, own), (Urls{"http://[::1]:8080", "http://[2001:db8::1]:8080"}));
  EXPECT_EQ(served_urls("0.0.0.0", 8080, {}), Urls{"http://127.0.0.1:8080"});
}

}  // namespace
}  // namespace kvkeep::cli
