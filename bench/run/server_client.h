#pragma once

// One connection to a server under measurement: chats, recorded requests, and the measurement's own questions.

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
  std::string base_url;      // in the form for HttpClient::make()
  std::string api_key = {};  // sent in both APIs' headers; empty: none
  AdaptOptions adapt = {};   // for recorded requests
  int silence_ms = 600'000;  // longest wait without a byte of a reply
  // Recorded requests come after pauses in which servers close idle connections; a request sent at that moment is lost.
  bool keeps_connection = false;
};

// A request and its result. Times are os::Clock::monotonic_ns().
struct Exchange {
  bool sent = false;
  std::int64_t sent_ns = 0;
  std::int64_t ended_ns = 0;
  double ttft_ms = 0;     // 0: no answer came
  double own_cpu_ms = 0;  // CPU time of this thread meanwhile: the cost of asking
  int status = 0;         // 0: no reply at all
  ReplyFacts facts;
  std::string broken;  // why there is no complete reply; empty: there is one
  Dialect dialect = Dialect::kOther;
  nlohmann::ordered_json body;  // as it was sent
  double total_ms() const { return static_cast<double>(ended_ns - sent_ns) / 1e6; }
  bool answered() const { return broken.empty() && status >= 200 && status < 300 && facts.error.empty(); }
  // The server's words if it sent any; failure() adds the status. Call both only if the request was not answered.
  const std::string& error() const { return broken.empty() ? facts.error : broken; }
  std::string failure() const;
};

// A moment of a stream at which its answer grew.
struct Piece {
  std::int64_t ns = 0;           // os::Clock::monotonic_ns()
  std::size_t answer_bytes = 0;  // of text and reasoning so far
};

// A report of the prefill.
struct PromptProgress {
  std::int64_t ns = 0;  // os::Clock::monotonic_ns()
  std::uint64_t processed_tokens = 0;
};

// A greedy, streamed chat.
struct ChatOptions {
  std::uint32_t reply_tokens = 1;
  std::uint32_t choices = 1;
  bool cache_prompt = true;   // if false, the request says so
  bool whole_length = false;  // the reply goes on to that length, whatever the model says
  // Called when the first piece came, and with each later one; returns false to leave (the exchange is then broken).
  std::function<bool(const Piece& piece)> on_piece = {};
  // Called with each report of the prefill, which is asked for if this is set.
  std::function<void(const PromptProgress& progress)> on_progress = {};
};

// {"role": ..., "content": ...}
nlohmann::ordered_json chat_message(const char* role, std::string_view text);

// One thread; the interrupt ends a request under way. Errors of questions: those of HttpClient::send(), and
// kUnsupported with the server's words if it refuses one or answers something else.
class ServerClient {
 public:
  static Result<std::unique_ptr<ServerClient>> make(const ServerTarget& target, Interrupt& interrupt);

  // Sends the request with `body`, adapted. Fills all fields of the exchange.
  Exchange send(const RecordedRequest& request, const nlohmann::ordered_json& body);
  // The exchange has the text of the first of several choices, and the reply tokens of all.
  Exchange chat(const nlohmann::ordered_json& messages, const ChatOptions& options);
  // `on_first` is called when the first token came.
  Exchange chat(const nlohmann::ordered_json& messages, std::uint32_t reply_tokens,
                const std::function<void()>& on_first = {});

  // Returns the status of GET /health. Also kIo if nothing answers within that time.
  Result<int> health(int silence_ms = kProbeMs);
  // POST /tokenize, without begin-of-sequence; markers count as text.
  Result<std::vector<TokenId>> tokenize(std::string_view text);
  // Returns the ids that the server evaluates for this body, by /apply-template and /tokenize. Also kUnsupported if the
  // dialect has no such questions.
  Result<std::vector<TokenId>> prompt_ids(Dialect dialect, const nlohmann::ordered_json& body);
  // The text of a chat's prompt, by /apply-template, and the ids of a text that it begins with or has further on, by
  // /tokenize.
  Result<std::string> prompt_text(const nlohmann::ordered_json& messages);
  Result<std::vector<TokenId>> tokenize_prompt(std::string_view text, bool begins);
  // The ids of a chat with these messages.
  Result<std::vector<TokenId>> chat_ids(const nlohmann::ordered_json& messages);
  // The prompt tokens of a conversation, by POST /v1/messages/count_tokens, which needs no model.
  Result<std::size_t> count_tokens(const nlohmann::ordered_json& messages);
  // Returns words that are this many tokens here, always the same for a label (words.h).
  Result<std::string> text(const std::string& label, std::size_t tokens);
  // The server's own names and version; "" if it does not report them.
  std::string model_name();      // the first of /v1/models
  std::string server_version();  // build_info of /props
  std::string server_field();    // the header field "Server": a product's name, with its version at best

 private:
  ServerClient(server::HttpClient http, const ServerTarget& target, Interrupt& interrupt);
  server::HeaderList own_headers() const;
  using OnPiece = std::function<bool(const Piece& piece)>;
  using OnProgress = std::function<void(const PromptProgress& progress)>;
  Exchange exchange(Dialect dialect, server::ClientRequest request, const OnPiece& on_piece,
                    const OnProgress& on_progress = {});
  Result<nlohmann::ordered_json> ask(const server::ClientRequest& request);
  Result<nlohmann::ordered_json> get(const char* path);
  Result<nlohmann::ordered_json> post(const char* path, const nlohmann::ordered_json& body);
  Result<std::string> printed_prompt(const nlohmann::ordered_json& body);
  Result<std::vector<TokenId>> token_ids(std::string_view text, bool begins, bool markers);

  server::HttpClient http_;
  const ServerTarget target_;
  const Interrupt::Guard guard_;
};

}  // namespace kvkeep::bench
