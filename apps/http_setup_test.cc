#include "http_setup.h"

#include <gtest/gtest.h>

namespace kvkeep::cli {
namespace {

using Urls = std::vector<std::string>;
using Places = std::vector<server::ListeningPlace>;

const Urls kOwn = {"192.168.1.5", "10.0.0.7", "2001:db8::1"};

TEST(Reach, AnAddressIsItsOwnUrl) {
  for (const auto& [place, url] : std::vector<std::pair<server::ListeningPlace, std::string>>{
           {{.host = "127.0.0.1", .port = 8080}, "http://127.0.0.1:8080"},
           {{.host = "box.lan", .port = 80}, "http://box.lan:80"},
           {{.host = "::1", .port = 8080}, "http://[::1]:8080"}}) {
    const Reach reach = reach_of({place}, kOwn);
    EXPECT_EQ(reach.urls, Urls{url});
    EXPECT_EQ(reach.wide_urls, Urls{});
  }
}

TEST(Reach, EveryInterfaceMeansTheMachinesAddresses) {
  const Reach narrow = reach_of({{.host = "0.0.0.0", .port = 8080}}, kOwn);
  EXPECT_EQ(narrow.urls, Urls{"http://127.0.0.1:8080"});
  EXPECT_EQ(narrow.wide_urls, (Urls{"http://192.168.1.5:8080", "http://10.0.0.7:8080"}));
  const Reach wide = reach_of({{.host = "::", .port = 8080}}, kOwn);
  EXPECT_EQ(wide.urls, (Urls{"http://[::1]:8080", "http://127.0.0.1:8080"}));
  EXPECT_EQ(wide.wide_urls, (Urls{"http://192.168.1.5:8080", "http://10.0.0.7:8080", "http://[2001:db8::1]:8080"}));
  EXPECT_EQ(reach_of({{.host = "0.0.0.0", .port = 8080}}, {}).wide_urls, Urls{});
}

TEST(Reach, NamesAllPlaces) {
  const Places places = {{.path = "/run/a.sock"}, {.host = "10.0.0.7", .port = 1}, {.host = "::1", .port = 1}};
  const Reach reach = reach_of(places, kOwn);
  EXPECT_EQ(reach.urls, (Urls{"http://10.0.0.7:1", "http://[::1]:1"}));
  EXPECT_EQ(reach.socket_paths, Urls{"/run/a.sock"});
}

TEST(Vertex, ItsVariablesNamePathsAndThePort) {
  ServeOptions options;
  ASSERT_TRUE(obey_vertex({{"AIP_MODE", "PREDICTION"},
                           {"AIP_PREDICT_ROUTE", "/v1/endpoints/1:predict"},
                           {"AIP_HEALTH_ROUTE", "/alive"},
                           {"AIP_HTTP_PORT", "9000"}},
                          options)
                  .ok());
  ASSERT_TRUE(options.endpoints.vertex);
  EXPECT_EQ(options.endpoints.vertex->predict, "/v1/endpoints/1:predict");
  EXPECT_EQ(options.endpoints.vertex->health, "/alive");
  EXPECT_EQ(options.http.port, 9000);
  EXPECT_TRUE(options.names_port);
}

TEST(Vertex, DefaultsAndMistakes) {
  ServeOptions options;
  ASSERT_TRUE(obey_vertex({{"AIP_MODE", "PREDICTION"}, {"AIP_PREDICT_ROUTE", ""}}, options).ok());
  EXPECT_EQ(options.endpoints.vertex->predict, "/predict");
  EXPECT_EQ(options.endpoints.vertex->health, "/health");
  EXPECT_EQ(options.http.port, ServeOptions().http.port);
  EXPECT_FALSE(obey_vertex({{"AIP_MODE", "PREDICTION"}, {"AIP_HTTP_PORT", "x"}}, options).ok());
  EXPECT_FALSE(obey_vertex({{"AIP_MODE", "PREDICTION"}, {"AIP_HEALTH_ROUTE", "alive"}}, options).ok());
}

TEST(Vertex, WithoutTheModeNothingChanges) {
  for (const os::Environment& environment :
       {os::Environment{{"AIP_HTTP_PORT", "9000"}}, os::Environment{{"AIP_MODE", "TRAINING"}}}) {
    ServeOptions options;
    EXPECT_TRUE(obey_vertex(environment, options).ok());
    EXPECT_FALSE(options.endpoints.vertex);
    EXPECT_EQ(options.http.port, ServeOptions().http.port);
  }
}

}  // namespace
}  // namespace kvkeep::cli
