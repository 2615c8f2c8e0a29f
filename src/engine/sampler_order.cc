#include "engine/sampler_order.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

namespace kvkeep::engine {
namespace {

struct NamedStep {
  std::string_view name;
  char letter;
};

// In the order of the enumerators.
constexpr std::array kSteps = std::to_array<NamedStep>({{"penalties", 'e'},
                                                        {"dry", 'd'},
                                                        {"top_n_sigma", 's'},
                                                        {"top_k", 'k'},
                                                        {"typ_p", 'y'},
                                                        {"top_p", 'p'},
                                                        {"min_p", 'm'},
                                                        {"xtc", 'x'},
                                                        {"temperature", 't'},
                                                        {"infill", 'i'},
                                                        {"adaptive_p", 'a'}});

struct ShortForm {
  std::string_view name;
  SamplerStep step;
};
constexpr std::array kShortForms = std::to_array<ShortForm>({{"temp", SamplerStep::kTemperature},
                                                             {"typ", SamplerStep::kTypicalP},
                                                             {"typical", SamplerStep::kTypicalP},
                                                             {"typicalp", SamplerStep::kTypicalP},
                                                             {"nucleus", SamplerStep::kTopP}});

// In small letters, without separators.
std::string bare(std::string_view name) {
  std::string letters;
  for (const char c : name) {
    if (c != '-' && c != '_') letters += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return letters;
}

Error unknown_step(std::string_view what) {
  std::string known;
  for (const NamedStep& step : kSteps) {
    known += fmt::format("{}{} ({})", known.empty() ? "" : ", ", step.name, step.letter);
  }
  return invalid(fmt::format("'{}' is not a sampler; there are {}", what.substr(0, 64), known));
}

Status check_length(std::size_t steps) {
  if (steps <= kMostSamplerSteps) return {};
  return invalid(fmt::format("at most {} samplers may be named", kMostSamplerSteps));
}

}  // namespace

SamplerOrder default_sampler_order() {
  return {SamplerStep::kPenalties, SamplerStep::kDry,      SamplerStep::kTopNSigma,
          SamplerStep::kTopK,      SamplerStep::kTypicalP, SamplerStep::kTopP,
          SamplerStep::kMinP,      SamplerStep::kXtc,      SamplerStep::kTemperature};
}

std::vector<std::string> default_dry_breakers() { return {"\n", ":", "\"", "*"}; }

std::string_view name_of(SamplerStep step) { return kSteps.at(static_cast<std::size_t>(step)).name; }

std::string names_of(const SamplerOrder& order) {
  std::string names;
  for (const SamplerStep step : order) {
    names += names.empty() ? "" : ";";
    names += name_of(step);
  }
  return names;
}

std::optional<SamplerStep> sampler_named(std::string_view name) {
  const std::string wanted = bare(name);
  for (std::size_t i = 0; i < kSteps.size(); ++i) {
    if (wanted == bare(kSteps[i].name)) return static_cast<SamplerStep>(i);
  }
  const auto* found = std::ranges::find(kShortForms, wanted, &ShortForm::name);
  if (found == kShortForms.end()) return std::nullopt;
  return found->step;
}

Result<SamplerOrder> sampler_order_of(const std::vector<std::string>& names) {
  TRY(check_length(names.size()));
  SamplerOrder order;
  for (const std::string& name : names) {
    const auto step = sampler_named(name);
    if (!step) return unknown_step(name);
    order.push_back(*step);
  }
  return order;
}

Result<SamplerOrder> parse_sampler_names(std::string_view text) {
  std::vector<std::string> names;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(';'), text.size());
    names.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return sampler_order_of(names);
}

Result<SamplerOrder> parse_sampler_letters(std::string_view letters) {
  TRY(check_length(letters.size()));
  SamplerOrder order;
  for (const char letter : letters) {
    const auto* found = std::ranges::find(kSteps, letter, &NamedStep::letter);
    if (found == kSteps.end()) return unknown_step({&letter, 1});
    order.push_back(static_cast<SamplerStep>(found - kSteps.begin()));
  }
  return order;
}

}  // namespace kvkeep::engine
