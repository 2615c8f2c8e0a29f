#pragma once

// The four calls that playing a workload needs: text to ids, messages to prompt ids, and a streamed chat.

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "bench/dialect.h"
#include "bench/run/interrupt.h"
#include "server/http/http_client.h"

namespace kvkeep::bench {

// A streamed reply and when it came, in wall milliseconds since the request was sent.
struct TimedReply {
  int status = 0;
  ReplyFacts facts;
  double ttft_ms = 0;
  double total_ms = 0;
  double own_cpu_ms = 0;  // CPU time of this thread meanwhile: what asking costs
};

// One thread; the interrupt ends what is under way. Errors: those of HttpClient::send(), and kUnsupported with the
// server's words where a call is refused or answers something else.
class ServerApi {
 public:
  // `base_url` as HttpClient::make() takes it.
  static Result<std::unique_ptr<ServerApi>> make(const std::string& base_url, Interrupt& interrupt);

  // Without begin-of-sequence; markers are text.
  Result<std::vector<TokenId>> tokenize(std::string_view text);
  // What a chat with these messages is evaluated as (/apply-template, then /tokenize).
  Result<std::vector<TokenId>> prompt_ids(const nlohmann::ordered_json& messages);
  // Greedy. A refusal is a reply, with its words in facts.error. `on_first` is called when the first token came.
  Result<TimedReply> chat(const nlohmann::ordered_json& messages, std::uint32_t reply_tokens,
                          const std::function<void()>& on_first = {});

 private:
  ServerApi(server::HttpClient http, Interrupt& interrupt);
  Result<nlohmann::ordered_json> post(const char* path, const nlohmann::ordered_json& body);
  Result<std::vector<TokenId>> token_ids(std::string_view text, bool special);

  server::HttpClient http_;
  const Interrupt::Guard guard_;
};

}  // namespace kvkeep::bench
