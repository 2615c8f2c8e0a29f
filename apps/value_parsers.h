#pragma once

// The values of flags, from text. Errors say what was expected, without the flag's name.

#include <fmt/format.h>

#include <charconv>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/result.h"
#include "serve_options.h"

namespace kvkeep::cli {

// A number in [lowest, highest], the whole text.
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

// llama-server's words for a switch: on, enabled, true, 1 and off, disabled, false, 0. Empty: none of them.
std::optional<bool> parse_switch_word(std::string_view text);
// A switch word, or auto or -1.
Result<FlashAttention> parse_flash_attention(const std::string& text);
// "a,b" -> {"a", "b"}. kInvalid: an empty item.
Result<std::vector<std::string>> parse_list(const std::string& text);
// "a:0.5,b:2" -> files with scales. The last colon separates, so that paths may hold colons.
Result<std::vector<ScaledFile>> parse_scaled_files(const std::string& text);
// "KEY=TYPE:VALUE,...": TYPE is int, float, bool or str.
Result<std::vector<MetadataOverride>> parse_metadata_overrides(const std::string& text);
// "PATTERN=BUFFER,...".
Result<std::vector<TensorOverride>> parse_tensor_overrides(const std::string& text);
// "auto", "all" or a count.
Result<GpuLayers> parse_gpu_layers(const std::string& text);
// "3,1": shares, at least one positive.
Result<std::vector<float>> parse_shares(const std::string& text);
// "FIRST,LAST", both inclusive.
Result<std::pair<int, int>> parse_layer_range(const std::string& text);
// A type the KV cache may have.
Result<std::string> parse_kv_type(const std::string& text);
std::vector<std::string> kv_cache_types();

}  // namespace kvkeep::cli
