#pragma once

// Rules for a parsed head that make its meaning the same to every reader: which fields may come only once, how a body's
// length may be stated, when a connection ends. Pure.

#include <cstdint>
#include <string>
#include <string_view>

#include "server/http/head_scanner.h"
#include "server/http/http_message.h"

namespace kvkeep::server {

// How a request's body is delimited, and whether its connection ends.
struct Framing {
  enum class Body { kNone, kLength, kChunked };
  Body body = Body::kNone;
  std::uint64_t length = 0;       // kLength: above 0
  bool closes = false;            // no other request comes on this connection
  bool expects_continue = false;  // the client waits for permission to send its body
  bool is_http_1_0 = false;
};

// `minor_version` is that of HTTP/1. Returns status 0 if the head may be trusted, and fills `framing` then.
Refusal read_framing(const HttpRequest& head, int minor_version, Framing& framing);

// `head`: the bytes of a head that passed the scanner, but not the grammar. Returns why, as precisely as is known.
Refusal explain_bad_head(std::string_view head);

// A target may be a whole URL, which clients send to proxies and every server must take (RFC 9112, 3.2.2):
// "http://name:80/path?query" becomes "/path?query", and `authority` "name:80". Other targets stay, and `authority` is
// empty. Returns false if the URL names no host, or a user.
bool take_authority(std::string_view& target, std::string& authority);

// The host of a target counts instead of the field Host, whatever that says.
void replace_host(HttpRequest& head, const std::string& authority);

// "%41" -> "A". Returns false at a percent sign without two hexadecimal digits.
bool decode_percent(std::string_view text, std::string& out);

}  // namespace kvkeep::server
