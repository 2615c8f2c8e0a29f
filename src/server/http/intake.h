#pragma once

// One request on its way in: parsed, judged by its head, its body gathered. Without socket and clock: bytes come in,
// and the next thing to do comes out.

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "server/http/body_collector.h"
#include "server/http/exchange.h"
#include "server/http/gatekeeper.h"
#include "server/http/request_parser.h"
#include "server/http/server_core.h"

namespace kvkeep::server {

// On the I/O thread. `core` outlives it.
class Intake {
 public:
  // kRoom: the body waits until others give room back, see go_on(). kReady: the request is complete, see release().
  // kAnswered: the reply is known already, see verdict().
  enum class State { kHead, kBody, kRoom, kReady, kAnswered };

  Intake(ServerCore& core, std::string remote_address);

  State state() const { return state_; }
  // In kHead: all bytes from the request's first one on; in kBody: those that follow. Returns how many were taken; the
  // rest comes again with more, or in the next turn (is_paused), or belongs to the next request.
  std::size_t feed(std::string_view bytes);
  // In kBody: bytes that are here can be taken, but other connections shall have their turn first.
  bool is_paused() const { return state_ == State::kBody && body_.is_paused(); }
  // The part of the body that is here.
  std::size_t held_bytes() const { return body_.held_bytes(); }
  // In kRoom: how many bytes there has to be room for.
  std::size_t wanted_bytes() const;
  // In kRoom, when there is room: the state is kBody then.
  void go_on();
  // From any state but kAnswered: answers with this error, in the shape that its sender expects.
  void refuse(int status, std::string_view message);

  // The reply, or the fields to send with the handler's reply.
  const Verdict& verdict() const { return verdict_; }
  // In kAnswered: returns the reply as bytes, logged as sent. `closes`: the connection ends with it.
  std::string reply(bool closes);
  // Returns true once: the client waits for permission to send its body, and has it.
  bool grants_leave();
  // Returns true if bytes of this request may still be on their way: the next request cannot be told from them.
  bool has_unread_input() const;
  bool closes() const { return parser_.framing().closes || has_unread_input(); }
  bool is_http_1_0() const { return parser_.framing().is_http_1_0; }
  Exchange::Start release();

 private:
  void judge();
  void begin_body();
  void complete();
  void refuse_body();
  std::size_t feed_body(std::string_view bytes);
  // The body of a GET means nothing: an announced one is not read.
  bool reads_body() const { return verdict_.route != nullptr && verdict_.route->method != "GET"; }
  bool needs_place() const { return !verdict_.route->options.is_light; }

  ServerCore& core_;
  const std::string remote_address_;
  State state_ = State::kHead;
  RequestParser parser_;
  std::unique_ptr<Budget::Share> place_;  // null: a light request, or one that is not complete
  BodyCollector body_;
  Verdict verdict_;
  bool leave_is_due_ = false;
};

}  // namespace kvkeep::server
