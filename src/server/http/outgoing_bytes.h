#pragma once

// The bytes that a connection has yet to write, and how long its client has taken none. Pure: the socket and the time
// are passed in.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace kvkeep::server {

class OutgoingBytes {
 public:
  enum class Sent { kAll, kBlocked, kBroken };
  // Returns how many bytes the socket took, 0 if it takes none now, nullopt if it is broken.
  using Send = std::function<std::optional<std::size_t>(std::string_view bytes)>;

  bool empty() const { return bytes_.empty() && body_ == nullptr; }
  void add(std::string&& bytes);
  // Bytes that other connections send as well. Whatever is added before they are sent costs a copy of the rest.
  void add(std::shared_ptr<const std::string> body);
  // Sends as much as the socket takes. `taken` is called for each piece.
  Sent send(const Send& send, const std::function<void(std::size_t bytes)>& taken, std::int64_t now_ns);

  // When a byte was last sent, or mark() was called.
  std::int64_t sent_ns() const { return sent_ns_; }
  void mark(std::int64_t now_ns) { sent_ns_ = now_ns; }
  // Set while the client takes too little: from then on it has to take 64 KiB.
  std::optional<std::int64_t> stalled_ns() const { return stalled_ns_; }

 private:
  std::string bytes_;
  std::size_t written_ = 0;                  // of `bytes_`
  std::shared_ptr<const std::string> body_;  // comes after bytes_; null: none
  std::size_t body_written_ = 0;
  std::int64_t sent_ns_ = 0;
  std::optional<std::int64_t> stalled_ns_;
  std::size_t stalled_bytes_ = 0;  // since `stalled_ns_`
};

}  // namespace kvkeep::server
