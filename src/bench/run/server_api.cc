#include "bench/run/server_api.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "os/clock.h"
#include "os/threads.h"

namespace kvkeep::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kShownCharacters = 300;

std::string dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

Error unexpected(const char* path, int status, const std::string& body) {
  return unsupported(fmt::format("POST {}: status {}, {}", path, status, body.substr(0, kShownCharacters)));
}

}  // namespace

Result<std::unique_ptr<ServerApi>> ServerApi::make(const std::string& base_url, Interrupt& interrupt) {
  TRY_ASSIGN(server::HttpClient http, server::HttpClient::make(base_url));
  return std::unique_ptr<ServerApi>(new ServerApi(std::move(http), interrupt));
}

ServerApi::ServerApi(server::HttpClient http, Interrupt& interrupt)
    : http_(std::move(http)), guard_(interrupt, [this] { http_.stop(); }) {}

Result<Json> ServerApi::post(const char* path, const Json& body) {
  TRY_ASSIGN(const auto reply, http_.send({.method = "POST", .path = path, .headers = {}, .body = dump(body)}));
  const auto& [head, text] = reply;
  if (head.status != 200) return unexpected(path, head.status, text);
  Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return unexpected(path, head.status, text);
  return json;
}

Result<std::vector<TokenId>> ServerApi::token_ids(std::string_view text, bool special) {
  constexpr char kPath[] = "/tokenize";
  TRY_ASSIGN(const Json reply, post(kPath, {{"content", text}, {"add_special", special}, {"parse_special", special}}));
  const auto found = reply.find("tokens");
  if (found == reply.end() || !found->is_array()) return unexpected(kPath, 200, dump(reply));
  std::vector<TokenId> ids;
  ids.reserve(found->size());
  for (const Json& id : *found) {
    if (!id.is_number_integer()) return unexpected(kPath, 200, dump(reply));
    ids.push_back(id.get<TokenId>());
  }
  return ids;
}

Result<std::vector<TokenId>> ServerApi::tokenize(std::string_view text) { return token_ids(text, false); }

Result<std::vector<TokenId>> ServerApi::prompt_ids(const Json& messages) {
  constexpr char kPath[] = "/apply-template";
  TRY_ASSIGN(const Json reply, post(kPath, {{"messages", messages}}));
  const auto found = reply.find("prompt");
  if (found == reply.end() || !found->is_string()) return unexpected(kPath, 200, dump(reply));
  return token_ids(found->get_ref<const std::string&>(), true);
}

Result<TimedReply> ServerApi::chat(const Json& messages, std::uint32_t reply_tokens,
                                   const std::function<void()>& on_first) {
  constexpr char kPath[] = "/v1/chat/completions";
  const Json body = {{"messages", messages}, {"temperature", 0}, {"max_tokens", reply_tokens}};
  const std::string text = dump(adapt_request(Dialect::kOpenAiChat, body, {.model = {}, .reply_tokens = {}}));
  os::Clock& clock = os::real_clock();
  TimedReply timed;
  std::optional<ReplyReader> reader;
  const std::int64_t cpu_ns = os::thread_cpu_ns();
  const std::int64_t sent_ns = clock.monotonic_ns();
  const auto on_status = [&](int status) { reader.emplace(Dialect::kOpenAiChat, status); };
  const auto on_bytes = [&](std::string_view bytes) {
    if (reader->feed(bytes) && timed.ttft_ms == 0) {
      timed.ttft_ms = os::elapsed_ms(sent_ns, clock.monotonic_ns());
      if (on_first) on_first();
    }
    return true;
  };
  TRY_ASSIGN(const server::ClientReply reply,
             http_.send({.method = "POST", .path = kPath, .headers = {}, .body = text}, on_status, on_bytes));
  timed.total_ms = os::elapsed_ms(sent_ns, clock.monotonic_ns());
  timed.own_cpu_ms = os::elapsed_ms(cpu_ns, os::thread_cpu_ns());
  timed.status = reply.status;
  timed.facts = reader->finish();
  return timed;
}

}  // namespace kvkeep::bench
