#pragma once

// The pictures and sounds of a prompt: reads those that are named by URL, holds the bytes of all of them
// (held_files.h), and finds out which ids stand for them.
//
// Both may take seconds, for other hosts are asked, and the samples of a sound must be counted; so requests that may
// have such files have threads of their own (lane_of_files()), each has limits, and gives up when its client left.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "chat/media_names.h"
#include "chat/render.h"
#include "engine/projector.h"
#include "server/routes/routes.h"
#include "server/run/job.h"

namespace kvkeep::server {

inline constexpr std::int64_t kMostFetchMs = 30'000;  // for all files of a request from other hosts

inline constexpr double kMostSoundSeconds = 3'600;  // of all sounds of a request: to count them takes time by these

inline constexpr std::uint64_t kMostPixels = 1'000'000'000;  // of all pictures of a request

// How long the files of a request with this body may take: they have to be fetched, or may be sounds.
Lane lane_of_files(const Service& service, const HttpRequest& http);

// Reads the files that have a URL, each once however often it is named, and holds the bytes of all. Files that have
// neither stay as they are. Errors name the file's place: kInvalid (it cannot be read, or the sounds up to it are
// longer, or the pictures larger, than a request's may be), kNoSpace (all together are more than is ever held), kBusy
// (there is no room for them now); kAborted once `gone` returns true.
Status settle_files(const Service& service, std::span<chat::MediaFile* const> files, const std::function<bool()>& gone);

// The ids of a prompt's files, and where the embeddings of their chunks come from.
class PromptFiles {
 public:
  // `service`, `tenant` and `gone` must outlive this.
  PromptFiles(const Service& service, std::vector<chat::MediaFile> files, const Tenant& tenant,
              const std::function<bool()>& gone);

  // Finds out the parts of these files, until they have `most` ids together; returns how many they have. Errors as
  // add(), and kAborted.
  Result<std::size_t> plan(std::span<const std::size_t> numbers, std::size_t most);
  // Returns the ids of a file. kInvalid, with its place, if it is no picture or sound, or beyond a limit.
  Result<std::vector<TokenId>> add(std::size_t number);
  // Notes which ids stand where the files' names were.
  void note_ids(chat::RenderedPrompt& rendered) const;
  std::vector<ChunkSource> take() { return std::move(sources_); }

 private:
  Result<std::vector<engine::MediaPart>> count(ByteSpan file);
  Result<const std::vector<engine::MediaPart>*> parts_of(std::size_t number);

  const Service& service_;
  const std::vector<chat::MediaFile> files_;
  const Tenant& tenant_;
  const std::function<bool()>& gone_;
  std::vector<std::vector<engine::MediaPart>> parts_;  // of each file; none: they are not known yet
  std::vector<std::vector<TokenId>> ids_;
  std::vector<ChunkSource> sources_;
};

}  // namespace kvkeep::server
