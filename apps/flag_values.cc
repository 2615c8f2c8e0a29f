#include "flag_values.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <limits>

#include "command_words.h"

namespace kvkeep::cli {
namespace {

using engine::llama::KvType;
using engine::llama::MetadataOverride;
using engine::llama::ScaledFile;
using engine::llama::TensorOverride;

constexpr int kLayersMax = 100'000;

Result<MetadataOverride> parse_metadata_override(const std::string& text) {
  const auto equals = text.find('=');
  const auto colon = text.find(':', equals == std::string::npos ? text.size() : equals);
  if (equals == std::string::npos || equals == 0 || colon == std::string::npos) {
    return invalid("'" + text + "' is not KEY=TYPE:VALUE");
  }
  const std::string key = text.substr(0, equals);
  const std::string type = text.substr(equals + 1, colon - equals - 1);
  const std::string value = text.substr(colon + 1);
  if (type == "int") {
    using Limits = std::numeric_limits<std::int64_t>;
    TRY_ASSIGN(const std::int64_t number, parse_number<std::int64_t>(value, Limits::min(), Limits::max()));
    return MetadataOverride{key, number};
  }
  if (type == "float") {
    using Limits = std::numeric_limits<double>;
    TRY_ASSIGN(const double number, parse_number<double>(value, Limits::lowest(), Limits::max()));
    return MetadataOverride{key, number};
  }
  if (type == "bool") {
    if (value != "true" && value != "false") return invalid("'" + value + "' is neither true nor false");
    return MetadataOverride{key, value == "true"};
  }
  // libllama keeps overridden strings in 128 bytes, the terminating zero included.
  if (type == "str" && value.size() < 128) return MetadataOverride{key, value};
  if (type == "str") return invalid("a string value is at most 127 bytes long");
  return invalid("'" + type + "' is not a type: int, float, bool or str");
}

}  // namespace

Result<std::uint32_t> parse_tokens(const std::string& text, std::uint32_t lowest, std::uint32_t highest) {
  const char unit = text.size() < 2 ? '\0' : text.back();
  const int shift = unit == 'k' || unit == 'K' ? 10 : unit == 'm' || unit == 'M' ? 20 : 0;
  const auto count = parse_number<std::uint64_t>(shift == 0 ? text : text.substr(0, text.size() - 1), 0, UINT32_MAX);
  const std::uint64_t tokens = count ? *count << shift : UINT64_MAX;
  if (tokens >= lowest && tokens <= highest) return static_cast<std::uint32_t>(tokens);
  // 4kk and 4kb mean 4k.
  const std::string meant = text.substr(0, text.find_first_not_of("0123456789") + 1);
  const bool is_near = !meant.empty() && meant.size() < text.size() && parse_tokens(meant, lowest, highest).ok();
  return invalid(fmt::format("'{}' is not a whole number from {} to {}, which may end in k or m{}", text, lowest,
                             highest, is_near ? "; did you mean '" + meant + "'?" : ""));
}

Result<ByteCount> parse_mebibytes(const std::string& text, std::uint64_t lowest) {
  constexpr std::uint64_t kHighest = std::uint64_t{1} << 40;
  const bool is_gib = text.size() > 1 && (text.back() == 'g' || text.back() == 'G');
  const int shift = is_gib ? 10 : 0;
  const auto count = parse_number<std::uint64_t>(text.substr(0, text.size() - (is_gib ? 1 : 0)), 0, kHighest >> shift);
  if (count && *count << shift >= lowest) return mebibytes(*count << shift);
  return invalid(
      fmt::format("'{}' is not a whole number from {} to {} of MiB; 1g stands for 1024", text, lowest, kHighest));
}

std::optional<bool> parse_switch_word(std::string_view text) {
  for (const std::string_view word : {"on", "enabled", "true", "1"}) {
    if (text == word) return true;
  }
  for (const std::string_view word : {"off", "disabled", "false", "0"}) {
    if (text == word) return false;
  }
  return std::nullopt;
}

Result<std::optional<bool>> parse_on_off_auto(const std::string& text) {
  if (text == "auto" || text == "-1") return std::optional<bool>();
  const std::optional<bool> on = parse_switch_word(text);
  if (!on) return invalid("'" + text + "' is not one of on, off, auto");
  return on;
}

Result<std::vector<std::string>> parse_list(const std::string& text) {
  std::vector<std::string> items;
  std::size_t begin = 0;
  while (begin <= text.size()) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    if (end == begin) return invalid("'" + text + "' has an empty item");
    items.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return items;
}

Result<std::vector<ScaledFile>> parse_scaled_files(const std::string& text) {
  TRY_ASSIGN(const std::vector<std::string> items, parse_list(text));
  std::vector<ScaledFile> files;
  for (const std::string& item : items) {
    const auto colon = item.rfind(':');
    if (colon == std::string::npos || colon == 0) return invalid("'" + item + "' is not FILE:SCALE");
    TRY_ASSIGN(const float scale, parse_number(item.substr(colon + 1), -1e6F, 1e6F));
    files.push_back({item.substr(0, colon), scale});
  }
  return files;
}

Result<std::vector<MetadataOverride>> parse_metadata_overrides(const std::string& text) {
  TRY_ASSIGN(const std::vector<std::string> items, parse_list(text));
  std::vector<MetadataOverride> overrides;
  for (const std::string& item : items) {
    TRY_ASSIGN(MetadataOverride parsed, parse_metadata_override(item));
    overrides.push_back(std::move(parsed));
  }
  return overrides;
}

Result<std::vector<TensorOverride>> parse_tensor_overrides(const std::string& text) {
  TRY_ASSIGN(const std::vector<std::string> items, parse_list(text));
  std::vector<TensorOverride> overrides;
  for (const std::string& item : items) {
    const auto equals = item.rfind('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == item.size()) {
      return invalid("'" + item + "' is not PATTERN=BUFFER");
    }
    overrides.push_back({item.substr(0, equals), item.substr(equals + 1)});
  }
  return overrides;
}

Result<std::optional<std::int32_t>> parse_gpu_layers(const std::string& text) {
  if (text == "auto" || text == "-1") return std::optional<std::int32_t>();
  if (text == "all") return std::optional(engine::llama::ModelOptions::kAllLayers);
  const auto count = parse_number<std::int32_t>(text, 0, kLayersMax);
  if (!count) return invalid("'" + text + "' is not auto, all or a number of layers");
  return std::optional(*count);
}

Result<std::vector<float>> parse_shares(const std::string& text) {
  TRY_ASSIGN(const std::vector<std::string> items, parse_list(text));
  std::vector<float> shares;
  for (const std::string& item : items) {
    TRY_ASSIGN(const float share, parse_number(item, 0.0F, 1e9F));
    shares.push_back(share);
  }
  if (std::ranges::none_of(shares, [](float share) { return share > 0; })) return invalid("every share is zero");
  return shares;
}

Result<std::pair<int, int>> parse_layer_range(const std::string& text) {
  TRY_ASSIGN(const std::vector<std::string> items, parse_list(text));
  if (items.size() != 2) return invalid("'" + text + "' is not START END");
  TRY_ASSIGN(const int first, parse_number(items[0], 0, kLayersMax));
  TRY_ASSIGN(const int last, parse_number(items[1], first, kLayersMax));
  return std::pair(first, last);
}

Result<KvType> parse_kv_type(const std::string& text) {
  std::vector<std::string> names;
  for (const auto& [name, type] : engine::llama::kKvTypes) {
    if (name == text) return type;
    names.emplace_back(name);
  }
  return invalid(fmt::format("'{}' is not one of {}{}", text, fmt::join(names, ", "), did_you_mean(text, names)));
}

}  // namespace kvkeep::cli
