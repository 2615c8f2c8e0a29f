#include "share/engines/make_engine.h"

#include <spdlog/spdlog.h>

#include <utility>

#include "share/engines/detached_engine.h"
#include "share/engines/directory_engine.h"
#include "share/engines/s3_engine.h"
#include "share/engines/valkey_engine.h"

namespace kvkeep::share {
namespace {

using Made = Result<std::unique_ptr<ObjectEngine>>;

Made make_directory(const EngineUrl& url, os::Clock& clock, os::FileSystem& files, EngineUse use) {
  constexpr std::size_t kThreads = 16;  // a look-up takes four of them
  constexpr std::int64_t kFirstContactNs = 2'000'000'000;
  const DirectoryOptions options{.path = url.path, .limit = url.limit, .makes_folder = use == EngineUse::kAll};
  auto directory = std::make_unique<DirectoryEngine>(options, files, clock);
  auto engine = std::make_unique<DetachedEngine>(std::move(directory), clock, kThreads);
  // Any other trouble may pass, and is waited for as with the other engines.
  const Status reached = engine->probe(NodeId{0}, clock.monotonic_ns() + kFirstContactNs);
  if (!reached.ok() && reached.error().kind == ErrorKind::kNotFound) {
    return invalid(reached.error().message);
  }
  return std::unique_ptr<ObjectEngine>(std::move(engine));
}

Made make_valkey(const EngineUrl& url, const EngineSecrets& secrets, os::Clock& clock) {
  if (!has_valkey()) {
    return unsupported("this build cannot use " + url.text + ": it was made without hiredis 1.2 (docs/building.md)");
  }
  if (!secrets.user.empty() && secrets.password.empty()) {
    return invalid("KVKEEP_SHARE_USER is set without KVKEEP_SHARE_PASSWORD_FILE or KVKEEP_SHARE_PASSWORD");
  }
  ValkeyAccess access{.tls = url.tls,
                      .ca_file = url.ca_file,
                      .user = secrets.user,
                      .password = secrets.password,
                      .password_from = secrets.password_from};
  return std::unique_ptr<ObjectEngine>(std::make_unique<ValkeyEngine>(url, std::move(access), clock));
}

Made make_s3(const EngineUrl& url, const EngineSecrets& secrets, os::Clock& clock) {
  if (!has_s3()) {
    return unsupported("this build cannot use " + url.text + ": it was made without libcurl 7.88 (docs/building.md)");
  }
  if (secrets.access_key.empty() != secrets.secret_key.empty()) {
    return invalid("set both AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (or AWS_SECRET_ACCESS_KEY_FILE), or neither");
  }
  S3Access access{.endpoint = url.endpoint,
                  .bucket = url.bucket,
                  .region = url.region,
                  .access_key = secrets.access_key,
                  .secret_key = secrets.secret_key,
                  .session_token = secrets.session_token,
                  .ca_file = url.ca_file};
  return std::unique_ptr<ObjectEngine>(std::make_unique<S3Engine>(url.text, url.prefix, std::move(access), clock));
}

}  // namespace

Made make_engine(const EngineUrl& url, const EngineSecrets& secrets, os::Clock& clock, os::FileSystem& files,
                 EngineUse use) {
  for (const std::string& line : exposed_secrets(url, secrets)) spdlog::warn("shared tier: {}", line);
  switch (url.kind) {
    case EngineKind::kDirectory: return make_directory(url, clock, files, use);
    case EngineKind::kValkey: return make_valkey(url, secrets, clock);
    case EngineKind::kS3: return make_s3(url, secrets, clock);
  }
  return invalid("unknown kind of engine");
}

}  // namespace kvkeep::share
