#pragma once

// The name of a model: what must be equal for one process's rows to be right in another. A hash of content only, never
// of path or time, so that a model keeps its cache when it is moved, copied or downloaded again.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/hash.h"
#include "base/result.h"
#include "os/file_system.h"

namespace kvkeep::gguf {

enum class IdentityDepth {
  // All metadata and the tensor directory, and of each tensor its first, middle and last 4 KiB: milliseconds to a
  // second, reads a few megabytes. Tells fine-tunes, quantizations and vocabularies apart; cannot see a file in which
  // only bytes between the samples differ.
  kSampled,
  kFull,  // every byte; reads the whole model
};

// Opens one file for reading. Model files are often links (download caches), so it should follow them.
using OpenFile = std::function<Result<std::unique_ptr<os::File>>(const std::string& path)>;

// The files of the model of which `path` is the first or only one: name-00001-of-00003.gguf names three. kInvalid if
// `path` is a later part.
Result<std::vector<std::string>> split_paths(const std::string& path);

// Over all parts, in order. The two depths name the same model differently. Errors, one line each, with the path:
// kNotFound, kDamaged (not a GGUF file, truncated), kInvalid (a later part of a split model), kIo.
Result<ModelHash> model_identity(const OpenFile& open, const std::string& path,
                                 IdentityDepth depth = IdentityDepth::kSampled);

// Every byte of one file, whatever its format: LoRA adapters and control vectors, which are small.
Result<ModelHash> file_identity(const OpenFile& open, const std::string& path);

}  // namespace kvkeep::gguf
