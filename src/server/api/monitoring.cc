#include "server/api/monitoring.h"

#include <fmt/format.h>

#include <cmath>

#include "server/api/native_completion.h"

namespace kvkeep::server::api {
namespace {

Json slot_json(const Slot& slot) {
  Json json = {
      {"id", slot.id},
      {"n_ctx", slot.context_tokens},
      {"speculative", false},
      {"is_processing", slot.is_processing},
  };
  if (slot.task == 0) return json;
  const auto predicted = static_cast<std::int64_t>(slot.predicted_tokens);
  json["id_task"] = slot.task;
  json["n_prompt_tokens"] = slot.prompt_tokens;
  json["n_prompt_tokens_processed"] = slot.prefilled_tokens;
  json["n_prompt_tokens_cache"] = slot.cached_tokens;
  json["n_prompt_tokens_memory"] = slot.memory_tokens;
  json["state"] = slot.state;
  json["waits_for"] = slot.waits_for.empty() ? Json(nullptr) : Json(slot.waits_for);
  json["waited_ms"] = Json::object();
  for (const auto& [cause, ms] : slot.waited_ms) json["waited_ms"][std::string(cause)] = std::round(ms * 1e3) / 1e3;
  json["n_preempted"] = slot.preemptions;
  json["params"] = sampling_json(slot.sampling, slot.max_tokens);
  json["next_token"] = Json::array({{
      {"has_next_token", slot.is_processing},
      {"n_remain", slot.max_tokens ? *slot.max_tokens - predicted : -1},
      {"n_decoded", predicted},
  }});
  return json;
}

const char* kind_name(Metric::Kind kind) {
  switch (kind) {
    case Metric::Kind::kCounter: return "counter";
    case Metric::Kind::kGauge: return "gauge";
    case Metric::Kind::kHistogram: return "histogram";
  }
  return "untyped";
}

}  // namespace

void Metric::add_histogram(const std::string& labels, std::span<const double> bounds,
                           std::span<const std::uint64_t> counts, double sum) {
  const std::string before = labels.empty() ? labels : labels + ",";
  double up_to = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    up_to += static_cast<double>(counts[i]);
    const std::string bound = i < bounds.size() ? fmt::format("{}", bounds[i]) : "+Inf";
    samples.push_back({fmt::format("{}le=\"{}\"", before, bound), up_to, "_bucket"});
  }
  samples.push_back({labels, sum, "_sum"});
  samples.push_back({labels, up_to, "_count"});
}

std::string metrics_text(std::span<const Metric> metrics) {
  std::string text;
  for (const Metric& metric : metrics) {
    text += fmt::format("# HELP {0} {1}\n# TYPE {0} {2}\n", metric.name, metric.help, kind_name(metric.kind));
    for (const Metric::Sample& sample : metric.samples) {
      const std::string labels = sample.labels.empty() ? "" : "{" + sample.labels + "}";
      text += fmt::format("{}{}{} {}\n", metric.name, sample.suffix, labels, sample.value);
    }
  }
  return text;
}

std::string slots_reply(std::span<const Slot> slots) {
  Json json = Json::array();
  for (const Slot& slot : slots) json.push_back(slot_json(slot));
  return to_line(json);
}

Result<std::string> change_props_reply(std::string body) {
  if (body.empty()) body = "{}";
  TRY_ASSIGN(const Json json, parse_body(std::move(body)));
  if (!json.empty()) {
    return invalid(fmt::format("'{}' cannot be changed while serving, nor can any other property", json.begin().key()));
  }
  return to_line({{"success", true}});
}

}  // namespace kvkeep::server::api
