#include "chat/tools/marked_text.h"

#include <algorithm>

namespace kvkeep::chat::tools {

void MarkedText::append(std::string_view text, bool is_marker) {
  const std::size_t begin = dropped_ + bytes_.size();
  bytes_ += text;
  if (is_marker && !text.empty()) markers_.emplace_back(begin, begin + text.size());
}

bool MarkedText::is_marker(std::size_t begin, std::size_t end) const {
  const std::size_t origin = dropped_ + front_;
  return std::ranges::binary_search(markers_, std::pair(origin + begin, origin + end));
}

void MarkedText::drop(std::size_t count) {
  front_ += count;
  while (!markers_.empty() && markers_.front().second <= dropped_ + front_) markers_.pop_front();
  if (front_ < bytes_.size() - front_) return;  // kept bytes are moved at most once per dropped byte
  bytes_.erase(0, front_);
  dropped_ += front_;
  front_ = 0;
}

Tag::Tag(std::string_view spelling, const MarkerSet& markers) : spelling_(spelling) {
  std::size_t from = 0;
  while (const auto found = markers.next(spelling, from)) {
    markers_.push_back({found->begin, found->end, found->marker->id});
    from = found->end;
  }
}

Match Tag::match(const MarkedText& text, std::size_t at) const {
  const std::string_view rest = text.text().substr(at);
  const std::size_t known = std::min(rest.size(), spelling_.size());
  if (known == 0 || rest.substr(0, known) != std::string_view(spelling_).substr(0, known)) return Match::kNo;
  for (const TagMarker& marker : markers_) {
    if (marker.begin < known && !text.is_marker(at + marker.begin, at + marker.end)) return Match::kNo;
  }
  return known == spelling_.size() ? Match::kYes : Match::kOpen;
}

}  // namespace kvkeep::chat::tools
