#pragma once

// Parses one request from bytes: first its head, then its body. Boost.Beast's parser reads the grammar; input that it
// would repair or tolerate is refused before (head_scanner.h) or afterwards (head_rules.h). Pure: no socket, no clock.

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
  // A chunk of this many bytes follows. Returns false if it is more than the limit.
  virtual bool announce(std::uint64_t /*bytes*/) { return true; }
  // Returns how many bytes were taken. Fewer than given: no more can be taken for now.
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

  // In state kHead: `bytes` are all from the request's first one on. Returns how many the head took: 0 until it is
  // complete. The state is then kBody, kDone (there is none) or kRefused.
  std::size_t feed_head(std::string_view bytes);
  // In state kBody: bytes that follow those taken so far. Returns how many were taken; the rest comes again, with more.
  std::size_t feed_body(std::string_view bytes, BodySink& sink);

  // Set once the state is not kHead. A refused head has the parts that are known: enough to shape the reply.
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
