#include "server/http/http_message.h"

#include <algorithm>

namespace kvkeep::server {
namespace {
// Does not depend on the process's locale, as <cctype> does.
char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }
}  // namespace

bool equals_ignoring_case(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](char x, char y) { return lower(x) == lower(y); });
}

std::string_view HttpRequest::header(std::string_view name) const {
  for (const auto& [field, value] : headers) {
    if (equals_ignoring_case(field, name)) return value;
  }
  return {};
}

std::string_view HttpRequest::parameter(std::string_view name) const {
  for (std::string_view rest = query; !rest.empty();) {
    const std::string_view pair = rest.substr(0, rest.find('&'));
    rest.remove_prefix(std::min(rest.size(), pair.size() + 1));
    const auto equals = pair.find('=');
    if (equals != std::string_view::npos && pair.substr(0, equals) == name) return pair.substr(equals + 1);
  }
  return {};
}

void ResponseWriter::send_pieces(int status, std::string_view content_type, BodyPieces next,
                                 const HeaderList& headers) {
  std::string body;
  for (std::string piece = next(); !piece.empty(); piece = next()) body += piece;
  send(status, content_type, std::move(body), headers);
}

}  // namespace kvkeep::server
