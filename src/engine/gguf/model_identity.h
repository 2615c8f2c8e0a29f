#pragma once

// The name of a model: equal names mean that rows computed by one process are right in another. A hash only of content,
// never of path or time, so that a model keeps its cache when it is moved, copied or downloaded again.

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
  // All metadata and the tensor directory, all of each tensor of at most 1 MiB, and 16 samples of 4 KiB of each larger
  // one: milliseconds to a second, reads some tens of megabytes. Tells fine-tunes, quantizations and vocabularies
  // apart;
  // does not notice a file in which only bytes between the samples differ.
  kSampled,
  // As former versions sampled: the first, middle and last 4 KiB of each tensor.
  kFormerlySampled,
  kFull,  // every byte; reads the whole model
};

// Called after each MiB that was read; an error ends the hash, which fails with it.
using AfterMebibyte = std::function<Status()>;

// Opens one file for reading. Model files are often links (download caches), so that it should follow links.
using OpenFile = std::function<Result<std::unique_ptr<os::File>>(const std::string& path)>;

// Returns the files of the model whose first or only file is `path`: name-00001-of-00003.gguf names three. kInvalid if
// `path` is a later part.
Result<std::vector<std::string>> split_paths(const std::string& path);

// Hashes all parts, in order. Each depth names the same model differently. Errors, one line each, with the path:
// kNotFound, kDamaged (not a GGUF file, truncated), kInvalid (a later part of a split model), kIo.
Result<ModelHash> model_identity(const OpenFile& open, const std::string& path,
                                 IdentityDepth depth = IdentityDepth::kSampled, const AfterMebibyte& after = {});

// Hashes every byte of one file of any format: LoRA adapters and control vectors, which are small.
Result<ModelHash> file_identity(const OpenFile& open, const std::string& path);

}  // namespace kvkeep::gguf
