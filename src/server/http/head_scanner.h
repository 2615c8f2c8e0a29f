#pragma once

// Rules for the bytes of a request's head, checked before it is parsed: line ends, control characters, sizes. Two
// programs that read such a head differently (a proxy and this server, say) see different requests in it, so nothing is
// repaired. Pure.

#include <cstddef>
#include <string>
#include <string_view>

namespace kvkeep::server {

inline constexpr std::size_t kHeadLineBytesMax = 8'192;  // for the request line and each field
inline constexpr std::size_t kHeadBytesMax = 64 << 10;
inline constexpr std::size_t kHeadFieldsMax = 100;

// Why a request is answered with an error. Status 0 means that nothing is wrong.
struct Refusal {
  int status = 0;
  std::string reason;
};

class HeadScanner {
 public:
  enum class Found { kNothingYet, kEnd, kRefused };

  // `bytes` are all bytes from the head's first one on; those of earlier calls are not read again.
  Found scan(std::string_view bytes);
  // After kEnd: the head's size, with its empty line.
  std::size_t head_bytes() const { return scanned_; }
  const Refusal& refusal() const { return refusal_; }

 private:
  Found refuse(int status, std::string_view reason);
  Found end_line(std::size_t end);
  Found check_byte(unsigned char byte, std::size_t at);

  std::size_t scanned_ = 0;
  std::size_t line_begin_ = 0;
  std::size_t lines_ = 0;
  bool after_return_ = false;  // the last byte was a carriage return
  Refusal refusal_;
};

}  // namespace kvkeep::server
