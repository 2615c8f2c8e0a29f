// The fields that choose the samplers of a request and their parameters: the numbers of engine/sampling_settings.h, the
// order of the samplers, and DRY's sequence breakers.

#include <fmt/format.h>

#include <string>

#include "engine/sampler_order.h"
#include "engine/sampling_settings.h"
#include "server/api/generation_fields.h"

namespace kvkeep::server::api {
namespace {

using engine::kRealSettings;
using engine::kWholeSettings;

constexpr std::string_view kOrderField = "samplers";
constexpr std::string_view kBreakersField = "dry_sequence_breakers";

Status read_setting(const Json& body, const engine::SamplingSetting<float>& setting, engine::SamplingParams& sampling) {
  return read_number(body, setting.name, sampling.*setting.member, setting.least, setting.most);
}

Status read_setting(const Json& body, const engine::SamplingSetting<std::int32_t>& setting,
                    engine::SamplingParams& sampling) {
  std::int64_t value = sampling.*setting.member;
  TRY(read_integer(body, setting.name, value, static_cast<std::int64_t>(setting.least),
                   static_cast<std::int64_t>(setting.most)));
  sampling.*setting.member = static_cast<std::int32_t>(value);
  return {};
}

Result<std::vector<std::string>> read_texts(const Json& array, std::string_view name) {
  std::vector<std::string> texts;
  for (const Json& element : array) {
    if (!element.is_string()) return wrong_type(name, "made of strings", element);
    texts.push_back(element.get<std::string>());
  }
  return texts;
}

Error about(std::string_view name, const Error& error) {
  return {error.kind, fmt::format("'{}': {}", name, error.message)};
}

// Names the field in an error.
Result<engine::SamplerOrder> order_in(std::string_view name, Result<engine::SamplerOrder> order) {
  return order ? std::move(order) : Result<engine::SamplerOrder>(about(name, order.error()));
}

Result<engine::SamplerOrder> read_order(const Json& value) {
  if (value.is_string()) {
    return order_in(kOrderField, engine::parse_sampler_letters(value.get_ref<const std::string&>()));
  }
  std::vector<std::string> names(value.size());
  // More names than steps are allowed are not even copied.
  if (value.size() <= engine::kMostSamplerSteps) {
    TRY_ASSIGN(names, read_texts(value, kOrderField));
  }
  return order_in(kOrderField, engine::sampler_order_of(names));
}

Status read_samplers(const Json& body, engine::SamplingParams& sampling) {
  const Json* value = field(body, kOrderField);
  if (value == nullptr) return {};
  if (!value->is_array() && !value->is_string()) {
    return wrong_type(kOrderField, "an array of names or a string of letters", *value);
  }
  TRY_ASSIGN(sampling.samplers, read_order(*value));
  return {};
}

Status read_breakers(const Json& body, engine::SamplingParams& sampling) {
  const Json* value = field(body, kBreakersField);
  if (value == nullptr) return {};
  if (!value->is_array()) return wrong_type(kBreakersField, "an array of strings", *value);
  if (value->empty() || value->size() > engine::kMostDryBreakers) {
    return invalid(fmt::format("'{}' must hold 1 to {} strings", kBreakersField, engine::kMostDryBreakers));
  }
  TRY_ASSIGN(std::vector<std::string> breakers, read_texts(*value, kBreakersField));
  const Status checked = engine::check_dry_breakers(breakers);
  if (!checked) return about(kBreakersField, checked.error());
  sampling.dry_breakers = std::move(breakers);
  return {};
}

}  // namespace

Status read_sampling_fields(const Json& body, engine::SamplingParams& sampling) {
  const float base = sampling.dry_base;
  for (const auto& setting : kRealSettings) TRY(read_setting(body, setting, sampling));
  for (const auto& setting : kWholeSettings) TRY(read_setting(body, setting, sampling));
  if (sampling.dry_base < 1) sampling.dry_base = base;  // as in llama-server: DRY's penalty grows, or stays as it is
  TRY(read_samplers(body, sampling));
  return read_breakers(body, sampling);
}

std::vector<std::string_view> sampling_fields() {
  std::vector<std::string_view> names = {kOrderField, kBreakersField};
  for (const auto& setting : kRealSettings) names.push_back(setting.name);
  for (const auto& setting : kWholeSettings) names.push_back(setting.name);
  return names;
}

Json sampling_json(const engine::SamplingParams& sampling) {
  Json json = Json::object();
  for (const auto& setting : kRealSettings) json[setting.name] = sampling.*setting.member;
  for (const auto& setting : kWholeSettings) json[setting.name] = sampling.*setting.member;
  json[kBreakersField] = sampling.dry_breakers;
  Json& names = json[kOrderField] = Json::array();
  for (const engine::SamplerStep step : sampling.samplers) names.push_back(name_of(step));
  return json;
}

}  // namespace kvkeep::server::api
