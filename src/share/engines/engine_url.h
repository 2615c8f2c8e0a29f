#pragma once

// The URL of an engine, and the secrets that never stand in it: command lines are seen by every user of a machine.
//
//   valkey://HOST[:PORT][,HOST[:PORT]...]    also redis://; valkeys:// and rediss:// use TLS. ?ca=FILE: a private CA
//   s3://BUCKET[/PREFIX]?endpoint=URL        &region=NAME; without an endpoint, Amazon's of the region
//   dir:/PATH                                ?limit-gb=N

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "os/process.h"

namespace kvkeep::share {

struct HostPort {
  std::string host;  // without brackets
  int port = 0;
  bool operator==(const HostPort&) const = default;
};

enum class EngineKind { kDirectory, kValkey, kS3 };

struct EngineUrl {
  EngineKind kind = EngineKind::kDirectory;
  std::string text = {};                // as it was given
  std::vector<HostPort> hosts = {};     // Valkey: nodes by which the others are found
  bool tls = false;                     // Valkey
  std::string ca_file = {};             // trusted instead of the system's CAs
  std::string bucket = {};              // S3
  std::string prefix = {};              // S3: without slashes at its ends
  std::string endpoint = {};            // S3: "https://host:port"
  std::string region = {};              // S3
  std::string path = {};                // directory: absolute
  std::optional<ByteCount> limit = {};  // directory
};

// Returns kInvalid with a message that shows the spelling.
Result<EngineUrl> parse_engine_url(std::string_view text);

struct EngineSecrets {
  std::string user = {};
  std::string password = {};
  std::string password_from = {};  // "KVKEEP_SHARE_PASSWORD", or "the file PATH"
  std::string access_key = {};
  std::string secret_key = {};
  std::string session_token = {};
};

// The variables that secrets come from. Instead of one that has a companion NAME_FILE, that may name a file.
inline constexpr std::array<std::string_view, 7> kSecretVariables{
    "KVKEEP_SHARE_USER",     "KVKEEP_SHARE_PASSWORD",      "KVKEEP_SHARE_PASSWORD_FILE", "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY", "AWS_SECRET_ACCESS_KEY_FILE", "AWS_SESSION_TOKEN"};

// Reads these variables. Fails if a file cannot be read, or a variable and its companion are both set.
Result<EngineSecrets> read_engine_secrets(const os::Environment& environment);

// Returns a line for each secret that others on the network can read on its way, and what to do.
std::vector<std::string> exposed_secrets(const EngineUrl& url, const EngineSecrets& secrets);

// Returns the contents of a file that holds one secret, without the line's end. kInvalid if it is empty, has more than
// one line or 4 KiB, others than its owner may read it, or it belongs to another user.
Result<std::string> read_secret_file(const std::string& path);

}  // namespace kvkeep::share
