#pragma once

// How the server takes pictures and sounds, from its options and its projector.

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "model_loading.h"
#include "serve_options.h"
#include "server/api/media_parts.h"

namespace kvkeep::cli {

// Returns a directory's path without links. kInvalid, with the flag's name, if it is none; "" for "".
Result<std::string> media_directory(const std::string& path);

// Reads a file below a directory, which media_directory() returned; links that lead out of it do not count as below.
// kInvalid with a reason to be put after the file's place in the request. Any thread.
Result<std::string> read_media_file(const std::string& directory, std::string_view path);

// Returns nullopt if there is no projector. `directory`: of media_directory().
std::optional<server::api::MediaRules> media_rules(const LoadedModel& loaded, const MediaOptions& media,
                                                   const std::string& directory);

}  // namespace kvkeep::cli
