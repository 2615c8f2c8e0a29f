#pragma once

// The projector port: turns pictures and sounds into embeddings that a text model takes in place of tokens. media/ is
// the real one.
//
// A file becomes parts: tokens that the model's family puts around pictures, and chunks of embeddings. plan() says
// which parts, without decoding the file, so that known ones are found in the cache by their ids (base/media_ids.h) and
// nothing else has to be done; encode() makes the embeddings.
//
// plan() may be called on any thread; encode() too, one call runs at a time and others wait.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/hash.h"
#include "base/media_ids.h"
#include "base/result.h"
#include "base/types.h"
#include "engine/engine.h"

namespace kvkeep::engine {

struct ProjectorDescription {
  bool pictures = false;
  bool sound = false;
  std::uint32_t samples_per_second = 0;  // of sound
  // Most embeddings that a model looks at at once, which is the least --ubatch-size; 0: it looks at none at once.
  std::uint32_t tokens_at_once = 0;
  ModelHash identity;
  std::string device = {};  // the kind of device that encodes, "NVIDIA H100 PCIe" or "CPU"
};

// Tokens, or a chunk that stands between tokens.
struct MediaPart {
  std::vector<TokenId> tokens = {};
  ChunkShape shape = {};  // of a chunk; no embeddings: the part is tokens
  bool is_chunk() const { return shape.embeddings > 0; }
  bool operator==(const MediaPart&) const = default;
};

// A chunk as engine::MediaChunk takes it; without embeddings if nobody asked for it.
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
  virtual ~Projector() = default;

  virtual const ProjectorDescription& description() const = 0;

  // Returns how many seconds of sound a file may have, as its head says: plan() takes time and memory by them, some
  // milliseconds and 200 KB for each. A sound that takes longer, of many channels or samples a second, counts as a
  // longer one. 0: it is none, or beyond a limit. Takes no time for a picture.
  virtual double sound_seconds(ByteSpan /*file*/) const { return 0; }
  // Returns how many pixels a picture says that it has: encode() takes time by them. 0 for a sound. Takes no time.
  virtual std::uint64_t pixels(ByteSpan /*file*/) const { return 0; }
  // Returns the parts of a file. Errors are a line to be put after the file's name: kUnsupported (no format that is
  // read, or a medium that the projector does not know), kDamaged, kNoSpace (beyond a limit).
  virtual Result<std::vector<MediaPart>> plan(ByteSpan file) const = 0;
  // Returns the chunks of a file, as plan() has them; those before the chunk `first` are not encoded. Errors as plan();
  // kDamaged if the file cannot be decoded or has other parts than its head says, kAborted if `progress` returned
  // false, kIo if the encoder fails.
  virtual Result<std::vector<EncodedChunk>> encode(ByteSpan file, std::size_t first,
                                                   const EncodeProgress& progress) = 0;
};

// Returns the ids that stand for the file in a prompt: its parts' tokens, and the ids of its chunks.
inline std::vector<TokenId> prompt_ids(const std::vector<MediaPart>& parts, const MediaHash& file) {
  std::vector<TokenId> ids;
  std::uint32_t chunk = 0;
  for (const MediaPart& part : parts) {
    const std::vector<TokenId> more = part.is_chunk() ? media_ids(file, chunk++, part.shape) : part.tokens;
    ids.insert(ids.end(), more.begin(), more.end());
  }
  return ids;
}

// kInvalid, with the number that is needed, if a model's micro-batches (`tokens_at_once` of its description) are too
// small for what it has to look at at once.
inline Status check_tokens_at_once(const ProjectorDescription& projector, const Description& model) {
  const std::uint32_t needed = projector.tokens_at_once;
  if (needed <= model.tokens_at_once && needed <= model.batch_tokens) return {};
  const std::string number = std::to_string(needed);
  return invalid("the model looks at the " + number + " tokens of a picture at once: pass --ubatch-size " + number +
                 " and --batch-size " + number + ", or more");
}

}  // namespace kvkeep::engine
