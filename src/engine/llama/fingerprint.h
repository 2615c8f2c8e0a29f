#pragma once

// The fingerprint: everything that makes computed state reusable, as text and as its hash. Settings that do not change
// values (batch sizes, threads, paths, times) are not in it, so that caches survive their change. Nor is the context's
// size: only the choice of RoPE factors that it implies for some models.

#include <map>
#include <string>
#include <string_view>

#include "base/hash.h"
#include "engine/llama/library.h"
#include "engine/llama/model_options.h"
#include "engine/llama/state_parts.h"

namespace kvkeep::engine::llama {

// The version of the format that fingerprints name. A new one makes all stored state unreachable.
inline constexpr int kFingerprintVersion = 1;

// name -> value. Rendered sorted, one "name=value" per line; line ends in values are escaped.
using FingerprintFields = std::map<std::string, std::string>;

struct FingerprintParts {
  ModelHash model{};
  std::string devices{};                // names of the devices that compute, in order
  std::string rope_factors{};           // rope_factors_in_use(); empty: the model has no such factors
  std::vector<std::string> adapters{};  // one line each: LoRA, control vectors
  MemoryClass memory_class = MemoryClass::kUncached;
  const StateParts* state = nullptr;  // not null
  std::uint32_t sequences = 0;        // of the context; some opaque states can only be read by a context with as many
};

FingerprintFields fingerprint_fields(const ModelOptions& options, const FingerprintParts& parts);
std::string fingerprint_text(const FingerprintFields& fields);
FingerprintHash fingerprint_hash(std::string_view text);

// Versions of libllama that compute and lay out state in the same way have the name of the first of them, so that an
// update within such a group keeps the cache. An unknown version is its own name.
std::string compatible_llama_version(std::string_view version);
std::string compatible_ggml_version(std::string_view version);

}  // namespace kvkeep::engine::llama
