#include "server/routes/prompt_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "os/clock.h"
#include "server/api/media_parts.h"
#include "server/routes/sender.h"
#include "server/run/encoded_media.h"

namespace kvkeep::server {

namespace {

constexpr std::string_view kFileUrl = "file://";

Error of_place(const chat::MediaFile& file, const Error& error) {
  return {error.kind, fmt::format("'{}': {}", file.place, error.message)};
}

Error client_left() { return aborted("the client left"); }

// Reads and holds the files of one request.
class FileSettler {
 public:
  FileSettler(const Service& service, const std::function<bool()>& gone)
      : service_(service), rules_(service.defaults.media_rules()), gone_(gone) {}

  Status settle(chat::MediaFile& file) {
    if (gone_()) return client_left();
    if (!file.url.empty()) TRY(read(file));
    if (file.bytes == nullptr) return {};
    if (counted_.insert(file.hash).second) TRY(count(file));
    auto held = service_.held_files->hold(file.hash, std::move(file.bytes));
    if (!held) return of_place(file, held.error());
    file.bytes = *std::move(held);
    return {};
  }

 private:
  // Equal files count once.
  Status count(const chat::MediaFile& file) {
    bytes_ += file.bytes->size();
    const std::uint64_t most = service_.held_files->most_of_request().value();
    if (bytes_ > most) {
      return of_place(file, no_space(fmt::format(
                                "with it the request's files have {} MiB, and at most {} are taken: send fewer, or "
                                "start the server with a larger --max-body-mb",
                                bytes_ >> 20, most >> 20)));
    }
    const ByteSpan content = std::as_bytes(std::span(*file.bytes));
    pixels_ += service_.projector->pixels(content);
    if (pixels_ > kMostPixels) {
      return of_place(file, invalid(fmt::format("with it the request's pictures have {} million pixels, and at most {} "
                                                "are taken: send fewer, or smaller ones",
                                                pixels_ / 1'000'000, kMostPixels / 1'000'000)));
    }
    seconds_ += service_.projector->sound_seconds(content);
    if (seconds_ <= kMostSoundSeconds) return {};
    return of_place(file, invalid(fmt::format("with it the request's sounds have up to {:.0f} seconds, and at most "
                                              "{:.0f} are taken: send fewer, or shorter ones",
                                              seconds_, kMostSoundSeconds)));
  }

  Status read(chat::MediaFile& file) {
    const std::string url = std::exchange(file.url, {});
    if (const auto known = read_.find(url); known != read_.end()) {
      file.hash = known->second.hash;
      file.bytes = known->second.bytes;
      return {};
    }
    auto bytes = url.starts_with(kFileUrl) ? rules_->read_file(url.substr(kFileUrl.size())) : fetch(url);
    if (!bytes && bytes.error().kind == ErrorKind::kAborted) return bytes.error();
    if (!bytes) return of_place(file, invalid(bytes.error().message));
    if (bytes->empty()) return of_place(file, invalid("the file is empty"));
    file.hash = media_hash(rules_->key, std::as_bytes(std::span(*bytes)));
    file.bytes = std::make_shared<const std::string>(*std::move(bytes));
    read_.emplace(url, file);
    return {};
  }

