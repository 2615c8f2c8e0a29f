#pragma once

// Replies for monitors and launchers, under llama-server's names: GET /metrics, GET /slots and POST /props.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "engine/sampling.h"
#include "server/api/json_body.h"

namespace kvkeep::server::api {

// The paths at which Google's Vertex AI asks.
struct VertexPaths {
  std::string predict;
  std::string health;
};

// Routes that the operator may turn on and off.
struct Endpoints {
  bool metrics = true;
  bool slots = true;
  bool cache = true;                       // /cache and all paths below it
  bool props = false;                      // POST /props
  std::optional<VertexPaths> vertex = {};  // empty: POST /predict is not served
};

// A metric of Prometheus's text format.
struct Metric {
  enum class Kind : std::uint8_t { kCounter, kGauge, kHistogram } kind = Kind::kGauge;
  struct Sample {
    std::string labels = {};  // as they are written: 'tier="ram"', or ""
    double value = 0;
    std::string suffix = {};  // of the metric's name, in a histogram
  };
  std::string name;
  std::string help;  // one line, without backslashes
  std::vector<Sample> samples;

  // Adds the samples of a histogram: for each bound the values up to it, their sum and their number. `counts` are those
  // of the single ranges, one more than `bounds`.
  void add_histogram(const std::string& labels, std::span<const double> bounds, std::span<const std::uint64_t> counts,
                     double sum);
};
inline constexpr const char* kMetricsContentType = "text/plain; version=0.0.4";
std::string metrics_text(std::span<const Metric> metrics);

// A place at which requests run, as llama-server shows its slots: without prompts and texts.
struct Slot {
  std::size_t id = 0;
  std::size_t context_tokens = 0;
  bool is_processing = false;
  std::string_view state = "idle";
  // The request that runs there or ran there last; 0: none did, and the rest means nothing.
  std::uint64_t task = 0;
  std::size_t prompt_tokens = 0;
  std::size_t prefilled_tokens = 0;
  std::size_t cached_tokens = 0;
  std::size_t memory_tokens = 0;  // of these, in cells that another conversation had or has
  std::size_t predicted_tokens = 0;
  std::size_t preemptions = 0;                                      // of its prefill, by another's
  std::string_view waits_for = {};                                  // "": it does not wait now
  std::vector<std::pair<std::string_view, double>> waited_ms = {};  // by cause
  std::optional<std::int64_t> max_tokens = {};
  engine::SamplingParams sampling = {};
};
std::string slots_reply(std::span<const Slot> slots);

// Answers POST /props. No property can be changed while serving: kInvalid if the body names one.
Result<std::string> change_props_reply(std::string body);

}  // namespace kvkeep::server::api
