#include "server/http/remote_file.h"

#include <gtest/gtest.h>

#include <string>

namespace kvkeep::server {
namespace {

TEST(RemoteHosts, AreReadFromAList) {
  const auto hosts = parse_remote_hosts("Example.com,*.images.org,10.0.0.1:8080,[2001:db8::1]:81,[::1],*");
  ASSERT_TRUE(hosts.ok());
  std::string shown;
  for (const RemoteHost& host : *hosts) shown += host.name + "|" + host.port + " ";
  EXPECT_EQ(shown, "example.com| *.images.org| 10.0.0.1|8080 2001:db8::1|81 ::1| *| ");
  EXPECT_TRUE(parse_remote_hosts("")->empty());
  for (const char* wrong : {",", "a,", "a,,b", "a:", "a:x", "a:123456", "http://a", "a/b", "a b", "*.", "a*", "[::1",
                            "[]", "[::1]x", "[a.b]:x", "*:x"}) {
    EXPECT_FALSE(parse_remote_hosts(wrong).ok()) << wrong;
  }
}

TEST(RemoteHosts, AreFoundByNameAndPort) {
  const auto hosts = parse_remote_hosts("example.com,*.images.org,10.0.0.1:8080");
  for (const auto& [name, port] : {std::pair{"example.com", ""},
                                   {"EXAMPLE.com", "443"},
                                   {"example.com", "80"},
                                   {"a.images.org", ""},
                                   {"a.b.images.org", ""},
                                   {"10.0.0.1", "8080"}}) {
    EXPECT_TRUE(is_listed(*hosts, name, port)) << name;
  }
  for (const auto& [name, port] : {std::pair{"example.com", "8080"},
                                   {"an-example.com", ""},
                                   {"example.com.evil.net", ""},
                                   {"images.org", ""},
                                   {"evilimages.org", ""},
                                   {"10.0.0.1", ""},
                                   {"10.0.0.1", "80"},
                                   {"", ""}}) {
    EXPECT_FALSE(is_listed(*hosts, name, port)) << name << " " << port;
  }
  const auto all = parse_remote_hosts("*");
  EXPECT_TRUE(is_listed(*all, "anything.net", ""));
  EXPECT_FALSE(is_listed(*all, "anything.net", "22"));
}

TEST(RemoteHosts, UrlsInTheListAreRefusedWithTheHostToWrite) {
  const auto refusal = [](std::string_view list) { return parse_remote_hosts(list).error().message; };
  EXPECT_EQ(refusal("http://example.com/"),
            "'http://example.com/' is no host: leave out 'http://' and the path, as in 'example.com'");
  EXPECT_EQ(refusal("a,https://b.org"), "'https://b.org' is no host: leave out 'https://' and the path, as in 'b.org'");
  EXPECT_EQ(refusal("b.org:81/pictures"), "'b.org:81/pictures' is no host: leave out the path, as in 'b.org:81'");
}

TEST(RemoteHosts, APortThatIsNotListedIsTheReason) {
  const auto hosts = parse_remote_hosts("example.com,10.0.0.1:8080");
  EXPECT_EQ(reason_not_listed(*hosts, "other.com", "81"), "a host that is not in the server's --allow-remote-media");
  EXPECT_EQ(reason_not_listed(*hosts, "Example.com", "81"),
            "a port (81) that is not in the server's --allow-remote-media, where a host without a port stands for 80 "
            "and 443");
  EXPECT_EQ(reason_not_listed(*hosts, "10.0.0.1", "").substr(0, 18), "a port (80 or 443)");
  EXPECT_EQ(reason_not_listed(*parse_remote_hosts("*"), "any.org", "8000").substr(0, 13), "a port (8000)");
}

TEST(RemoteAddresses, OfThisMachineOrNetworkAreNotPublic) {
  for (const char* closed : {"0.0.0.0",
                             "0.1.2.3",
                             "10.1.2.3",
                             "100.64.0.1",
                             "100.127.255.255",
                             "127.0.0.1",
                             "127.255.255.255",
                             "169.254.169.254",
                             "172.16.0.1",
                             "172.31.255.255",
                             "192.0.0.1",
                             "192.0.2.1",
                             "192.88.99.1",
                             "192.168.0.1",
                             "198.18.0.1",
                             "198.19.255.255",
                             "198.51.100.1",
                             "203.0.113.1",
                             "224.0.0.1",
                             "239.1.1.1",
                             "240.0.0.1",
                             "255.255.255.255",
                             "::",
                             "::1",
                             "::127.0.0.1",
                             "::ffff:10.0.0.1",
                             "::ffff:169.254.169.254",
                             "64:ff9b::10.0.0.1",
                             "64:ff9b:1::1",
                             "100::1",
                             "fc00::1",
                             "fd12::1",
                             "fe80::1",
                             "fec0::1",
                             "ff02::1",
                             "2001::1",
                             "2001:db8::1",
                             "2002:7f00:1::",
                             "2002:c0a8:1::",
                             "3fff::1",
                             "nonsense",
                             ""}) {
    EXPECT_FALSE(is_public_address(closed)) << closed;
  }
  for (const char* open :
       {"1.1.1.1", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.1.1.1", "128.0.0.1",
        "172.15.255.255", "172.32.0.0", "192.167.1.1", "223.255.255.255", "2606:4700::1111", "2a00:1450::1",
        "2001:4860::8888", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8", "2002:808:808::1"}) {
    EXPECT_TRUE(is_public_address(open)) << open;
  }
}

TEST(RemoteFiles, ThatTheRulesRefuseAreNotAskedFor) {
  RemoteRules rules;
  rules.hosts = parse_remote_hosts("localhost:1,127.0.0.1:1,*").value();
  const auto refusal = [&](const std::string& url) {
    const auto got = fetch_remote(url, rules);
    return got ? "" : got.error().message;
  };
  EXPECT_EQ(refusal("ftp://localhost/a"), "it is no http: or https: URL");
  EXPECT_EQ(refusal("http://user:word@localhost:1/"), "it is no http: or https: URL");
  EXPECT_EQ(refusal("nonsense"), "it is no http: or https: URL");
  EXPECT_EQ(refusal("http://localhost:2/"), "it names " + reason_not_listed(rules.hosts, "localhost", "2"));
  EXPECT_EQ(refusal("http://localhost:1/"), "its host is at a private address")
      << "its name is listed, its address is not";
  EXPECT_EQ(refusal("http://127.0.0.2/"), "its host is at a private address") << "all hosts are listed, but no address";
  EXPECT_EQ(refusal("http://2130706434/"), "its host is at a private address") << "another spelling";
  EXPECT_EQ(refusal("http://[::1]/"), "its host is at a private address");
  for (const char* other_port : {"http://127.0.0.1/", "https://127.0.0.1/", "http://127.0.0.1:443/"}) {
    EXPECT_EQ(refusal(other_port), "its host is at a private address") << "its address is listed with port 1 only";
  }
  EXPECT_NE(refusal("http://127.0.0.1:1/").find("cannot be fetched"), std::string::npos)
      << "listed, but nobody listens";
}

}  // namespace
}  // namespace kvkeep::server
