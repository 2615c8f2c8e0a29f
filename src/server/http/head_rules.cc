#include "server/http/head_rules.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

namespace kvkeep::server {
namespace {

// A second field of these names would change the meaning of the first, and readers differ in which one counts.
constexpr std::array<std::string_view, 9> kOnceOnly{"host",   "content-length", "transfer-encoding",
                                                    "expect", "authorization",  "x-api-key",
                                                    "origin", "content-type",   "content-encoding"};

Refusal refuse(int status, std::string reason) { return {status, std::move(reason)}; }

std::ptrdiff_t count_of(const HttpRequest& head, std::string_view name) {
  return std::ranges::count_if(head.headers,
                               [&](const auto& field) { return equals_ignoring_case(field.first, name); });
}

// Parses digits only: no sign, no blank, no second number.
std::optional<std::uint64_t> number_in(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string_view trimmed(std::string_view text) {
  const auto begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

// Connection is a list, and may come in several fields.
bool connection_says(const HttpRequest& head, std::string_view option) {
  for (const auto& [name, value] : head.headers) {
    if (!equals_ignoring_case(name, "connection")) continue;
    for (std::string_view rest = value; !rest.empty();) {
      const auto comma = rest.find(',');
      if (equals_ignoring_case(trimmed(rest.substr(0, comma)), option)) return true;
      rest = comma == std::string_view::npos ? std::string_view{} : rest.substr(comma + 1);
    }
  }
  return false;
}

Refusal read_body_framing(const HttpRequest& head, bool has_length, bool has_encoding, Framing& framing) {
  if (has_length && has_encoding) return refuse(400, "The request states its body's length more than once");
  if (has_encoding) {
    if (framing.is_http_1_0) return refuse(400, "HTTP/1.0 does not allow Transfer-Encoding");
    if (!equals_ignoring_case(head.header("transfer-encoding"), "chunked")) {
      return refuse(501, "The only supported Transfer-Encoding is 'chunked'");
    }
    framing.body = Framing::Body::kChunked;
  } else if (has_length) {
    const auto length = number_in(head.header("content-length"));
    if (!length) return refuse(400, "Content-Length is not a number");
    framing.length = *length;
    if (*length > 0) framing.body = Framing::Body::kLength;
  }
  return {};
}

}  // namespace

Refusal read_framing(const HttpRequest& head, int minor_version, Framing& framing) {
  framing = {};
  framing.is_http_1_0 = minor_version == 0;
  framing.closes = framing.is_http_1_0 || connection_says(head, "close");
  for (const std::string_view name : kOnceOnly) {
    if (count_of(head, name) > 1) {
      return refuse(400, "The request has more than one field '" + std::string(name) + "'");
    }
  }
  const bool has_length = count_of(head, "content-length") > 0;
  const bool has_encoding = count_of(head, "transfer-encoding") > 0;
  if (Refusal wrong = read_body_framing(head, has_length, has_encoding, framing); wrong.status != 0) return wrong;
  if (const std::string_view expect = head.header("expect"); !expect.empty()) {
    if (!equals_ignoring_case(expect, "100-continue")) return refuse(417, "The only supported Expect is 100-continue");
    framing.expects_continue = !framing.is_http_1_0 && framing.body != Framing::Body::kNone;
  }
  return {};
}

Refusal explain_bad_head(std::string_view head) {
  auto end = head.find("\r\n");
  const std::string_view version = head.substr(0, end).substr(head.substr(0, end).rfind(' ') + 1);
  if (version.starts_with("HTTP/") && version != "HTTP/1.1" && version != "HTTP/1.0") {
    return refuse(400, "Only HTTP/1.1 and HTTP/1.0 are supported");
  }
  HttpRequest request;
  for (head.remove_prefix(end + 2); (end = head.find("\r\n")) != 0; head.remove_prefix(end + 2)) {
    const auto colon = head.substr(0, end).find(':');
    if (colon == std::string_view::npos) return refuse(400, "A header field has no colon");
    const std::string_view name = head.substr(0, colon);
    if (name.empty() || name.find_first_of(" \t") != std::string_view::npos) {
      return refuse(400, "A header field's name is empty or contains a blank");
    }
    request.headers.emplace_back(name, trimmed(head.substr(colon + 1, end - colon - 1)));
  }
  Framing unused;
  Refusal wrong = read_framing(request, version == "HTTP/1.0" ? 0 : 1, unused);
  return wrong.status != 0 ? wrong : refuse(400, "The request is not valid HTTP, or a header field is malformed");
}

bool take_authority(std::string_view& target, std::string& authority) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!equals_ignoring_case(target.substr(0, scheme.size()), scheme)) continue;
    target.remove_prefix(scheme.size());
    authority = target.substr(0, target.find_first_of("/?"));
    target.remove_prefix(authority.size());
    return !authority.empty() && authority.find('@') == std::string::npos;
  }
  return true;
}

void replace_host(HttpRequest& head, const std::string& authority) {
  std::erase_if(head.headers, [](const auto& field) { return equals_ignoring_case(field.first, "host"); });
  head.headers.emplace_back("Host", authority);
}

bool decode_percent(std::string_view text, std::string& out) {
  out.clear();
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    unsigned char byte = 0;
    if (i + 2 >= text.size()) return false;
    const auto [end, error] = std::from_chars(text.data() + i + 1, text.data() + i + 3, byte, 16);
    if (error != std::errc{} || end != text.data() + i + 3) return false;
    out += static_cast<char>(byte);
    i += 2;
  }
  return true;
}

}  // namespace kvkeep::server
