#include "engine/llama/fingerprint.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace kvkeep::engine::llama {
namespace {

// Groups of versions whose state and results were compared and found equal. The first one names the group.
// A version joins a group only after the exactness tests passed on state that an older member had saved.
struct VersionGroup {
  std::string_view name;
  std::array<std::string_view, 2> members;  // empty: unused
};
constexpr std::array kLlamaGroups{VersionGroup{"0.7.0", {"0.7.0", ""}}};
constexpr std::array kGgmlGroups{VersionGroup{"0.27.0", {"0.27.0", ""}}};

template <typename Groups>
std::string group_name(const Groups& groups, std::string_view version) {
  for (const VersionGroup& group : groups) {
    if (std::ranges::find(group.members, version) != group.members.end()) return std::string(group.name);
  }
  return std::string(version);
}

// One line per field must stay one line, whatever characters a salt has.
std::string escaped(std::string_view value) {
  std::string out;
  for (const char c : value) {
    if (c == '\\')
      out += "\\\\";
    else if (c == '\n')
      out += "\\n";
    else
      out += c;
  }
  return out;
}

std::string join_lines(const std::vector<std::string>& lines) {
  std::string joined;
  for (const std::string& line : lines) joined += line + ";";
  return joined;
}

std::vector<std::string> texts_of(const std::vector<MetadataOverride>& kv_overrides) {
  std::vector<std::string> texts;
  for (const MetadataOverride& changed : kv_overrides) texts.push_back(to_string(changed));
  return texts;
}

// "", 0 and -1 stand for "the model's own", as in the first fingerprints.
std::string rope_text(const ModelOptions& options) {
  return fmt::format("scaling={} base={} scale={}", options.rope_scaling ? to_string(*options.rope_scaling) : "",
                     options.rope_frequency_base.value_or(0.0F), options.rope_frequency_scale.value_or(0.0F));
}

std::string yarn_text(const ModelOptions& options) {
  return fmt::format("extrapolation={} attention={} beta_fast={} beta_slow={} original_context={}",
                     options.yarn_extrapolation.value_or(-1.0F), options.yarn_attention.value_or(-1.0F),
                     options.yarn_beta_fast.value_or(-1.0F), options.yarn_beta_slow.value_or(-1.0F),
                     options.yarn_original_context.value_or(0));
}

// The state of an empty sequence has the types and sizes of all its parts except the rows of a window.
std::string digest_of(ByteSpan empty_state) {
  ByteHasher hasher;
  hasher.append(empty_state);
  return hasher.finish<FingerprintHash>().hex();
}

// The text is logged and stored next to the cache.
std::string salt_digest(const std::string& salt) {
  if (salt.empty()) return {};
  return digest_of(std::as_bytes(std::span(salt)));
}

void add_other_state(const ModelOptions& options, const FingerprintParts& parts, FingerprintFields& fields) {
  const StateParts& state = *parts.state;
  fields["memory_class"] = to_string(parts.memory_class);
  fields["empty_state"] = digest_of(state.empty_whole);
  if (state.window_tokens > 0) fields["window"] = std::to_string(state.window_tokens);
  if (parts.memory_class == MemoryClass::kWindowed) fields["window_layout"] = state.window->canonical_text();
  if (needs_scratch(parts.memory_class)) return;
  fields["flash_attention"] = options.flash_attention == false ? "off" : "on";
  if (parts.memory_class == MemoryClass::kOpaque) fields["sequences"] = std::to_string(parts.sequences);
}

}  // namespace

std::string compatible_llama_version(std::string_view version) { return group_name(kLlamaGroups, version); }
std::string compatible_ggml_version(std::string_view version) { return group_name(kGgmlGroups, version); }

FingerprintFields fingerprint_fields(const ModelOptions& options, const FingerprintParts& parts) {
  FingerprintFields fields{
      {"adapters", join_lines(parts.adapters)},
      {"devices", parts.devices},
      {"format", std::to_string(kFingerprintVersion)},
      {"ggml", compatible_ggml_version(ggml_version())},
      {"kv_overrides", join_lines(texts_of(options.kv_overrides))},
      {"kv_type_k", std::string(to_string(options.type_k))},
      {"kv_type_v", std::string(to_string(options.type_v))},
      {"llama", compatible_llama_version(llama_version())},
      {"memory", "unified"},  // the form in which state is stored, whatever the layout of cells
      {"model", parts.model.hex()},
      // Kernels for rearranged weights add up in another order; with 4-bit weights most rows differ.
      {"repack", options.repack ? "on" : "off"},
      {"rope", rope_text(options)},
      {"salt", salt_digest(options.salt)},
      {"yarn", yarn_text(options)},
  };
  // State that was computed in other slices or among others' cells may differ in its last bits.
  if (options.repeatable) fields["repeatable"] = fmt::format("slices of {}", options.ubatch());
  if (!parts.rope_factors.empty()) fields["rope_factors"] = parts.rope_factors;
  if (needs_scratch(parts.memory_class)) {
    const RowLayout& rows = *parts.state->rows;
    fields["flash_attention"] = rows.v_transposed ? "off" : "on";
    fields["kv_rotation"] = fmt::format("k={} v={}", rows.k_rotation, rows.v_rotation);
    fields["layout"] = rows.canonical_text();
  }
  if (parts.memory_class != MemoryClass::kSliceable) add_other_state(options, parts, fields);
  return fields;
}

std::string fingerprint_text(const FingerprintFields& fields) {
  std::string text;
  for (const auto& [name, value] : fields) text += name + "=" + escaped(value) + "\n";
  return text;
}

FingerprintHash fingerprint_hash(std::string_view text) {
  ByteHasher hasher;
  hasher.append(std::as_bytes(std::span(text)));
  return hasher.finish<FingerprintHash>();
}

}  // namespace kvkeep::engine::llama
