#include "server/web/page.h"

#include <charconv>
#include <memory>
#include <string>

#include "server/http/gunzip.h"

namespace kvkeep::server {
namespace {

constexpr std::string_view kBlanks = " \t";

std::string_view trimmed(std::string_view text) {
  const auto begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

// Cuts off and returns what stands before the next `separator`.
std::string_view next_part(std::string_view& text, char separator) {
  const auto end = text.find(separator);
  const std::string_view part = text.substr(0, end);
  text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  return trimmed(part);
}

// The weight of a coding, 1 without one; 0 if it is malformed, for then the plain reply is the safe one.
double weight_of(std::string_view parameters) {
  while (!parameters.empty()) {
    const std::string_view parameter = next_part(parameters, ';');
    if (!parameter.starts_with("q=")) continue;
    double weight = 0;
    const std::string_view number = parameter.substr(2);
    const auto read = std::from_chars(number.data(), number.data() + number.size(), weight, std::chars_format::fixed);
    return read.ec == std::errc{} && read.ptr == number.data() + number.size() ? weight : 0;
  }
  return 1;
}

}  // namespace

bool accepts_gzip(std::string_view accept_encoding) {
  bool accepts_any = false;
  while (!accept_encoding.empty()) {
    std::string_view entry = next_part(accept_encoding, ',');
    const std::string_view coding = next_part(entry, ';');
    if (equals_ignoring_case(coding, "gzip") || equals_ignoring_case(coding, "x-gzip")) return weight_of(entry) > 0;
    if (coding == "*") accepts_any = weight_of(entry) > 0;
  }
  return accepts_any;
}

HeaderList page_headers(bool is_page) {
  return {
      {"Content-Security-Policy",
       "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; "
       "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"},
      {"X-Content-Type-Options", "nosniff"},
      {"Referrer-Policy", "no-referrer"},
      {"Cross-Origin-Opener-Policy", "same-origin"},
      {"Cross-Origin-Resource-Policy", "same-origin"},
      {"Cache-Control", is_page ? "no-cache" : "public, max-age=31536000, immutable"},
      {"Vary", "Accept-Encoding"},
  };
}

void add_page_routes(HttpServer& server) {
  for (const PageFile& file : page_files()) {
    const HeaderList plain_headers = page_headers(file.path == "/");
    HeaderList packed_headers = plain_headers;
    packed_headers.emplace_back("Content-Encoding", "gzip");
    server.route("GET", std::string(file.path),
                 [type = file.type, plain = std::make_shared<const std::string>(file.text),
                  packed = std::make_shared<const std::string>(gzip(file.text)), plain_headers,
                  packed_headers = std::move(packed_headers)](const HttpRequest& request, ResponseWriter& writer) {
                   const bool packs = accepts_gzip(request.header("accept-encoding"));
                   writer.send_shared(200, type, packs ? packed : plain, packs ? packed_headers : plain_headers);
                 },
                 {.is_public = true, .is_light = true});
  }
}

}  // namespace kvkeep::server
