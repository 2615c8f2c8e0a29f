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

std::uint64_t bytes_of(const std::vector<engine::EncodedChunk>& chunks) {
  std::uint64_t bytes = 0;
  for (const engine::EncodedChunk& chunk : chunks) {
    bytes += chunk.embeddings.size() * sizeof chunk.embeddings[0] + chunk.places.size() * sizeof chunk.places[0];
  }
  return bytes;
}

// The file is the client's; only the encoder is ours.
Error of_place(const std::string& place, const Error& error) {
  const bool ours = error.kind == ErrorKind::kAborted || error.kind == ErrorKind::kIo;
  return {ours ? error.kind : ErrorKind::kInvalid, "'" + place + "': " + error.message};
}

}  // namespace

MediaSlice::MediaSlice(TokenSpan ids, std::shared_ptr<const std::vector<engine::EncodedChunk>> file, std::size_t number)
    : file_(std::move(file)) {
  const engine::EncodedChunk& encoded = file_->at(number);
  chunk_ = engine::MediaChunk{
      .ids = ids, .embeddings = encoded.embeddings, .places = encoded.places, .at_once = encoded.at_once};
}

Result<MediaSlice> EncodedMedia::find(const Request& request, Position at, const std::function<bool()>& is_over) {
  const std::vector<TokenRange>& all = request.effective.media;
  const auto ids = std::ranges::find(all, at, &TokenRange::begin);
  if (ids == all.end()) return MediaSlice();
  // Text matching changes neither the number nor the order of chunks.
  const auto number = static_cast<std::size_t>(ids - all.begin());
  KVKEEP_ASSERT(number < request.job.media.size(), "each chunk has a source");
  const ChunkSource& source = request.job.media[number];
  TRY_ASSIGN(Chunks chunks, chunks_of(*source.file, is_over));
  const TokenSpan chunk = TokenSpan(request.effective.tokens).subspan(at.value(), ids->size());
  TRY_ASSIGN(const std::vector<MediaRun> runs, media_runs(chunk));
  const bool as_planned = source.number < chunks->size() && (*chunks)[source.number].shape == runs.front().shape;
  if (!as_planned) return of_place(source.file->place, damaged("it has other parts than its head says"));
  return MediaSlice(chunk, std::move(chunks), source.number);
}

Result<EncodedMedia::Chunks> EncodedMedia::chunks_of(const PromptFile& file, const std::function<bool()>& is_over) {
  const auto known = std::ranges::find(files_, file.hash, [](const auto& kept) { return kept.first; });
  if (known == files_.end()) return encode(file, is_over);
  files_.splice(files_.begin(), files_, known);
  return files_.front().second;
}

Result<EncodedMedia::Chunks> EncodedMedia::encode(const PromptFile& file, const std::function<bool()>& is_over) {
  KVKEEP_ASSERT(projector_ != nullptr, "a prompt with media needs a projector");
  const std::int64_t begin_ns = clock_.monotonic_ns();
  auto made = projector_->encode(std::as_bytes(std::span(*file.bytes)), [&](double) { return !is_over(); });
  if (!made) return of_place(file.place, made.error());
  const double ms = os::elapsed_ms(begin_ns, clock_.monotonic_ns());
  inbox_.count([ms](SchedulerStats& stats) {
    ++stats.media_encoded;
    stats.encode_ms += ms;
  });
  spdlog::debug("encoded '{}' in {:.1f} ms: {} chunks", file.place, ms, made->size());
  const auto chunks = std::make_shared<const std::vector<engine::EncodedChunk>>(*std::move(made));
  keep(file.hash, chunks);
  return chunks;
}

void EncodedMedia::keep(const MediaHash& hash, Chunks chunks) {
  bytes_ += bytes_of(*chunks);
  files_.emplace_front(hash, std::move(chunks));
  while (bytes_ > most_bytes_ && files_.size() > 1) {
    bytes_ -= bytes_of(*files_.back().second);
    files_.pop_back();
  }
}

}  // namespace kvkeep::server
