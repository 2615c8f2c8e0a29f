#pragma once

// One connection to a server under measurement: chats, recorded requests, and what the measurement asks for itself.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "bench/run/interrupt.h"
#include "bench/sessions/dialect.h"
#include "bench/sessions/session.h"
#include "server/http/http_client.h"

namespace kvkeep::bench {

// For questions that any server answers at once.
inline constexpr int kProbeMs = 10'000;

struct ServerTarget {
  std::string base_url;      // as HttpClient::make() takes it
  std::string api_key = {};  // sent as both APIs' headers; empty: none
  AdaptOptions adapt = {};   // of recorded requests
  int silence_ms = 600'000;  // longest wait without a byte of a reply
  // Recorded requests come after pauses in which servers close idle connections, and what is sent just then is lost.
  bool keeps_connection = false;
};

// A request sent and what came of it. Times are os::Clock::monotonic_ns().
struct Exchange {
  bool sent = false;
  std::int64_t sent_ns = 0;
  std::int64_t ended_ns = 0;
  double ttft_ms = 0;     // 0: no answer came
  double own_cpu_ms = 0;  // CPU time of this thread meanwhile: what asking costs
  int status = 0;         // 0: no reply at all
  ReplyFacts facts;
  std::string broken;  // why there is no whole reply; empty: there is one
  Dialect dialect = Dialect::kOther;
  nlohmann::ordered_json body;  // as it was sent
  double total_ms() const { return static_cast<double>(ended_ns - sent_ns) / 1e6; }
  bool answered() const { return broken.empty() && status >= 200 && status < 300 && facts.error.empty(); }
  // In the server's words where it has some; failure() with the status. Both: only if it was not answered.
  const std::string& error() const { return broken.empty() ? facts.error : broken; }
  std::string failure() const;
};

// {"role": ..., "content": ...}
nlohmann::ordered_json chat_message(const char* role, std::string_view text);

// One thread; the interrupt ends what is under way. Errors of questions: those of HttpClient::send(), and kUnsupported
// with the server's words where it refuses one or answers something else.
class ServerClient {
 public:
  static Result<std::unique_ptr<ServerClient>> make(const ServerTarget& target, Interrupt& interrupt);

  // Sends the request with `body`, adapted. Fills all of the exchange.
  Exchange send(const RecordedRequest& request, const nlohmann::ordered_json& body);
  // A greedy, streamed chat. `on_first` is called when the first token came.
  Exchange chat(const nlohmann::ordered_json& messages, std::uint32_t reply_tokens,
                const std::function<void()>& on_first = {});

  // The status of GET /health. kIo, too: nobody answers within that time.
  Result<int> health(int silence_ms = kProbeMs);
  // POST /tokenize, without begin-of-sequence; markers are text.
  Result<std::vector<TokenId>> tokenize(std::string_view text);
  // The ids that a request with this body is evaluated as: /apply-template and /tokenize. kUnsupported, too: it would
  // not be asked in this dialect.
  Result<std::vector<TokenId>> prompt_ids(Dialect dialect, const nlohmann::ordered_json& body);
  // The same of a chat with these messages.
  Result<std::vector<TokenId>> chat_ids(const nlohmann::ordered_json& messages);
  // Words that are so many tokens here, the same for the same label (words.h).
  Result<std::string> text(const std::string& label, std::size_t tokens);
  // What the server says of itself; empty if it does not.
  std::string model_name();      // the first of /v1/models
  std::string server_version();  // build_info of /props
  std::string server_field();    // the header field "Server": a product's name, with its version at best

 private:
  ServerClient(server::HttpClient http, const ServerTarget& target, Interrupt& interrupt);
  server::HeaderList own_headers() const;
  Exchange exchange(Dialect dialect, server::ClientRequest request, const std::function<void()>& on_first);
  Result<nlohmann::ordered_json> ask(const server::ClientRequest& request);
  Result<nlohmann::ordered_json> get(const char* path);
  Result<nlohmann::ordered_json> post(const char* path, const nlohmann::ordered_json& body);
  Result<std::vector<TokenId>> token_ids(std::string_view text, bool special);

  server::HttpClient http_;
  const ServerTarget target_;
  const Interrupt::Guard guard_;
};

}  // namespace kvkeep::bench
