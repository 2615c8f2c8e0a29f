#include "server/api/monitoring.h"

#include <gtest/gtest.h>

namespace kvkeep::server::api {
namespace {

TEST(MetricsText, IsPrometheusText) {
  const Metric metrics[] = {
      {Metric::Kind::kCounter, "a_total", "Counts.", {{"", 3}}},
      {Metric::Kind::kGauge, "b", "Holds.", {{"tier=\"ram\"", 0.5}, {"tier=\"disk\"", 12345678901}}},
  };
  EXPECT_EQ(metrics_text(metrics),
            "# HELP a_total Counts.\n# TYPE a_total counter\na_total 3\n"
            "# HELP b Holds.\n# TYPE b gauge\nb{tier=\"ram\"} 0.5\nb{tier=\"disk\"} 12345678901\n");
}

TEST(MetricsText, CountsOfAHistogramAreSumsUpToEachBound) {
  const double bounds[] = {0.5, 60};
  const std::uint64_t counts[] = {2, 0, 3};
  Metric metric{Metric::Kind::kHistogram, "c_seconds", "Takes.", {}};
  metric.add_histogram("", bounds, counts, 200.5);
  metric.add_histogram("tier=\"ram\"", bounds, std::vector<std::uint64_t>{0, 1, 0}, 3);
  EXPECT_EQ(
      metrics_text({&metric, 1}),
      "# HELP c_seconds Takes.\n# TYPE c_seconds histogram\n"
      "c_seconds_bucket{le=\"0.5\"} 2\nc_seconds_bucket{le=\"60\"} 2\nc_seconds_bucket{le=\"+Inf\"} 5\n"
      "c_seconds_sum 200.5\nc_seconds_count 5\n"
      "c_seconds_bucket{tier=\"ram\",le=\"0.5\"} 0\nc_seconds_bucket{tier=\"ram\",le=\"60\"} 1\n"
      "c_seconds_bucket{tier=\"ram\",le=\"+Inf\"} 1\nc_seconds_sum{tier=\"ram\"} 3\nc_seconds_count{tier=\"ram\"} 1\n");
}

TEST(SlotsReply, ShowsTheLastRequestOfAPlace) {
  Slot slot{.id = 1, .context_tokens = 256, .is_processing = true};
  EXPECT_EQ(Json::parse(slots_reply({&slot, 1})),
            Json::parse(R"([{"id": 1, "n_ctx": 256, "speculative": false, "is_processing": true}])"));
  slot.task = 4;
  slot.prompt_tokens = 10;
  slot.prefilled_tokens = 3;
  slot.cached_tokens = 7;
  slot.predicted_tokens = 2;
  slot.memory_tokens = 5;
  slot.preemptions = 6;
  slot.state = "prefilling";
  slot.waits_for = "turn";
  slot.waited_ms = {{"place", 1.25}, {"turn", 0}};
  slot.sampling.top_k = 9;
  Json shown = Json::parse(slots_reply({&slot, 1}))[0];
  EXPECT_EQ(shown["id_task"], 4);
  EXPECT_EQ(shown["n_prompt_tokens"], 10);
  EXPECT_EQ(shown["n_prompt_tokens_processed"], 3);
  EXPECT_EQ(shown["n_prompt_tokens_cache"], 7);
  EXPECT_EQ(shown["n_prompt_tokens_memory"], 5);
  EXPECT_EQ(shown["n_preempted"], 6);
  EXPECT_EQ(shown["state"], "prefilling");
  EXPECT_EQ(shown["waits_for"], "turn");
  EXPECT_EQ(shown["waited_ms"], Json::parse(R"({"place": 1.25, "turn": 0})"));
  EXPECT_EQ(shown["params"]["top_k"], 9);
  EXPECT_FALSE(shown["params"].contains("stop")) << "it is a text of the request";
  EXPECT_EQ(shown["next_token"][0]["n_remain"], -1);
  slot.max_tokens = 5;
  slot.waits_for = "";
  shown = Json::parse(slots_reply({&slot, 1}))[0];
  EXPECT_EQ(shown["next_token"][0]["n_decoded"], 2);
  EXPECT_EQ(shown["next_token"][0]["n_remain"], 3);
  EXPECT_TRUE(shown["waits_for"].is_null());
  EXPECT_EQ(slots_reply({}), "[]");
}

TEST(ChangeProps, NothingCanBeChanged) {
  for (const char* body : {"", "{}", " { } "}) EXPECT_EQ(change_props_reply(body).value(), R"({"success":true})");
  for (const char* body : {R"({"a": null})", R"({"a": 1})"}) {
    EXPECT_EQ(change_props_reply(body).error().message,
              "'a' cannot be changed while serving, nor can any other property");
  }
  for (const char* body : {"[]", "nonsense", "1"}) EXPECT_FALSE(change_props_reply(body)) << body;
}

}  // namespace
}  // namespace kvkeep::server::api
