#include "server/api/json_pieces.h"

#include <utility>

namespace kvkeep::server::api {

void JsonPieces::add(std::string text) {
  parts_.emplace_back([text = std::move(text)](std::string& out) {
    out += text;
    return true;
  });
}

void JsonPieces::add(std::function<std::string()> part) {
  parts_.emplace_back([part = std::move(part)](std::string& out) {
    out += part();
    return true;
  });
}

void JsonPieces::add_list(std::size_t count, std::function<Json(std::size_t number)> element) {
  parts_.emplace_back([count, element = std::move(element), at = std::size_t{0}](std::string& out) mutable {
    if (at == 0) out += '[';
    for (; at < count && out.size() < kPieceBytes; ++at) {
      if (at > 0) out += ',';
      out += to_line(element(at));
    }
    if (at < count) return false;
    out += ']';
    return true;
  });
}

std::string JsonPieces::next() {
  std::string piece;
  while (!parts_.empty() && piece.size() < kPieceBytes) {
    if (parts_.front()(piece)) parts_.pop_front();
  }
  return piece;
}

std::string JsonPieces::rest() {
  std::string text;
  for (std::string piece = next(); !piece.empty(); piece = next()) text += piece;
  return text;
}

std::string members(const Json& object, std::string_view before, std::string_view after) {
  const std::string text = to_line(object);
  std::string all(before);
  all.append(text, 1, text.size() - 2);
  return all.append(after);
}

}  // namespace kvkeep::server::api
