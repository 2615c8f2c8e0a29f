#include "model_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace kvkeep::cli {
namespace {

using engine::llama::KvType;

// The value of a line "name=value"; "" if there is none.
std::string_view field(std::string_view text, std::string_view name) {
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (line.starts_with(name) && line.substr(name.size()).starts_with('=')) return line.substr(name.size() + 1);
  }
  return {};
}

std::string_view file_name(std::string_view path) { return path.substr(path.find_last_of('/') + 1); }

// The flags as they are typed on a command line.
class Flags {
 public:
  template <typename... Values>
  void add(bool given, std::string_view name, const Values&... values) {
    if (!given) return;
    text_ += fmt::format("{}{}", text_.empty() ? "" : " ", name);
    ((text_ += fmt::format(" {}", values)), ...);
  }
  template <typename Value>
  void add(std::string_view name, const std::optional<Value>& value) {
    if (value) add(true, name, *value);
  }
  std::string text() const { return text_.empty() ? "default" : text_; }

 private:
  std::string text_;
};

void add_scaled(Flags& flags, std::string_view name, std::string_view path, float scale) {
  flags.add(scale == 1.0F, name, file_name(path));
  flags.add(scale != 1.0F, fmt::format("{}-scaled", name), file_name(path), scale);
}

void add_rope(Flags& flags, const engine::llama::ModelOptions& options) {
  if (options.rope_scaling) flags.add(true, "--rope-scaling", to_string(*options.rope_scaling));
  flags.add("--rope-freq-base", options.rope_frequency_base);
  flags.add("--rope-freq-scale", options.rope_frequency_scale);
  flags.add("--yarn-orig-ctx", options.yarn_original_context);
  flags.add("--yarn-ext-factor", options.yarn_extrapolation);
  flags.add("--yarn-attn-factor", options.yarn_attention);
  flags.add("--yarn-beta-slow", options.yarn_beta_slow);
  flags.add("--yarn-beta-fast", options.yarn_beta_fast);
}

void add_adapters(Flags& flags, const engine::llama::ModelOptions& options) {
  for (const auto& lora : options.loras) add_scaled(flags, "--lora", lora.path, lora.scale);
  for (const auto& vector : options.control_vectors) add_scaled(flags, "--control-vector", vector.path, vector.scale);
  if (const auto& layers = options.control_vector_layers) {
    flags.add(true, "--control-vector-layer-range", layers->first, layers->second);
  }
}

}  // namespace

std::string settings_text(const engine::llama::ModelOptions& options, std::string_view fingerprint_text) {
  Flags flags;
  flags.add(options.type_k != KvType::kF16, "-ctk", to_string(options.type_k));
  flags.add(options.type_v != KvType::kF16, "-ctv", to_string(options.type_v));
  flags.add(field(fingerprint_text, "flash_attention") == "off", "-fa off");
  flags.add(!options.repack, "--no-repack");
  flags.add(options.swa_full, "--swa-full");
  add_rope(flags, options);
  for (const auto& changed : options.kv_overrides) flags.add(true, "--override-kv", to_string(changed));
  add_adapters(flags, options);
  flags.add(options.full_model_hash, "--model-hash full");
  flags.add(!options.salt.empty(), "--cache-salt-file");
  const std::string_view sequences = field(fingerprint_text, "sequences");
  flags.add(!sequences.empty(), "-np", sequences);
  const std::string_view factors = field(fingerprint_text, "rope_factors");
  flags.add(!factors.empty(), fmt::format("-c ({} RoPE factors)", factors));
  return flags.text();
}

std::string computed_by_text(std::string_view fingerprint_text) {
  return fmt::format("{}, libllama {}, ggml {}", field(fingerprint_text, "devices"), field(fingerprint_text, "llama"),
                     field(fingerprint_text, "ggml"));
}

}  // namespace kvkeep::cli
