#pragma once

// The APIs of servers, as the bench uses them: how to recognise and adapt a request, and how to read a reply (whole or
// streamed). One value per dialect, no inheritance above it.

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace kvkeep::bench {

enum class Dialect : std::uint8_t {
  kOpenAiChat,        // POST /v1/chat/completions
  kOpenAiCompletion,  // POST /v1/completions
  kOpenAiResponses,   // POST /v1/responses
  kAnthropic,         // POST /v1/messages
  kOther,             // anything else: sent unchanged, its reply is only awaited
};

// Chooses by the path, with or without a prefix before /v1, and with or without a query.
Dialect dialect_of(std::string_view method, std::string_view path);

struct AdaptOptions {
  std::string model;                          // empty: as recorded
  std::optional<std::uint32_t> reply_tokens;  // limits the reply; none: as recorded
  bool stream = true;                         // needed for TTFT
};

// The path of a request on another server: from the API's own part on ("/api/v1/messages?beta=true" ->
// "/v1/messages?beta=true"). For kOther, the path itself.
std::string path_on_server(Dialect dialect, std::string_view path);

// Returns the body to send. Only model, reply length and streaming change; if streams have usage only on request
// (stream_options.include_usage), it is requested.
nlohmann::ordered_json adapt_request(Dialect dialect, const nlohmann::ordered_json& body, const AdaptOptions& options);

// The content and the claims of a reply, in one form for all dialects.
struct ReplyFacts {
  std::string text;                // visible text, without reasoning
  nlohmann::ordered_json message;  // the assistant's turn in the dialect's request form, to be sent next time
  std::string finish_reason;       // in the dialect's words; empty: none
  std::optional<std::uint64_t> prompt_tokens;  // the whole prompt, including cached ones
  std::optional<std::uint64_t> cached_tokens;
  std::optional<std::uint64_t> prefilled_tokens;  // timings.prompt_n, else prompt - cached
  std::optional<std::uint64_t> reply_tokens;
  // timings.predicted_per_second. The rate that a client sees differs: text may be held back and come in one piece.
  std::optional<double> tokens_per_second;
  std::string cache_source;  // timings.cache_source
  std::string error;         // the server's own words, from a body or an error event; empty: none
};

// Reads a reply as its bytes arrive: feed() for each piece of the body, finish() at its end. Reads both a JSON body and
// server-sent events, whichever comes. Never throws: a body that cannot be read is an error in the facts. Holds at most
// 64 MiB of a reply. Not thread safe.
class ReplyReader {
 public:
  ReplyReader(Dialect dialect, int status);
  ReplyReader(ReplyReader&&) noexcept;
  ReplyReader& operator=(ReplyReader&&) noexcept;
  ~ReplyReader();

  // Returns true once the first piece of the answer (text, reasoning or a tool call's first delta) has come; prefill
  // progress and keep-alive do not count. A body that is no stream counts from its first byte.
  bool feed(std::string_view bytes);
  // Tokens of the prompt that the server has prefilled or reused, as far as it told ("return_progress"); 0: it did not.
  std::uint64_t processed_tokens() const;
  // Bytes of text and reasoning so far. A body that is no stream has none before finish().
  std::size_t answer_bytes() const;
  // Call it once. A stream that stopped before its end is an error; the facts have what came until then.
  ReplyFacts finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace kvkeep::bench
