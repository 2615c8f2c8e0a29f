// Flags of `serve` about pictures and sound.

#include "flag_values.h"
#include "serve_flags.h"

namespace kvkeep::cli {
namespace {

// -1, llama-server's word for the projector's own, and 0 are the same.
Assign limit_into(std::uint32_t& target) {
  return [&target](const std::string& text) -> Status {
    std::optional<std::uint32_t> given;
    TRY(number_or_automatic(given, std::uint32_t{0}, kTokensMax, std::uint32_t{1}).set(text));
    target = given.value_or(0);
    return {};
  };
}

}  // namespace

std::vector<Flag> media_flags(MediaOptions& media) {
  return {
      {.group = "Pictures and sound",
       .spelling = "-mm, --mmproj FILE",
       .environment = "LLAMA_ARG_MMPROJ",
       .default_text = "none",
       .effect = "GGUF file of the model's projector, with which it takes pictures or sound.",
       .assign = text_into(media.projector)},
      {.spelling = "--mmproj-auto, --no-mmproj, --no-mmproj-auto",
       .environment = "LLAMA_ARG_MMPROJ_AUTO",
       .effect = "Load the file that --mmproj names; off: the model takes text only.",
       .assign = switch_into(media.enabled)},
      {.spelling = "--mmproj-offload, --no-mmproj-offload",
       .environment = "LLAMA_ARG_MMPROJ_OFFLOAD",
       .effect = "Encode on a device, if there is one.",
       .assign = switch_into(media.offload)},
      {.spelling = "-mmdev, --mmproj-device NAME",
       .environment = "LLAMA_ARG_MMPROJ_DEVICE",
       .default_text = "the first",
       .effect = "Device that encodes, by the name that --list-devices prints, or CPU.",
       .assign = text_into(media.device)},
      {.spelling = "--image-min-tokens N",
       .environment = "LLAMA_ARG_IMAGE_MIN_TOKENS",
       .default_text = "the projector's own",
       .effect = "Smaller pictures are enlarged to this many tokens, if the model takes pictures of any size.",
       .assign = limit_into(media.least_tokens)},
      {.spelling = "--image-max-tokens N",
       .environment = "LLAMA_ARG_IMAGE_MAX_TOKENS",
       .default_text = "the projector's own",
       .effect = "Larger pictures are reduced to this many tokens, if the model takes pictures of any size.",
       .assign = limit_into(media.most_tokens)},
      {.spelling = "--media-path DIR",
       .environment = "LLAMA_ARG_MEDIA_PATH",
       .default_text = "none",
       .effect = "Requests may name files below this directory with file:// URLs.",
       .assign = text_into(media.directory)},
      {.spelling = "--allow-remote-media HOSTS",
       .default_text = "none",
       .effect = "Fetch pictures and sounds that requests name by http: and https: URLs from these hosts: names, "
                 "*.example.com or *, each with :PORT if need be, separated by commas.",
       .assign = [&media](const std::string& text) -> Status {
         TRY_ASSIGN(media.remote_hosts, server::parse_remote_hosts(text));
         return {};
       }},
  };
}

Status check_media(const MediaOptions& media) {
  if (media.most_tokens != 0 && media.least_tokens > media.most_tokens) {
    return invalid("--image-min-tokens is larger than --image-max-tokens");
  }
  if (!media.offload && !media.device.empty()) return invalid("--mmproj-device needs --mmproj-offload");
  if (!media.projector.empty()) return {};
  if (!media.device.empty()) return invalid("--mmproj-device needs --mmproj FILE");
  if (media.least_tokens != 0) return invalid("--image-min-tokens needs --mmproj FILE");
  if (media.most_tokens != 0) return invalid("--image-max-tokens needs --mmproj FILE");
  if (!media.directory.empty()) return invalid("--media-path needs --mmproj FILE");
  return media.remote_hosts.empty() ? Status() : invalid("--allow-remote-media needs --mmproj FILE");
}

}  // namespace kvkeep::cli
