#pragma once

// The rules that a parsed head must keep, so that its meaning is the same to every reader: which fields may come once
// only, how a body's length may be stated, when a connection ends. Pure.

#include <cstdint>
#include <string>
#include <string_view>

#include "server/http/head_scanner.h"
#include "server/http/http_message.h"

namespace kvkeep::server {

// How a request's body is delimited, and what becomes of its connection.
struct Framing {
  enum class Body { kNone, kLength, kChunked };
  Body body = Body::kNone;
  std::uint64_t length = 0;       // kLength: above 0
  bool closes = false;            // no other request follows on this connection
  bool expects_continue = false;  // the client waits for leave to send its body
  bool is_http_1_0 = false;
};

// `minor_version`: of HTTP/1. The refusal's status is 0 if the head may be trusted; `framing` is set then.
Refusal read_framing(const HttpRequest& head, int minor_version, Framing& framing);

// "%41" -> "A". False: a percent sign without two hexadecimal digits.
bool decode_percent(std::string_view text, std::string& out);

}  // namespace kvkeep::server
