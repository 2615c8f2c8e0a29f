#include "engine/llama/rope_factors.h"

#include <charconv>
#include <optional>
#include <string_view>

namespace kvkeep::engine::llama {
namespace {

// The value of "key=int:VALUE". Of several libllama takes the first; values of other types it ignores for whole
// numbers.
std::optional<std::uint32_t> overridden(std::span<const std::string> kv_overrides, const std::string& key) {
  const std::string begin = key + "=";
  for (const std::string& text : kv_overrides) {
    if (!text.starts_with(begin)) continue;
    constexpr std::string_view kType = "int:";
    const std::string_view value = std::string_view(text).substr(begin.size());
    if (!value.starts_with(kType)) return std::nullopt;
    std::int64_t number = 0;
    std::from_chars(value.data() + kType.size(), value.data() + value.size(), number);
    return static_cast<std::uint32_t>(number);
  }
  return std::nullopt;
}

// As libllama reads it: the model's own key, else the length it was trained for.
std::uint32_t original_context_tokens(const ModelShape& shape, std::span<const std::string> kv_overrides) {
  const std::string original = shape.architecture + ".rope.scaling.original_context_length";
  if (const auto tokens = overridden(kv_overrides, original)) return *tokens;
  if (shape.context_original_tokens) return *shape.context_original_tokens;
  return overridden(kv_overrides, shape.architecture + ".context_length").value_or(shape.context_train_tokens);
}

}  // namespace

std::string rope_factors_in_use(const ModelShape& shape, std::span<const std::string> kv_overrides,
                                std::uint32_t sequence_tokens) {
  if (!shape.has_rope_factors) return {};
  return sequence_tokens > original_context_tokens(shape, kv_overrides) ? "long" : "short";
}

}  // namespace kvkeep::engine::llama
