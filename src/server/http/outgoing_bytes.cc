#include "server/http/outgoing_bytes.h"

#include <utility>

namespace kvkeep::server {
namespace {

constexpr std::size_t kPieceBytes = 64 << 10;  // the client must take this much in time
constexpr std::size_t kKeptBytes = 4'096;      // kept for an empty buffer: a thousand connections have one each

}  // namespace

void OutgoingBytes::add(std::shared_ptr<const std::string> body) {
  if (body_ != nullptr) return add(std::string(*body));
  if (body->empty()) return;
  body_ = std::move(body);
}

void OutgoingBytes::add(std::string&& bytes) {
  if (bytes.empty()) return;
  if (body_ != nullptr) bytes_ += std::exchange(body_, {})->substr(std::exchange(body_written_, 0));
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
  while (written_ < bytes_.size() || body_ != nullptr) {
    const bool in_body = written_ == bytes_.size();
    const auto count =
        send(in_body ? std::string_view(*body_).substr(body_written_) : std::string_view(bytes_).substr(written_));
    if (!count) return Sent::kBroken;
    if (*count == 0) {
      if (!stalled_ns_ || stalled_bytes_ >= kPieceBytes) {
        stalled_ns_ = now_ns;
        stalled_bytes_ = 0;
      }
      return Sent::kBlocked;
    }
    (in_body ? body_written_ : written_) += *count;
    if (in_body && body_written_ == body_->size()) body_.reset(), body_written_ = 0;
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
