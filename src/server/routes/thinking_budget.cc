#include "server/routes/thinking_budget.h"

namespace kvkeep::server {

void limit_thinking(const Service& service, bool thinking_open, engine::ThinkingParams& thinking) {
  if (!thinking.most_tokens) return;
  const chat::tools::Tag& close = service.reply_format.thinking_close;
  if (!close.exists()) {
    thinking = {};
    return;
  }
  thinking.is_open = thinking_open;
  thinking.open = service.reply_format.thinking_open.spelling();
  thinking.close = close.spelling();
  // Markers as tokens, the text between them as text.
  std::size_t at = 0;
  const auto append = [&](std::string_view text) {
    const std::vector<TokenId> ids = service.vocabulary->tokenize_continuation(text);
    thinking.close_tokens.insert(thinking.close_tokens.end(), ids.begin(), ids.end());
  };
  for (const chat::tools::TagMarker& marker : close.markers()) {
    if (marker.begin > at) append(std::string_view(close.spelling()).substr(at, marker.begin - at));
    thinking.close_tokens.push_back(marker.id);
    at = marker.end;
  }
  if (at < close.size()) append(std::string_view(close.spelling()).substr(at));
}

}  // namespace kvkeep::server
