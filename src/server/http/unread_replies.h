#pragma once

// Bytes of replies that wait to be read by clients, of all connections of a server together, and how often a connection
// was ended because its client did not read. Thread safe.
//
// With only a limit per reply, every connection could hold one of the greatest size.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "server/http/http_server.h"

namespace kvkeep::server {

class UnreadReplies {
 public:
  explicit UnreadReplies(std::size_t most) : most_(most) {}

  void add(std::size_t bytes) { bytes_ += bytes; }
  void remove(std::size_t bytes) { bytes_ -= bytes; }  // they were sent, or dropped
  std::size_t most() const { return most_; }
  bool are_too_many() const { return bytes_ > most_; }

  void note_end(UnreadCause cause) { ++ended_[static_cast<std::size_t>(cause)]; }
  UnreadCounts counts() const {
    UnreadCounts counts{.bytes = bytes_};
    for (std::size_t i = 0; i < kUnreadCauses; ++i) counts.ended[i] = ended_[i];
    return counts;
  }

 private:
  const std::size_t most_;
  std::atomic<std::size_t> bytes_{0};
  std::array<std::atomic<std::uint64_t>, kUnreadCauses> ended_{};
};

}  // namespace kvkeep::server
