#include "server/http/reply_head.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace kvkeep::server {
namespace {

constexpr int kOverloaded = 529;  // Anthropic's API uses this number for 503

void append_fields(std::string& out, const HeaderList& fields) {
  for (const auto& [name, value] : fields) out.append(name).append(": ").append(value).append("\r\n");
}

bool names(const HeaderList& fields, std::string_view name) {
  return std::ranges::any_of(fields, [&](const auto& field) { return equals_ignoring_case(field.first, name); });
}

}  // namespace

bool is_for_now(int status) { return status == 503 || status == kOverloaded; }

std::string_view reason_of(int status) {
  switch (status) {
    case 200: return "OK";
    case 204: return "No Content";
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 408: return "Request Timeout";
    case 413: return "Payload Too Large";
    case 414: return "URI Too Long";
    case 415: return "Unsupported Media Type";
    case 417: return "Expectation Failed";
    case 429: return "Too Many Requests";
    case 431: return "Request Header Fields Too Large";
    case 500: return "Internal Server Error";
    case 501: return "Not Implemented";
    case 503: return "Service Unavailable";
    default: return status < 400 ? "OK" : "Error";
  }
}

std::string reply_head(const ReplyHead& head, const HeaderList& common, const HeaderList& own) {
  std::string out = fmt::format("HTTP/1.1 {} {}\r\n", head.status, reason_of(head.status));
  const auto to = std::back_inserter(out);
  if (!head.content_type.empty()) fmt::format_to(to, "Content-Type: {}\r\n", head.content_type);
  if (head.body_bytes && head.status != 204) fmt::format_to(to, "Content-Length: {}\r\n", *head.body_bytes);
  append_fields(out, common);
  append_fields(out, own);
  if (is_for_now(head.status) && !names(own, "Retry-After")) out += "Retry-After: 1\r\n";
  if (head.is_chunked) out += "Transfer-Encoding: chunked\r\n";
  if (head.closes) {
    out += "Connection: close\r\n";
  } else {
    fmt::format_to(to, "Keep-Alive: timeout={}\r\n", head.idle_s);
  }
  out += "\r\n";
  return out;
}

}  // namespace kvkeep::server
