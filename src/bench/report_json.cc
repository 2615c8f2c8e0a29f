#include <nlohmann/json.hpp>

#include "bench/report.h"
#include "bench/report_fields.h"
#include "bench/report_summary.h"

namespace kvkeep::bench {
namespace {

using Json = nlohmann::ordered_json;

struct Writer {
  static Json of(const std::string& text) { return text; }
  static Json of(double value) { return value; }  // written as null if it is not finite
  static Json of(std::integral auto value) { return value; }
  static Json of(CountedBy counted_by) { return counted_by == CountedBy::kEngine ? "engine" : "reply"; }

  template <typename Value>
  static Json of(const std::optional<Value>& value) {
    return value ? of(*value) : Json(nullptr);
  }

  template <typename Value>
  static Json of(const std::vector<Value>& values) {
    Json array = Json::array();
    for (const Value& value : values) array.push_back(of(value));
    return array;
  }

  template <typename Figures>
    requires std::is_class_v<Figures>
  static Json of(const Figures& figures) {
    Json object = Json::object();
    each_field(figures, [&](const char* key, const auto& value) { object[key] = of(value); });
    if constexpr (std::same_as<Figures, RunFigures>) object["totals"] = totals(figures);
    return object;
  }

  // For programs that want no sums of their own; the reader computes them again.
  static Json totals(const RunFigures& run) {
    const std::optional<Quartiles> ttft_ms = summary_of(run).ttft_ms;
    return {
        {"requests", run.requests.size()},
        {"prompt_tokens", run.prompt_tokens()},
        {"prefilled_tokens", run.prefilled_tokens()},
        {"ideal_tokens", run.ideal_tokens()},
        {"ratio", of(run.ratio())},
        {"ttft_ms",
         ttft_ms ? Json{{"low_quartile", ttft_ms->low}, {"median", ttft_ms->median}, {"high_quartile", ttft_ms->high}}
                 : Json(nullptr)}};
  }
};

}  // namespace

std::string to_json(const Report& report) {
  Json json = {{"format", kReportFormat}, {"version", kReportVersion}};
  json.update(Writer::of(report));
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace kvkeep::bench
