#include "bench/run/peer_check.h"

#include <fmt/format.h>

#include "bench/run/server_api.h"
#include "os/environment.h"
#include "server/http/http_client.h"

namespace kvkeep::bench {
namespace {

constexpr int kAnswerMs = 5'000;

// Any status but "not yet" is an answer: /health is not what is played.
Status check_health(const std::string& url, Interrupt& interrupt) {
  TRY_ASSIGN(server::HttpClient http, server::HttpClient::make(url));
  const Interrupt::Guard guard(interrupt, [&] { http.stop(); });
  TRY_ASSIGN(const auto reply,
             http.send({.method = "GET", .path = "/health", .headers = {}, .body = {}, .silence_ms = kAnswerMs}));
  if (reply.first.status == 503) return unsupported("it is not ready yet (GET /health: status 503)");
  return {};
}

Status check_url(const std::string& url, Interrupt& interrupt) {
  TRY(check_health(url, interrupt));
  TRY_ASSIGN(const std::unique_ptr<ServerApi> api, ServerApi::make(url, interrupt));
  const auto ids = api->prompt_ids({{{"role", "user"}, {"content", "Hello"}}});
  if (!ids) return ids.error();
  return {};
}

Status named(const std::string& flag, const Status& status) {
  if (status) return {};
  return Error{status.error().kind, flag + ": " + status.error().message};
}

}  // namespace

Status check_peer(const BenchOptions& options, Interrupt& interrupt) {
  if (!options.peer_command.empty()) {
    const auto program = os::find_program(options.peer_command.front());
    if (!program) return named("--peer", program.error());
  }
  if (!options.peer_url.empty()) {
    const Status checked = check_url(options.peer_url, interrupt);
    TRY(interrupt.check());
    return named("--peer-url " + options.peer_url, checked);
  }
  return {};
}

}  // namespace kvkeep::bench