  Result<std::string> fetch(const std::string& url) {
    if (fetch_left_ms_ <= 0) {
      return invalid(
          fmt::format("the files before it took all of the {} seconds that a request has for files of other "
                      "hosts",
                      kMostFetchMs / 1'000));
    }
    const std::int64_t begin_ns = service_.clock->monotonic_ns();
    auto bytes = rules_->fetch(url, {fetch_left_ms_, gone_});
    fetch_left_ms_ -= static_cast<std::int64_t>(os::elapsed_ms(begin_ns, service_.clock->monotonic_ns()));
    return bytes;
  }

  const Service& service_;
  const api::MediaRules* const rules_;  // null: no request has files
  const std::function<bool()>& gone_;
  std::map<std::string, chat::MediaFile, std::less<>> read_;  // by URL
  std::set<MediaHash> counted_;
  std::uint64_t bytes_ = 0;
  std::uint64_t pixels_ = 0;
  double seconds_ = 0;  // of sounds
  std::int64_t fetch_left_ms_ = kMostFetchMs;
};

}  // namespace

// To read the head of a picture takes no time.
Lane lane_of_files(const Service& service, const HttpRequest& http) {
  const auto& rules = service.defaults.media;
  if (!rules || !api::has_media_part(http.body)) return {};
  if (rules->fetch && api::may_name_remote_file(http.body)) {
    return {.kind = Lane::Kind::kWaits, .client = sender_of(service, http)};
  }
  return {.kind = rules->sound ? Lane::Kind::kLong : Lane::Kind::kShort};
}

Status settle_files(const Service& service, std::span<chat::MediaFile* const> files,
                    const std::function<bool()>& gone) {
  if (files.empty()) return {};
  FileSettler settler(service, gone);
  for (chat::MediaFile* const file : files) TRY(settler.settle(*file));
  return {};
}

PromptFiles::PromptFiles(const Service& service, std::vector<chat::MediaFile> files, const Tenant& tenant,
                         const std::function<bool()>& gone)
    : service_(service),
      files_(std::move(files)),
      tenant_(tenant),
      gone_(gone),
      parts_(files_.size()),
      ids_(files_.size()) {}

Result<std::vector<engine::MediaPart>> PromptFiles::count(ByteSpan file) {
  const double seconds = service_.projector->sound_seconds(file);
  if (seconds <= 0) return service_.projector->plan(file);
  return service_.sound_room->with<std::vector<engine::MediaPart>>(seconds, gone_,
                                                                   [&] { return service_.projector->plan(file); });
}

// To read the head of a picture takes no time, but the samples of a sound must be counted.
Result<const std::vector<engine::MediaPart>*> PromptFiles::parts_of(std::size_t number) {
  std::vector<engine::MediaPart>& parts = parts_[number];
  if (!parts.empty()) return &std::as_const(parts);
  const chat::MediaFile& file = files_[number];
  const std::string name = file.hash.hex();
  if (const auto known = service_.media_memo->find(name, tenant_)) {
    parts = *known;
    return &std::as_const(parts);
  }
  if (file.bytes == nullptr) return of_place(file, invalid("the file is not kept any more"));
  auto planned = count(std::as_bytes(std::span(*file.bytes)));
  if (!planned && planned.error().kind == ErrorKind::kAborted) return planned.error();
  if (!planned) return of_place(file, invalid(planned.error().message));
  parts = *std::move(planned);
  std::size_t bytes = parts.size() * sizeof(engine::MediaPart);
  for (const engine::MediaPart& part : parts) bytes += part.tokens.size() * sizeof(TokenId);
  service_.media_memo->remember(name, parts, bytes, tenant_);
  return &std::as_const(parts);
}

Result<std::size_t> PromptFiles::plan(std::span<const std::size_t> numbers, std::size_t most) {
  std::size_t tokens = 0;
  for (const std::size_t number : numbers) {
    if (gone_()) return client_left();
    TRY_ASSIGN(const auto* parts, parts_of(number));
    for (const engine::MediaPart& part : *parts) {
      tokens += part.is_chunk() ? std::max<std::size_t>(part.shape.embeddings, kLeastMediaIds) : part.tokens.size();
    }
    if (tokens >= most) break;
  }
  return tokens;
}

Result<std::vector<TokenId>> PromptFiles::add(std::size_t number) {
  const chat::MediaFile& file = files_[number];
  TRY_ASSIGN(const auto* parts, parts_of(number));
  const auto source = std::make_shared<const PromptFile>(
      PromptFile{file.hash, file.bytes, file.place, service_.held_files->keep_spare(file.hash)});
  std::uint32_t chunk = 0;
  for (const engine::MediaPart& part : *parts) {
    if (part.is_chunk()) sources_.push_back({source, chunk++});
  }
  ids_[number] = engine::prompt_ids(*parts, file.hash);
  return ids_[number];
}

void PromptFiles::note_ids(chat::RenderedPrompt& rendered) const {
  for (chat::PromptSpan& span : rendered.spans) {
    if (span.kind != chat::SpanKind::kMedia || ids_[span.number].empty()) continue;
    span.marker = ids_[span.number].front();
    span.ids = ids_[span.number].size();
  }
}

}  // namespace kvkeep::server
