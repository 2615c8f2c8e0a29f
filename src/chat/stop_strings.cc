#include "chat/stop_strings.h"

#include <algorithm>
#include <utility>

namespace kvkeep::chat {

StopStrings::StopStrings(std::vector<std::string> stops) : stops_(std::move(stops)) {
  std::erase_if(stops_, [](const std::string& stop) { return stop.empty(); });
}

std::string StopStrings::feed(std::string_view text) {
  if (found_) return {};
  pending_ += text;
  std::size_t first_end = std::string::npos;
  for (const std::string& stop : stops_) {
    const std::size_t begin = pending_.find(stop);
    if (begin == std::string::npos) continue;
    const std::size_t end = begin + stop.size();
    if (end < first_end || (end == first_end && stop.size() > found_->size())) {
      first_end = end;
      found_ = stop;
    }
  }
  const std::size_t certain = found_ ? first_end - found_->size() : pending_.size() - held_back();
  std::string output = pending_.substr(0, certain);
  found_ ? pending_.clear() : static_cast<void>(pending_.erase(0, certain));
  return output;
}

std::string StopStrings::finish() { return std::exchange(pending_, {}); }

std::size_t StopStrings::held_back() const {
  std::size_t longest = 0;
  for (const std::string& stop : stops_) {
    for (std::size_t length = std::min(stop.size() - 1, pending_.size()); length > longest; --length) {
      if (pending_.ends_with(std::string_view(stop).substr(0, length))) longest = length;
    }
  }
  return longest;
}

}  // namespace kvkeep::chat
