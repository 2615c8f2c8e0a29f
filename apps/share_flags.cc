// Flags about the shared tier.

#include "flag_values.h"
#include "serve_flags.h"
#include "share/engines/engine_url.h"

namespace kvkeep::cli {

namespace {

using share::ShareMode;

constexpr std::int64_t kShareHoursMax = 24 * 365;

}  // namespace

std::vector<Flag> engine_flags(SharedTierOptions& shared) {
  return {
      {.group = "Shared tier",
       .spelling = "--share URL",
       .default_text = "none",
       .effect =
           "Share cached state with other servers: valkey://HOST:PORT,... (valkeys:// with TLS), "
           "s3://BUCKET/PREFIX?endpoint=URL, or dir:/PATH?limit-gb=N, which may lie on a NAS. Log-ins come from the "
           "environment: KVKEEP_SHARE_USER and KVKEEP_SHARE_PASSWORD or KVKEEP_SHARE_PASSWORD_FILE for Valkey; "
           "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY or AWS_SECRET_ACCESS_KEY_FILE, and AWS_SESSION_TOKEN for "
           "S3.",
       .assign = text_into(shared.url)},
      {.spelling = "--share-key-file FILE",
       .default_text = "none",
       .effect =
           "Secret that all servers which share have: others can neither find nor forge shared state. Without it, "
           "everybody who can write there can plant state.",
       .assign = text_into(shared.key_file)},
      {.spelling = "--share-encrypt",
       .effect = "Encrypt shared state with the key: without this flag, those who can read there can read prompts.",
       .assign = switch_into(shared.encrypt)},
      {.spelling = "--share-ttl-hours N",
       .effect = "Published state leaves the shared tier after N hours without a use.",
       .assign = number_into(shared.ttl_hours, 1, kShareHoursMax)},
      {.spelling = "--share-across-devices",
       .effect =
           "Also take state that other kinds of devices computed; replies may then differ from those without sharing.",
       .assign = switch_into(shared.across_devices)},
  };
}

std::vector<Flag> share_flags(SharedTierOptions& shared) {
  std::vector<Flag> flags = engine_flags(shared);
  flags.insert(
      flags.begin() + 1,
      {.spelling = "--share-mode read|write|both",
       .effect = "read: find what others published; write: publish what this server computes; both.",
       .assign = choice_into(shared.mode,
                             {{"read", ShareMode::kRead}, {"write", ShareMode::kWrite}, {"both", ShareMode::kBoth}})});
  return flags;
}

Status check_share(const SharedTierOptions& shared) {
  const SharedTierOptions defaults;
  SharedTierOptions others = shared;
  others.url.clear();
  if (!shared.url.empty()) {
    if (const auto url = share::parse_engine_url(shared.url); !url) return invalid("--share: " + url.error().message);
  }
  if (shared.url.empty() && others != defaults) return invalid("the --share-... flags need --share URL");
  if (shared.encrypt && shared.key_file.empty()) return invalid("--share-encrypt needs --share-key-file FILE");
  return {};
}

}  // namespace kvkeep::cli
