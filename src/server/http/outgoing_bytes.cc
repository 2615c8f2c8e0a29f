#include "server/http/outgoing_bytes.h"

#include <utility>

namespace kvkeep::server {
namespace {

constexpr std::size_t kPieceBytes = 64 << 10;  // the client must take this much in time
constexpr std::size_t kKeptBytes = 4'096;      // kept for an empty buffer: a thousand connections have one each

}  // namespace

void OutgoingBytes::add(std::string&& bytes) {
  if (bytes_.empty()) {
    bytes_ = std::move(bytes);
  } else {
    // Otherwise all of a long reply would be kept for a client that takes a little at a time.
    if (written_ > bytes_.size() / 2) bytes_.erase(0, std::exchange(written_, 0));
    bytes_ += bytes;
  }
}

OutgoingBytes::Sent OutgoingBytes::send(const Send& send, const std::function<void(std::size_t bytes)>& taken,
                                        std::int64_t now_ns) {
  while (written_ < bytes_.size()) {
    const auto count = send(std::string_view(bytes_).substr(written_));
    if (!count) return Sent::kBroken;
    if (*count == 0) {
      if (!stalled_ns_ || stalled_bytes_ >= kPieceBytes) {
        stalled_ns_ = now_ns;
        stalled_bytes_ = 0;
      }
      return Sent::kBlocked;
    }
    written_ += *count;
    stalled_bytes_ += *count;
    sent_ns_ = now_ns;
    taken(*count);
  }
  bytes_.clear();
  if (bytes_.capacity() > kKeptBytes) bytes_.shrink_to_fit();
  written_ = 0;
  stalled_ns_.reset();
  return Sent::kAll;
}

}  // namespace kvkeep::server
