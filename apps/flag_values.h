#pragma once

// Parsers for the values of flags, and setters made of them. Errors say what was expected, without the flag's name.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <iterator>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "engine/llama/model_options.h"
#include "flag_set.h"

namespace kvkeep::cli {

// Parses the whole text as a number in [lowest, highest].
template <typename Number>
Result<Number> parse_number(const std::string& text, Number lowest, Number highest) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool parsed = error == std::errc{} && end == text.data() + text.size();
  // Written so that NaN, which compares false with everything, is refused.
  if (!parsed || !(value >= lowest && value <= highest)) {
    const char* kind = std::is_integral_v<Number> ? "whole number" : "number";
    if (highest == std::numeric_limits<Number>::max()) {
      return invalid(fmt::format("'{}' is not a {} from {} up", text, kind, lowest));
    }
    return invalid(fmt::format("'{}' is not a {} from {} to {}", text, kind, lowest, highest));
  }
  return value;
}

// A count of tokens in [lowest, highest], in digits or in Ki and Mi: "32k" is 32768, "1m" 1048576. Case does not
// matter.
Result<std::uint32_t> parse_tokens(const std::string& text, std::uint32_t lowest, std::uint32_t highest);

// A size of at least `lowest` MiB, in MiB, or in GiB with a g at its end: "8g" is "8192". Case does not matter.
Result<ByteCount> parse_mebibytes(const std::string& text, std::uint64_t lowest);

// llama-server's words for a switch: on, enabled, true, 1 and off, disabled, false, 0. Returns nullopt for other words.
std::optional<bool> parse_switch_word(std::string_view text);
// A switch word, or auto or -1, which return nullopt.
Result<std::optional<bool>> parse_on_off_auto(const std::string& text);
// "a,b" -> {"a", "b"}. kInvalid if an item is empty.
Result<std::vector<std::string>> parse_list(const std::string& text);
// "a:0.5,b:2" -> files with scales. The last colon separates, so that paths may hold colons.
Result<std::vector<engine::llama::ScaledFile>> parse_scaled_files(const std::string& text);
// "KEY=TYPE:VALUE,...": TYPE is int, float, bool or str.
Result<std::vector<engine::llama::MetadataOverride>> parse_metadata_overrides(const std::string& text);
// "PATTERN=BUFFER,...".
Result<std::vector<engine::llama::TensorOverride>> parse_tensor_overrides(const std::string& text);
// A count; "all" returns the largest one, auto and -1 return nullopt.
Result<std::optional<std::int32_t>> parse_gpu_layers(const std::string& text);
// "3,1": shares, at least one positive.
Result<std::vector<float>> parse_shares(const std::string& text);
// "FIRST,LAST", both inclusive.
Result<std::pair<int, int>> parse_layer_range(const std::string& text);
Result<engine::llama::KvType> parse_kv_type(const std::string& text);

// Functions that make a Flag::assign. The default that they show is the target's value when they are called.

// Assigns the value that `parse` returns.
template <typename Target, typename Parse>
Assign parsed_into(Target& target, Parse parse) {
  return [&target, parse](const std::string& text) -> Status {
    TRY_ASSIGN(target, parse(text));
    return {};
  };
}

template <typename Number>
  requires std::is_arithmetic_v<Number>
Assign number_into(Number& target, std::type_identity_t<Number> lowest,
                   std::type_identity_t<Number> highest = std::numeric_limits<Number>::max()) {
  const auto parse = [lowest, highest](const std::string& text) { return parse_number(text, lowest, highest); };
  return {parsed_into(target, parse).set, fmt::to_string(target)};
}

// A number below `least` means "automatic": it leaves the target empty.
template <typename Number>
Assign number_into(std::optional<Number>& target, std::type_identity_t<Number> lowest,
                   std::type_identity_t<Number> highest, std::type_identity_t<Number> least) {
  return [=, &target](const std::string& text) -> Status {
    TRY_ASSIGN(target, parse_number(text, lowest, highest));
    if (*target < least) target.reset();
    return {};
  };
}

// -1 (llama-server's word for it) leaves the target empty.
template <typename Number>
Assign number_or_automatic(std::optional<Number>& target, std::type_identity_t<Number> lowest,
                           std::type_identity_t<Number> highest, std::type_identity_t<Number> least) {
  return [=, &target](const std::string& text) -> Status {
    if (text == "-1") {
      target.reset();
      return {};
    }
    const auto value = parse_number(text, lowest, highest);
    if (!value) return invalid(value.error().message + ", or -1");
    target = *value;
    if (*target < least) target.reset();
    return {};
  };
}

// -1 leaves the target as it is.
template <typename Number>
Assign number_or_default(Number& target, std::type_identity_t<Number> lowest, std::type_identity_t<Number> highest) {
  const auto set = [=, &target, held = target](const std::string& text) -> Status {
    std::optional<Number> given;
    TRY(number_or_automatic(given, lowest, highest, lowest).set(text));
    target = given.value_or(held);
    return {};
  };
  return {set, fmt::to_string(target)};
}

inline Assign mebibytes_into(std::optional<ByteCount>& target, std::uint64_t lowest) {
  return parsed_into(target, [lowest](const std::string& text) { return parse_mebibytes(text, lowest); });
}

// Adds the items that `parse` returns to the list, so that the flag may be repeated.
template <typename Item, typename Parse>
Assign appended_to(std::vector<Item>& target, Parse parse) {
  const auto set = [&target, parse](const std::string& text) -> Status {
    TRY_ASSIGN(std::vector<Item> items, parse(text));
    target.insert(target.end(), std::make_move_iterator(items.begin()), std::make_move_iterator(items.end()));
    return {};
  };
  Assign assign{set, "none"};
  assign.adds_up = true;
  return assign;
}

inline Assign text_into(std::string& target) {
  const auto set = [&target](const std::string& text) -> Status {
    target = text;
    return {};
  };
  return {set, target.empty() ? "none" : target};
}

// A switch. `when_on` is the target's value when the switch is on (false for --no-kv-disk).
inline Assign switch_into(bool& target, bool when_on = true) {
  const auto set = [&target, when_on](const std::string& text) -> Status {
    target = (text == "on") == when_on;
    return {};
  };
  return {set, target == when_on ? "on" : "off"};
}

// A switch that sets one value of an option, such as --verbose for --log-verbosity 5.
template <typename Target>
Assign value_into(Target& target, std::type_identity_t<Target> value) {
  const auto set = [&target, value](const std::string& text) -> Status {
    if (text == "on") target = value;
    return {};
  };
  return {set, "off"};
}

// Accepts a flag that asks for behaviour that is never off: there is nothing to set.
inline Assign always_so() {
  return {[](const std::string&) -> Status { return {}; }, "on"};
}

template <typename Choice>
using Choices = std::vector<std::pair<std::string_view, Choice>>;

template <typename Choice>
Assign choice_into(Choice& target, Choices<std::type_identity_t<Choice>> choices) {
  const auto held = std::ranges::find(choices, target, &Choices<Choice>::value_type::second);
  std::string default_text(held == choices.end() ? std::string_view{} : held->first);
  const auto set = [&target, choices = std::move(choices)](const std::string& text) -> Status {
    std::vector<std::string_view> names;
    for (const auto& [name, choice] : choices) {
      if (name == text) {
        target = choice;
        return {};
      }
      names.push_back(name);
    }
    return invalid(fmt::format("'{}' is not one of {}", text, fmt::join(names, ", ")));
  };
  return {set, std::move(default_text)};
}

}  // namespace kvkeep::cli
