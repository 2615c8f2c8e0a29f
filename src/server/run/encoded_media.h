#pragma once

// The pictures and sounds of prompts, as embeddings.
//
// A file is encoded only when a prefill comes near a chunk of it whose rows are not known, from that chunk on: on a
// thread of its own, while the engine thread computes the text before it, and other requests. A request holds the
// embeddings until it has computed the file's last chunk, however many others come. They also stay in RAM for a while,
// least recently used out first: a request needs them whose rows were lost before they were stored, or in whose prompt
// other words stand before the picture. An encoding that no request waits for any more ends. Tenants share none: the
// time of a request would tell whether another one sent the same file.

#include <atomic>
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
#include "os/executor.h"

namespace kvkeep::server {

class JobSink;
struct ChunkSource;
struct Request;
class Inbox;

// A picture or sound of a prompt.
struct PromptFile {
  MediaHash hash;                            // names the file, as in its chunks' ids
  std::shared_ptr<const std::string> bytes;  // null: not in use, since the file's rows are known
  std::string place;                         // in the request, for errors: "messages[0].content[1]"
  // Returns the bytes once more if its rows were lost meanwhile, or null if others needed the room; empty: they are
  // gone.
  std::function<std::shared_ptr<const std::string>()> take = {};
};

using EncodedFile = std::shared_ptr<const std::vector<engine::EncodedChunk>>;  // only some chunks have embeddings

// A tenant's file.
struct FileName {
  Tenant tenant = kNoTenant;
  MediaHash hash = {};
  bool operator==(const FileName&) const = default;
};
using NamedEncodings = std::vector<std::pair<FileName, EncodedFile>>;

// One encoding of one file. The requests that wait for it hold it; the thread that encodes sees when none does.
class Encoding {
 public:
  // Any thread.
  bool done() const { return state_->done; }
  double share() const { return state_->share; }  // of it that is done, 0 to 1

 private:
  friend class EncodedMedia;
  bool has(const FileName& file, std::size_t chunk) const;
  struct State {
    std::atomic<bool> done = false;
    std::atomic<double> share = 0;
    Result<EncodedFile> result = EncodedFile();  // written before `done` is set
    double ms = 0;                               // the same
  };

  FileName file_;
  std::size_t first_ = 0;  // of the chunks that are encoded
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

// A slice of a prefill: tokens, or a chunk or a part of it, whose embeddings it keeps alive.
class MediaSlice {
 public:
  MediaSlice() = default;
  MediaSlice(TokenSpan ids, EncodedFile file, std::size_t number);
  // Returns null if the slice has tokens.
  const engine::MediaChunk* chunk() const { return chunk_ ? &*chunk_ : nullptr; }
  // Makes a slice of at most `most` tokens of it, or of the whole chunk if it cannot be computed in slices. `done`: ids
  // of the chunk that are computed already. Returns how many tokens it has.
  std::size_t limit(std::size_t done, std::size_t most);
  // Lets the client leave while the chunk is computed, if that is one call, which may take seconds.
  void end_with(const std::shared_ptr<JobSink>& client);

 private:
  EncodedFile file_;
  std::optional<engine::MediaChunk> chunk_;
};

// Engine thread only.
class EncodedMedia {
 public:
  // `projector`: null if no prompt has media. `inbox` counts, and is woken when an encoding goes on or ends. All of
  // them must outlive this.
  EncodedMedia(engine::Projector* projector, os::Clock& clock, Inbox& inbox, ByteCount most = mebibytes(256));
  // Ends what is being encoded.
  ~EncodedMedia();

  // Returns the slice at `at` of the request's effective prompt, and begins to encode the next file that it needs; sets
  // request.must_encode, and returns nothing, if the slice waits for that. Errors name the file's place in the request:
  // kInvalid if it cannot be decoded, kIo if the encoder failed, kBusy if the file is not at hand any more.
  Result<MediaSlice> find(Request& request, Position at);

 private:
  // Returns the file of the chunk, with its embeddings and those of later ones, or null while it is being encoded.
  Result<EncodedFile> file_of(Request& request, const ChunkSource& chunk);
  // Adds one that is found to those that the request holds.
  EncodedFile known(Request& request, const ChunkSource& chunk);
  std::shared_ptr<Encoding> begin(const Tenant& tenant, const ChunkSource& chunk);
  void encode(const std::string& bytes, std::size_t first, Encoding::State& state,
              const std::function<bool()>& is_wanted);
  void keep(const FileName& name, EncodedFile chunks);

  engine::Projector* const projector_;
  os::Clock& clock_;
  Inbox& inbox_;
  const std::uint64_t most_bytes_;
  std::list<std::pair<FileName, EncodedFile>> files_;  // used last first
  std::uint64_t bytes_ = 0;
  std::vector<std::weak_ptr<Encoding>> under_way_;
  std::atomic<bool> ends_ = false;
  std::unique_ptr<os::Executor> encoder_;  // null: there is no projector. Last, so that its thread ends first
};

}  // namespace kvkeep::server
