#pragma once

// A tiny model of the same architecture as a real one: its metadata with smaller dimensions, random weights, no
// vocabulary. Head sizes stay, because KV types and rotations depend on them; so does the number of layers, because
// architectures differ by it.

#include <array>
#include <string>
#include <string_view>

#include "base/result.h"
#include "engine/llama/library.h"

namespace kvkeep::engine::llama {

enum class CloneShape {
  kNarrow,   // embeddings of 64: smallest
  kMatched,  // embeddings of heads x head size, for architectures that demand this
};
std::string_view to_string(CloneShape shape);
// Returns both shapes, the one that is likelier to work first.
std::array<CloneShape, 2> clone_shapes(const std::string& path);

// Tokens of a clone are 0 .. kCloneVocabulary - 1.
inline constexpr std::int32_t kCloneVocabulary = 64;

// kUnsupported if libllama cannot make a clone. libllama may also end the process.
Result<ModelHandle> make_clone(const std::string& path, CloneShape shape);

}  // namespace kvkeep::engine::llama
