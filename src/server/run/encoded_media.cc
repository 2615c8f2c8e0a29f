#include "server/run/encoded_media.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <string>

#include "base/assert.h"
#include "server/run/inbox.h"
#include "server/run/request.h"
#include "server/run/scheduler_stats.h"

namespace kvkeep::server {

namespace {

// Clients that watch are told so often while a picture is encoded.
constexpr double kToldShare = 0.1;

std::uint64_t bytes_of(const std::vector<engine::EncodedChunk>& chunks) {
  std::uint64_t bytes = 0;
  for (const engine::EncodedChunk& chunk : chunks) {
    bytes += chunk.embeddings.size() * sizeof chunk.embeddings[0] + chunk.places.size() * sizeof chunk.places[0];
  }
  return bytes;
}

// The file is the client's; only the encoder is ours.
Error of_place(const std::string& place, const Error& error) {
  const ErrorKind kind = error.kind == ErrorKind::kIo ? ErrorKind::kIo : ErrorKind::kInvalid;
  return {kind, "'" + place + "': " + error.message};
}

// A chunk that the file turns out not to have counts as encoded: there is no more to come.
bool has_chunk(const EncodedFile& file, std::size_t number) {
  return number >= file->size() || !file->at(number).embeddings.empty();
}

void hold(NamedEncodings& held, const FileName& name, const EncodedFile& file) {
  std::erase_if(held, [&](const auto& each) { return each.first == name; });
  held.emplace_back(name, file);
}

FileName name_of(const Request& request, const ChunkSource& chunk) { return {request.job.tenant, chunk.file->hash}; }

// Drops the encodings of files of which no chunk from `number` on is.
void drop_computed(Request& request, std::size_t number) {
  const std::span<const ChunkSource> rest = std::span(request.job.media).subspan(number);
  std::erase_if(request.encoded, [&](const auto& held) {
    return std::ranges::none_of(rest, [&](const ChunkSource& source) { return source.file->hash == held.first.hash; });
  });
}

}  // namespace

MediaSlice::MediaSlice(TokenSpan ids, EncodedFile file, std::size_t number) : file_(std::move(file)) {
  const engine::EncodedChunk& encoded = file_->at(number);
  chunk_ = engine::MediaChunk{
      .ids = ids, .embeddings = encoded.embeddings, .places = encoded.places, .at_once = encoded.at_once};
}

// Embeddings that see one another are computed at once, and few are not worth slices; of the fewest, some ids have
// none.
std::size_t MediaSlice::limit(std::size_t done, std::size_t most) {
  if (!chunk_) return most;
  const std::size_t left = chunk_->ids.size() - done;
  chunk_->begin = done;
  chunk_->count = chunk_->at_once || chunk_->ids.size() <= kLeastMediaIds ? left : std::min(most, left);
  return chunk_->count;
}

void MediaSlice::end_with(const std::shared_ptr<JobSink>& client) {
  if (chunk_ && chunk_->at_once) chunk_->is_unwanted = [client] { return client->gone(); };
}

EncodedMedia::EncodedMedia(engine::Projector* projector, os::Clock& clock, Inbox& inbox, ByteCount most)
    : projector_(projector), clock_(clock), inbox_(inbox), most_bytes_(most.value()) {
  if (projector != nullptr) encoder_ = os::make_thread_executor("kvkeep-encode");
}

EncodedMedia::~EncodedMedia() { ends_ = true; }

Result<MediaSlice> EncodedMedia::find(Request& request, Position at) {
  const std::vector<TokenRange>& all = request.effective.media;
  const auto next = std::ranges::lower_bound(all, at, {}, &TokenRange::begin);
  request.must_encode = false;
  // Text matching changes neither the number nor the order of chunks.
  const auto number = static_cast<std::size_t>(next - all.begin());
  drop_computed(request, std::min(number, request.job.media.size()));
  if (next == all.end()) return MediaSlice();
  // A saved slot names its pictures, and has no files of them.
  if (number >= request.job.media.size()) {
    return invalid(
        "the state of a picture or sound is not in the cache any more, and its file is not here: send the "
        "conversation with it");
  }
  const ChunkSource& source = request.job.media[number];
  TRY_ASSIGN(EncodedFile chunks, file_of(request, source));
  request.must_encode = next->begin == at && chunks == nullptr;
  if (next->begin > at || request.must_encode) return MediaSlice();
  const TokenSpan chunk = TokenSpan(request.effective.tokens).subspan(at.value(), next->size());
  TRY_ASSIGN(const std::vector<MediaRun> runs, media_runs(chunk));
  const bool as_planned = source.number < chunks->size() && (*chunks)[source.number].shape == runs.front().shape;
  if (!as_planned) return of_place(source.file->place, damaged("it has other parts than its head says"));
  MediaSlice slice(chunk, std::move(chunks), source.number);
  slice.end_with(request.sink);
  return slice;
}

Result<EncodedFile> EncodedMedia::file_of(Request& request, const ChunkSource& chunk) {
  const PromptFile& file = *chunk.file;
  if (EncodedFile chunks = known(request, chunk)) {
    request.encoding = nullptr;
    return chunks;
  }
  const FileName name = name_of(request, chunk);
  if (request.encoding == nullptr || !request.encoding->has(name, chunk.number)) {
    // State of it was there when the request began to run, and is lost.
    if (file.bytes == nullptr) {
      return busy("'" + file.place +
                  "': its state was lost, and the file had to make room for those of other requests: send the request "
                  "again");
    }
    request.encoding = begin(request.job.tenant, chunk);
  }
  if (!request.encoding->done()) return EncodedFile();
  const std::shared_ptr<Encoding> ended = std::exchange(request.encoding, nullptr);
  const Encoding::State& state = *ended->state_;
  if (!state.result) return of_place(file.place, state.result.error());
  const EncodedFile& made = *state.result;
  spdlog::debug("encoded '{}' in {:.1f} ms: {} of {} chunks", file.place, state.ms,
                made->size() - std::min(made->size(), ended->first_), made->size());
  keep(name, made);
  hold(request.encoded, name, made);
  return made;
}

EncodedFile EncodedMedia::known(Request& request, const ChunkSource& chunk) {
  NamedEncodings& held = request.encoded;
  const auto has = [&, name = name_of(request, chunk)](const auto& kept) {
    return kept.first == name && has_chunk(kept.second, chunk.number);
  };
  const auto own = std::ranges::find_if(held, has);
  const auto found = std::ranges::find_if(files_, has);
  if (found != files_.end()) files_.splice(files_.begin(), files_, found);
  if (own != held.end()) return own->second;
  if (found == files_.end()) return nullptr;
  hold(held, found->first, found->second);
  return found->second;
}

bool Encoding::has(const FileName& file, std::size_t chunk) const { return file_ == file && first_ <= chunk; }

std::shared_ptr<Encoding> EncodedMedia::begin(const Tenant& tenant, const ChunkSource& chunk) {
  KVKEEP_ASSERT(projector_ != nullptr, "a prompt with media needs a projector");
  std::erase_if(under_way_, [](const auto& each) { return each.expired(); });
  const FileName name{tenant, chunk.file->hash};
  for (const std::weak_ptr<Encoding>& each : under_way_) {
    const std::shared_ptr<Encoding> same = each.lock();
    if (same != nullptr && same->has(name, chunk.number)) return same;
  }
  auto encoding = std::make_shared<Encoding>();
  encoding->file_ = name;
  encoding->first_ = chunk.number;
  under_way_.push_back(encoding);
  encoder_->post(
      [this, bytes = chunk.file->bytes, first = chunk.number, state = encoding->state_,
       wish = std::weak_ptr(encoding)] { encode(*bytes, first, *state, [&] { return !ends_ && !wish.expired(); }); });
  return encoding;
}

// On the encoder's thread.
void EncodedMedia::encode(const std::string& bytes, std::size_t first, Encoding::State& state,
                          const std::function<bool()>& is_wanted) {
  if (!is_wanted()) return;
  const std::int64_t begin_ns = clock_.monotonic_ns();
  auto made = projector_->encode(std::as_bytes(std::span(bytes)), first, [&](double share) {
    if (share >= state.share + kToldShare) {
      state.share = share;
      inbox_.wake();
    }
    return is_wanted();
  });
  state.ms = os::elapsed_ms(begin_ns, clock_.monotonic_ns());
  if (made) {
    inbox_.count([&](SchedulerStats& stats) {
      ++stats.media_encoded;
      stats.encode_ms += state.ms;
    });
    state.result = std::make_shared<const std::vector<engine::EncodedChunk>>(*std::move(made));
  } else {
    state.result = made.error();
  }
  state.done = true;
  inbox_.wake();
}

void EncodedMedia::keep(const FileName& name, EncodedFile chunks) {
  std::erase_if(files_, [&](const auto& kept) {  // which has fewer chunks
    if (kept.first == name) bytes_ -= bytes_of(*kept.second);
    return kept.first == name;
  });
  bytes_ += bytes_of(*chunks);
  files_.emplace_front(name, std::move(chunks));
  while (bytes_ > most_bytes_) {
    bytes_ -= bytes_of(*files_.back().second);
    files_.pop_back();
  }
}

}  // namespace kvkeep::server
