#include "server/http/origin_guard.h"

#include <gtest/gtest.h>

namespace kvkeep::server {
namespace {

OriginGuard guard(std::string bound, std::vector<std::string> hosts = {}, std::vector<std::string> origins = {}) {
  return OriginGuard::make({std::move(bound)}, hosts, std::move(origins)).value();
}

TEST(OriginGuard, LoopbackNamesPass) {
  const OriginGuard loopback = guard("127.0.0.1");
  for (const char* host :
       {"localhost", "LOCALHOST:8080", "127.0.0.1:8080", "127.9.8.7", "[::1]:8080", "a.localhost", "localhost.:80"}) {
    EXPECT_TRUE(loopback.host_allowed(host)) << host;
  }
}

TEST(OriginGuard, NamesThatAnAttackerCanPointAtLoopbackDoNot) {
  const OriginGuard loopback = guard("127.0.0.1");
  for (const char* host :
       {"evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "127.evil", "192.168.1.2", "127.0.0.256",
        "", "localhost:80:80", "[::1", "[localhost]", "xlocalhost", ":80"}) {
    EXPECT_FALSE(loopback.host_allowed(host)) << host;
  }
}

TEST(OriginGuard, BoundAndAllowedHostsPass) {
  const OriginGuard named = guard("box.lan", {"kv.example:8443"});
  EXPECT_TRUE(named.host_allowed("box.lan:8080"));
  EXPECT_TRUE(named.host_allowed("KV.example"));
  EXPECT_FALSE(named.host_allowed("other.example"));
}

TEST(OriginGuard, BoundToEveryInterfaceTakesLiteralAddressesOnly) {
  const OriginGuard everywhere = guard("0.0.0.0");
  EXPECT_TRUE(everywhere.host_allowed("192.168.1.2:8080"));
  EXPECT_TRUE(everywhere.host_allowed("[fe80::1]:8080"));
  EXPECT_FALSE(everywhere.host_allowed("evil.example"));
}

TEST(OriginGuard, EachBoundHostPassesAndOneWildcardIsEnough) {
  const OriginGuard two = OriginGuard::make({"box.lan", "10.0.0.7"}, {}, {}).value();
  EXPECT_TRUE(two.host_allowed("box.lan:8080"));
  EXPECT_TRUE(two.host_allowed("10.0.0.7:8080"));
  EXPECT_FALSE(two.host_allowed("10.0.0.8:8080"));
  const OriginGuard everywhere = OriginGuard::make({"/run/kvkeep.sock", "::"}, {}, {}).value();
  EXPECT_TRUE(everywhere.host_allowed("10.0.0.8:8080"));
  EXPECT_FALSE(everywhere.host_allowed("evil.example"));
}

TEST(OriginGuard, OriginMustBeOwnOrAllowed) {
  const OriginGuard loopback = guard("127.0.0.1", {}, {"http://localhost:3000"});
  EXPECT_TRUE(loopback.origin_allowed("", "localhost:8080"));
  EXPECT_TRUE(loopback.origin_allowed("http://localhost:8080", "localhost:8080"));
  EXPECT_TRUE(loopback.origin_allowed("http://localhost:3000", "localhost:8080"));
  for (const char* origin :
       {"null", "http://localhost:4000", "http://evil.example", "https://localhost:8080", "http://"}) {
    EXPECT_FALSE(loopback.origin_allowed(origin, "localhost:8080")) << origin;
  }
}

TEST(OriginGuard, LocalhostStandsForAllPagesOfTheClientsMachine) {
  const OriginGuard open = guard("127.0.0.1", {}, {"localhost", "https://chat.example"});
  for (const char* origin : {"http://localhost", "http://localhost:8080", "https://127.0.0.1", "http://127.0.0.1:3000",
                             "http://[::1]", "http://[::1]:3000", "http://app.localhost", "https://chat.example"}) {
    EXPECT_TRUE(open.origin_allowed(origin, "localhost:8080")) << origin;
  }
  for (const char* origin : {"null", "file://localhost", "http://localhost.evil.example", "http://notlocalhost",
                             "http://evil.example", "http://127.0.0.1.evil.example", "localhost", "http://"}) {
    EXPECT_FALSE(open.origin_allowed(origin, "localhost:8080")) << origin;
  }
}

TEST(OriginGuard, WildcardsAndMalformedEntriesAreRefused) {
  for (const char* host : {"*", "*.example", "", "a b:c"})
    EXPECT_FALSE(OriginGuard::make({"127.0.0.1"}, {host}, {})) << host;
  for (const char* origin : {"*", "localhost:3000", "http://", "http://*.example", "http://a/b"}) {
    EXPECT_FALSE(OriginGuard::make({"127.0.0.1"}, {}, {origin})) << origin;
  }
}

}  // namespace
}  // namespace kvkeep::server
