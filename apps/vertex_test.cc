#include "vertex.h"

#include <gtest/gtest.h>

namespace kvkeep::cli {
namespace {

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
