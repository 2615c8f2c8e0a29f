#pragma once

// One connection to a server that sessions are replayed against: recorded requests, and what the replay asks for
// itself.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "bench/dialect.h"
#include "bench/run/interrupt.h"
#include "bench/session.h"
#include "server/http/http_client.h"

namespace kvkeep::bench {

struct ReplayTarget {
  std::string base_url;  // as HttpClient::make() takes it
  std::string api_key;   // sent as both APIs' headers; empty: none
  AdaptOptions adapt;
  int silence_ms = 600'000;  // longest wait without a byte of a reply
};

// A request sent and what came of it. Times are os::Clock::monotonic_ns().
struct Exchange {
  bool sent = false;
  std::int64_t sent_ns = 0;
  std::int64_t ended_ns = 0;
  double ttft_ms = 0;  // 0: no answer came
  int status = 0;      // 0: no reply at all
  ReplyFacts facts;
  std::string broken;  // why there is no whole reply; empty: there is one
  Dialect dialect = Dialect::kOther;
  nlohmann::ordered_json body;  // as it was sent
  bool answered() const { return broken.empty() && status >= 200 && status < 300 && facts.error.empty(); }
};

// One thread; the interrupt ends what is under way.
class ReplayClient {
 public:
  static Result<std::unique_ptr<ReplayClient>> make(const ReplayTarget& target, Interrupt& interrupt);

  // Sends the request with `body`, adapted. Fills all of the exchange.
  Exchange send(const RecordedRequest& request, const nlohmann::ordered_json& body);

  // GET /health, whatever the status. kIo: nobody answers within some seconds.
  Status reach();
  // POST /tokenize, without begin-of-sequence. kUnsupported: the server has no such thing.
  Result<std::vector<TokenId>> tokenize(std::string_view text);
  // The ids that a request with this body is evaluated as: /apply-template and /tokenize. kUnsupported: the server has
  // no such thing, or it would not be asked in this dialect.
  Result<std::vector<TokenId>> prompt_ids(Dialect dialect, const nlohmann::ordered_json& body);
  // What the server says of itself; empty if it does not.
  std::string model_name();      // the first of /v1/models
  std::string server_version();  // build_info of /props
  std::string server_field();    // the header field "Server": a product's name, with its version at best

 private:
  ReplayClient(server::HttpClient http, const ReplayTarget& target, Interrupt& interrupt);
  server::HeaderList own_headers() const;
  Result<nlohmann::ordered_json> ask(const server::ClientRequest& request);
  Result<nlohmann::ordered_json> post(const char* path, const nlohmann::ordered_json& body);
  Result<std::vector<TokenId>> token_ids(const nlohmann::ordered_json& body);

  server::HttpClient http_;
  const ReplayTarget target_;
  const Interrupt::Guard guard_;
};

}  // namespace kvkeep::bench
