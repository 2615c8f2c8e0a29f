#include "media_setup.h"

#include <cstddef>

#include "named_files.h"
#include "os/file_system.h"
#include "os/paths.h"

namespace kvkeep::cli {
namespace {

constexpr std::size_t kMostFileBytes = 64U << 20;  // as much as the projector reads

}  // namespace

Result<std::string> media_directory(const std::string& path) {
  if (path.empty()) return std::string();
  Result<std::string> place = os::resolve_links(path);
  const auto listed = place ? os::real_file_system().list(*place) : Result<std::vector<os::FileInfo>>(place.error());
  if (!listed) return invalid("--media-path: " + listed.error().message);
  return place;
}

// The client is not told whether a file outside the directory exists.
Result<std::string> read_media_file(const std::string& directory, std::string_view path) {
  const Error none = invalid("there is no such file below --media-path");
  if (path.empty() || path.find('\0') != std::string_view::npos) return none;
  const Result<std::string> target = os::resolve_links(directory + "/" + std::string(path));
  if (!target || !target->starts_with(directory + "/")) return none;
  Result<std::string> bytes = read_file(*target, kMostFileBytes);
  if (!bytes) return bytes.error().kind == ErrorKind::kInvalid ? invalid("the file is larger than 64 MiB") : none;
  return bytes;
}

std::optional<server::api::MediaRules> media_rules(const LoadedModel& loaded, const MediaOptions& media,
                                                   const std::string& directory) {
  if (loaded.projector == nullptr) return std::nullopt;
  const engine::ProjectorDescription& facts = loaded.projector->description();
  server::api::MediaRules rules;
  rules.key = {.model = loaded.engine->description().fingerprint,
               .projector = facts.identity,
               .least_tokens = media.least_tokens,
               .most_tokens = media.most_tokens};
  rules.pictures = facts.pictures;
  rules.sound = facts.sound;
  if (!directory.empty()) {
    rules.read_file = [directory](std::string_view path) { return read_media_file(directory, path); };
  }
  return rules;
}

}  // namespace kvkeep::cli
