#include "chat/tools/piece_stream.h"

namespace kvkeep::chat::tools {

std::vector<ReplyPiece> PieceStream::feed(std::string_view bytes, bool is_marker) {
  if (stop_strings_.found()) return {};
  const std::string text = utf8_.feed(bytes);
  written_ += text.size();
  // A broken code point before the marker has become U+FFFD, which stands in front of the marker.
  if (is_marker && text.ends_with(bytes)) markers_.emplace_back(written_ - bytes.size(), written_);
  released_ += stop_strings_.feed(text);
  return cut(stop_strings_.found().has_value());
}

std::vector<ReplyPiece> PieceStream::finish() {
  if (!stop_strings_.found()) {
    released_ += stop_strings_.feed(utf8_.finish());
    if (!stop_strings_.found()) released_ += stop_strings_.finish();
  }
  return cut(true);
}

std::vector<ReplyPiece> PieceStream::cut(bool is_end) {
  std::vector<ReplyPiece> pieces;
  std::size_t taken = 0;
  const auto take_until = [&](std::size_t end, bool is_marker) {
    if (end > taken) pieces.push_back({released_.substr(taken, end - taken), is_marker});
    taken = end;
  };
  while (!markers_.empty()) {
    const std::size_t begin = markers_.front().first - released_at_;
    const std::size_t end = markers_.front().second - released_at_;
    if (begin >= released_.size()) break;
    take_until(begin, false);
    if (end > released_.size()) break;  // a stop string may begin within it
    take_until(end, true);
    markers_.pop_front();
  }
  const bool in_marker = !markers_.empty() && markers_.front().first < released_at_ + released_.size();
  if (is_end || !in_marker) take_until(released_.size(), false);
  released_.erase(0, taken);
  released_at_ += taken;
  return pieces;
}

void LineLimits::apply(std::vector<ReplyPiece>& pieces, double elapsed_ms) {
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const std::size_t most = reached_ ? 0 : allowed(pieces[i].text, elapsed_ms);
    if (!reached_) continue;
    pieces[i].text.resize(most);
    pieces.resize(most > 0 ? i + 1 : i);
    return;
  }
}

// Returns how many bytes of the text belong to the reply. An empty line is indented by nothing.
std::size_t LineLimits::allowed(const std::string& text, double elapsed_ms) {
  const bool is_late = options_.longest_ms > 0 && elapsed_ms > options_.longest_ms;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    const bool is_blank = c == ' ' || c == '\t';
    if (in_indent_ && !is_blank && indent_ < options_.least_indent) {
      reached_ = true;
      return at;
    }
    in_indent_ = c == '\n' || (in_indent_ && is_blank);
    indent_ = in_indent_ && is_blank ? indent_ + 1 : 0;
    if (c != '\n' || !is_late) continue;
    reached_ = true;
    return at + 1;
  }
  return text.size();
}

}  // namespace kvkeep::chat::tools
