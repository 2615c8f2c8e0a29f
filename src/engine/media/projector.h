#pragma once

// A projector: turns pictures and sounds into embeddings that a text model takes in place of tokens. On libmtmd.
//
// A file becomes parts: tokens that the model's family puts around pictures, and chunks of embeddings. plan() says
// which parts, without decoding the file, so that known ones are found in the cache by their ids (base/media_ids.h) and
// nothing else has to be done; encode() makes the embeddings.
//
// plan() may be called on any thread; encode() too, one call runs at a time and others wait.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/hash.h"
#include "base/media_ids.h"
#include "base/result.h"
#include "base/types.h"
#include "engine/engine.h"
#include "engine/llama/library.h"
#include "engine/media/media_file.h"

namespace kvkeep::engine::media {

struct ProjectorOptions {
  std::string path;
  std::uint32_t least_tokens = 0;  // of a picture, if its number of tokens depends on its size; 0: the projector's own
  std::uint32_t most_tokens = 0;
  std::uint32_t threads = 4;
  bool use_gpu = true;
  bool warmup = true;      // encode once at the start, so that the first picture does not wait for memory
  bool full_hash = false;  // name the projector by all of its bytes, not by samples
  MediaLimits limits = {};
};

struct ProjectorDescription {
  bool pictures = false;
  bool sound = false;
  std::uint32_t samples_per_second = 0;  // of sound
  // Most embeddings that a model looks at at once, which is the least --ubatch-size; 0: it looks at none at once.
  std::uint32_t tokens_at_once = 0;
  ModelHash identity;
};

// Tokens, or a chunk that stands between tokens.
struct MediaPart {
  std::vector<TokenId> tokens = {};
  ChunkShape shape = {};  // of a chunk; no embeddings: the part is tokens
  bool is_chunk() const { return shape.embeddings > 0; }
  bool operator==(const MediaPart&) const = default;
};

// A chunk with its embeddings, as engine::MediaChunk takes them.
struct EncodedChunk {
  ChunkShape shape;
  std::vector<float> embeddings = {};
  std::vector<PlanePlace> places = {};
  bool at_once = false;
};

// Called with the share that is done, 0 to 1, some times per chunk; returning false ends the encoding.
using EncodeProgress = std::function<bool(double)>;

class Projector {
 public:
  // Loads the projector of a text model. Errors, a line each: kNotFound, kDamaged (no projector), kUnsupported (of
  // another model; this kvkeep was built without libmtmd), kInvalid (an option).
  static Result<std::unique_ptr<Projector>> load(const ProjectorOptions& options, llama::ModelHandle model);
  virtual ~Projector() = default;

  virtual const ProjectorDescription& description() const = 0;

  // Returns the parts of a file. Errors as read_head(), and kUnsupported for a medium that the projector does not know.
  virtual Result<std::vector<MediaPart>> plan(ByteSpan file) const = 0;
  // Returns the chunks of a file, as plan() has them. Errors as plan(); kDamaged if the file cannot be decoded or has
  // other parts than its head says, kAborted if `progress` returned false, kIo if the encoder fails.
  virtual Result<std::vector<EncodedChunk>> encode(ByteSpan file, const EncodeProgress& progress) = 0;
};

// Returns the ids that stand for the file in a prompt: its parts' tokens, and the ids of its chunks.
std::vector<TokenId> prompt_ids(const std::vector<MediaPart>& parts, const MediaHash& file);

// kInvalid, with the number that is needed, if a model's micro-batches (`tokens_at_once` of its description) are too
// small for what it has to look at at once.
Status check_tokens_at_once(const ProjectorDescription& projector, const Description& model);

}  // namespace kvkeep::engine::media
