#include "engine/sampling_settings.h"

#include <fmt/format.h>

#include <charconv>
#include <utility>

#include "engine/sampler_order.h"

namespace kvkeep::engine {
namespace {

template <typename Number>
Status check_range(const SamplingSetting<Number>& setting, Number value) {
  // A bound such as 0.01 lies above the float that is nearest to it.
  if (value >= static_cast<Number>(setting.least) && value <= static_cast<Number>(setting.most)) return {};
  return invalid(fmt::format("{} must be between {} and {}, not {}", setting.name, setting.least, setting.most, value));
}

constexpr std::string_view kSequenceKey = "sequence";
constexpr std::string_view kSamplers = "samplers";

// Applies one file to one SamplingParams.
class Applying {
 public:
  Applying(const ModelSampling& model, const ChosenSettings& chosen, SamplingParams& params)
      : model_(model), chosen_(chosen), params_(params) {}

  template <typename Number>
  void apply(const SamplingSetting<Number>& setting) {
    const std::string* text = said(setting.model_key, setting.name);
    if (text == nullptr) return;
    double value = 0;
    const auto [end, failure] = std::from_chars(text->data(), text->data() + text->size(), value);
    if (failure != std::errc() || !(value >= setting.least && value <= setting.most)) {
      return refuse(setting.model_key, fmt::format("must be between {} and {}", setting.least, setting.most));
    }
    params_.*setting.member = static_cast<Number>(value);
    notes_.obeyed.push_back(fmt::format("{} {}", setting.name, params_.*setting.member));
  }

  void apply_order() {
    const std::string* text = said(kSequenceKey, kSamplers);
    if (text == nullptr) return;
    auto order = parse_sampler_names(*text);
    if (!order) return refuse(kSequenceKey, order.error().message);
    params_.samplers = std::move(*order);
    notes_.obeyed.push_back(fmt::format("{} {}", kSamplers, names_of(params_.samplers)));
  }

  ModelSamplingNotes take() { return std::move(notes_); }

 private:
  // Returns null if the file has no such key, or the user chose another value.
  const std::string* said(std::string_view key, std::string_view name) const {
    const auto found = model_.find(key);
    return key.empty() || found == model_.end() || chosen_.contains(name) ? nullptr : &found->second;
  }
  void refuse(std::string_view key, std::string_view reason) {
    notes_.refused.push_back(fmt::format("general.sampling.{} is {}: {}", key, model_.find(key)->second, reason));
  }

  const ModelSampling& model_;
  const ChosenSettings& chosen_;
  SamplingParams& params_;
  ModelSamplingNotes notes_;
};

}  // namespace

Status check_dry_breakers(const std::vector<std::string>& breakers) {
  if (breakers.size() > kMostDryBreakers) {
    return invalid(fmt::format("at most {} sequence breakers may be given", kMostDryBreakers));
  }
  for (const std::string& breaker : breakers) {
    if (breaker.empty() || breaker.size() > kLongestDryBreaker || breaker.find('\0') != std::string::npos) {
      return invalid(fmt::format("a sequence breaker is a text of 1 to {} bytes without zeros", kLongestDryBreaker));
    }
  }
  return {};
}

Status check_settings(const SamplingParams& params) {
  for (const auto& setting : kRealSettings) TRY(check_range(setting, params.*setting.member));
  for (const auto& setting : kWholeSettings) TRY(check_range(setting, params.*setting.member));
  return check_dry_breakers(params.dry_breakers);
}

std::vector<std::string_view> model_sampling_keys() {
  std::vector<std::string_view> keys = {kSequenceKey};
  const auto add = [&](std::string_view key) {
    if (!key.empty()) keys.push_back(key);
  };
  for (const auto& setting : kRealSettings) add(setting.model_key);
  for (const auto& setting : kWholeSettings) add(setting.model_key);
  return keys;
}

ModelSamplingNotes obey_model(const ModelSampling& model, const ChosenSettings& chosen, SamplingParams& params) {
  Applying applying(model, chosen, params);
  applying.apply_order();
  for (const auto& setting : kRealSettings) applying.apply(setting);
  for (const auto& setting : kWholeSettings) applying.apply(setting);
  return applying.take();
}

}  // namespace kvkeep::engine
