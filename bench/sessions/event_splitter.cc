#include "bench/sessions/event_splitter.h"

#include <utility>

namespace kvkeep::bench {

EventSplitter::EventSplitter(std::size_t limit_bytes, TakeEvent take)
    : limit_bytes_(limit_bytes), take_(std::move(take)) {}

void EventSplitter::feed(std::string_view bytes) {
  while (!bytes.empty()) {
    if (std::exchange(after_return_, false) && bytes.front() == '\n') {
      bytes.remove_prefix(1);
      continue;
    }
    const std::size_t end = bytes.find_first_of("\r\n");
    const std::string_view piece = bytes.substr(0, end);
    if (line_.size() + piece.size() > limit_bytes_) {
      overflowed_ = true;
    } else {
      line_.append(piece);
    }
    if (end == std::string_view::npos) return;
    after_return_ = bytes[end] == '\r';
    bytes.remove_prefix(end + 1);
    end_line();
  }
}

void EventSplitter::finish() {
  if (!line_.empty()) end_line();
  end_event();
}

void EventSplitter::end_line() {
  take_line(line_);
  line_.clear();
}

void EventSplitter::take_line(std::string_view line) {
  if (line.empty()) return end_event();
  const std::size_t colon = line.find(':');
  const std::string_view name = line.substr(0, colon);  // empty: a comment
  std::string_view value = colon == std::string_view::npos ? std::string_view() : line.substr(colon + 1);
  if (value.starts_with(' ')) value.remove_prefix(1);
  if (name == "event") {
    name_ = value;
  } else if (name == "data") {
    if (data_.size() + value.size() > limit_bytes_) {
      overflowed_ = true;
      return;
    }
    if (std::exchange(has_data_, true)) data_ += '\n';
    data_ += value;
  }
}

void EventSplitter::end_event() {
  if (std::exchange(has_data_, false)) take_(name_, data_);
  name_.clear();
  data_.clear();
}

}  // namespace kvkeep::bench
