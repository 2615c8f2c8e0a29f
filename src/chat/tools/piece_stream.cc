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

}  // namespace kvkeep::chat::tools
