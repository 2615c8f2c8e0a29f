#pragma once

// The pictures and sounds of prompts, as embeddings.
//
// A file is encoded only when a prefill reaches a chunk of it whose rows are not known. The embeddings then stay in RAM
// for a while, least recently used out first: the file's other chunks need them, and so does a request whose rows were
// lost before they were stored, or in whose prompt other words stand before the picture. Engine thread only, on which
// encoding takes its time: running replies pause meanwhile.

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "base/media_ids.h"
#include "base/result.h"
#include "base/types.h"
#include "engine/engine.h"
#include "engine/projector.h"
#include "os/clock.h"

namespace kvkeep::server {

struct ChunkSource;
struct Request;
class Inbox;

// A picture or sound of a prompt.
struct PromptFile {
  MediaHash hash;  // names the file, as in its chunks' ids
  std::shared_ptr<const std::string> bytes;
  std::string place;  // in the request, for errors: "messages[0].content[1]"
};

// A slice of a prefill: tokens, or one chunk, whose embeddings it keeps alive.
class MediaSlice {
 public:
  MediaSlice() = default;
  MediaSlice(TokenSpan ids, std::shared_ptr<const std::vector<engine::EncodedChunk>> file, std::size_t number);
  // Returns null if the slice has tokens.
  const engine::MediaChunk* chunk() const { return chunk_ ? &*chunk_ : nullptr; }

 private:
  std::shared_ptr<const std::vector<engine::EncodedChunk>> file_;
  std::optional<engine::MediaChunk> chunk_;
};

class EncodedMedia {
 public:
  // `projector`: null if no prompt has media. `inbox` counts. All of them must outlive this.
  EncodedMedia(engine::Projector* projector, os::Clock& clock, Inbox& inbox, ByteCount most = mebibytes(256))
      : projector_(projector), clock_(clock), inbox_(inbox), most_bytes_(most.value()) {}

  // Returns the slice at `at` of the request's effective prompt, after encoding its file if that is necessary. Errors
  // name the file's place in the request: kInvalid if it cannot be decoded, kAborted if `is_over` returned true, kIo if
  // the encoder failed.
  Result<MediaSlice> find(const Request& request, Position at, const std::function<bool()>& is_over);

 private:
  using Chunks = std::shared_ptr<const std::vector<engine::EncodedChunk>>;
  Result<Chunks> chunks_of(const PromptFile& file, const std::function<bool()>& is_over);
  Result<Chunks> encode(const PromptFile& file, const std::function<bool()>& is_over);
  void keep(const MediaHash& hash, Chunks chunks);

  engine::Projector* const projector_;
  os::Clock& clock_;
  Inbox& inbox_;
  const std::uint64_t most_bytes_;
  std::list<std::pair<MediaHash, Chunks>> files_;  // used last first
  std::uint64_t bytes_ = 0;
};

}  // namespace kvkeep::server
