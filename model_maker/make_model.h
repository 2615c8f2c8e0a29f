#pragma once

// Random-weight GGUF models for tests, demos and benchmarks: real files that llama-server loads too, of any size, made
// in seconds, without a download. They say nothing sensible, but their text depends on every token before it.

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace kvkeep::gguf {

enum class ModelSize {
  kTiny,   // 2 to 4 MB: unit tests
  kSmall,  // 20 to 30 MB: demos, servers under test
  kReal,   // 170 to 300 MB: timings that mean something
};

// Reads "tiny", "small" or "real"; kInvalid for other names.
Result<ModelSize> parse_model_size(std::string_view name);

struct MakeModelOptions {
  // general.architecture, one of architecture_names().
  std::string architecture = "llama";
  ModelSize size = ModelSize::kTiny;
  // Tokens that a windowed layer sees; 0: the architecture's default. kInvalid if it has no such layers.
  std::uint32_t window = 0;
  // The same options and seed give the same bytes.
  std::uint64_t seed = 1;
  // False: only whole words with a blank before them can be sampled, so that greedy text never ends early, is valid
  // UTF-8 and is tokenized to the ids it was sampled as. True: every token can be sampled, markers and broken UTF-8
  // included, and text may be tokenized to other ids.
  bool free_output = false;
  // Tokens of the vocabulary; 0: those of the shared one. kInvalid if fewer, more than 262,144, or the architecture
  // only embeds.
  std::uint32_t vocabulary = 0;
  // With a classifier, so that the model scores pairs of texts. kInvalid unless the architecture only embeds.
  bool rerank = false;
  // The projector of a model of this architecture and size instead of the model. kInvalid with the four options above
  // and for architectures that only embed.
  bool projector = false;
};

// Returns "llama, ..." for messages.
std::string architecture_names();
// Returns "sliceable: llama; windowed: gemma3; ..." for help texts: architectures by the class of their memory.
std::string architectures_by_memory_class();
// Returns "gemma3, ..." for messages: the architectures with windowed layers.
std::string windowed_architecture_names();

// Returns true if the projector of a model of that architecture takes pictures; others take sound.
bool sees_pictures(std::string_view architecture);

// Returns the architecture whose projector shows pictures to such a model: its own or, for recurrent and opaque models,
// of whom no family sees, gemma3's, which is as wide. Empty for the others that have none of their own.
std::string_view picture_projector(std::string_view architecture);

// Returns "pictures: gemma3, ...; sound: llama, ..." for help texts: architectures by the medium of their projectors.
std::string architectures_by_medium();

// Writes the model to `path`, and replaces a file there. Errors: kInvalid (unknown architecture, a window that it
// cannot have), kIo (cannot write).
Status make_model(const MakeModelOptions& options, const std::string& path);

}  // namespace kvkeep::gguf
