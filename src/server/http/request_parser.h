#pragma once

// One request from bytes: first its head, then its body. Boost.Beast's parser reads the grammar; what it repairs or
// tolerates is refused before it (head_scanner.h) or after it (head_rules.h). Pure: no socket, no clock.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "server/http/head_rules.h"
#include "server/http/http_message.h"

namespace kvkeep::server {

// Takes the bytes of a body as they arrive.
class BodySink {
 public:
  virtual ~BodySink() = default;
  // A chunk of so many bytes follows. False: it is more than may come.
  virtual bool announce(std::uint64_t /*bytes*/) { return true; }
  // How many were taken. Fewer than given: no more can be taken for now.
  virtual std::size_t take(std::string_view bytes) = 0;
};

class RequestParser {
 public:
  enum class State { kHead, kBody, kDone, kRefused };

  RequestParser();
  ~RequestParser();
  RequestParser(const RequestParser&) = delete;
  RequestParser& operator=(const RequestParser&) = delete;

  State state() const { return state_; }

  // In state kHead: `bytes` are all that came from the request's first one on. Returns how many the head took: 0 until
  // it is complete. The state is then kBody, kDone (there is none) or kRefused.
  std::size_t feed_head(std::string_view bytes);
  // In state kBody: bytes that follow those taken so far. Returns how many were taken; the rest comes again, with more.
  std::size_t feed_body(std::string_view bytes, BodySink& sink);

  // Set once the state is not kHead. What is known of a refused head is there, too: enough to shape the reply.
  HttpRequest& head();
  const Framing& framing() const { return framing_; }
  // In state kRefused.
  const Refusal& refusal() const { return refusal_; }

 private:
  class Grammar;
  std::size_t refuse(Refusal refusal, std::size_t used);
  std::size_t parse_head(std::string_view bytes);

  State state_ = State::kHead;
  HeadScanner scanner_;
  std::unique_ptr<Grammar> grammar_;
  Framing framing_;
  Refusal refusal_;
};

}  // namespace kvkeep::server
