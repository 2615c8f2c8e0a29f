#pragma once

// A tiny model of the same architecture as a real one: its metadata with the dimensions shrunk, random weights, no
// vocabulary. Head sizes stay, because KV types and rotations depend on them; so does the number of layers, because
// architectures choose by it.

#include <array>
#include <string>
#include <string_view>

#include "base/result.h"
#include "engine/llama/library.h"

namespace kvkeep::engine::llama {

enum class CloneShape {
  kNarrow,   // embeddings of 64: smallest
  kMatched,  // embeddings of heads x head size, for architectures that insist on it
};
std::string_view to_string(CloneShape shape);
// Both, the likelier to work first.
std::array<CloneShape, 2> clone_shapes(const std::string& path);

// Tokens of a clone are 0 .. kCloneVocabulary - 1.
inline constexpr std::int32_t kCloneVocabulary = 64;

// kUnsupported: libllama cannot make one. It may also end the process.
Result<ModelHandle> make_clone(const std::string& path, CloneShape shape);

}  // namespace kvkeep::engine::llama
