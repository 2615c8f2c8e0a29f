#pragma once

// The projector on libmtmd. It names files by their heads (media_file.h) and decodes pictures as llama-server does.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/hash.h"
#include "base/result.h"
#include "engine/llama/library.h"
#include "engine/media/media_file.h"
#include "engine/projector.h"

namespace kvkeep::engine::media {

struct ProjectorOptions {
  std::string path;
  std::uint32_t least_tokens = 0;  // of a picture, if its number of tokens depends on its size; 0: the projector's own
  std::uint32_t most_tokens = 0;
  std::uint32_t threads = 4;
  bool use_gpu = true;
  std::string device = {};  // that encodes, as --list-devices names it, or "CPU"; empty: the first GPU, if there is one
  bool warmup = true;       // encode once at the start, so that the first picture does not wait for memory
  // Returns the hash of all bytes of a file, which names the projector. Empty: reads the file.
  std::function<Result<ModelHash>(const std::string& path)> identity = {};
  // Most embeddings that the model may look at at once, as its micro-batches are; 0: any number.
  std::uint32_t most_at_once = 0;
  MediaLimits limits = {};
};

// Loads the projector of a text model. Errors, a line each: kNotFound, kDamaged (no projector), kUnsupported (of
// another model; this kvkeep was built without libmtmd), kInvalid (an option). Its plan() fails as read_head() does,
// and with kNoSpace for a picture with more embeddings at once than `most_at_once`.
Result<std::unique_ptr<Projector>> load_projector(const ProjectorOptions& options, llama::ModelHandle model);

}  // namespace kvkeep::engine::media
