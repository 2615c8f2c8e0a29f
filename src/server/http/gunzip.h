#pragma once

// Unpacks request bodies compressed with gzip, or in zlib's format, which HTTP calls deflate; packs replies that are
// made once and sent often. Pure.

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace kvkeep::server {

class Gunzip {
 public:
  struct Step {
    std::size_t used = 0;
    std::size_t made = 0;
    bool damaged = false;
  };

  Gunzip();
  ~Gunzip();
  Gunzip(const Gunzip&) = delete;
  Gunzip& operator=(const Gunzip&) = delete;

  // Unpacks from `bytes` into `out`, until one of them is used up or the end was reached.
  Step unpack(std::string_view bytes, std::span<char> out);
  bool at_end() const { return at_end_; }

 private:
  struct Stream;
  std::unique_ptr<Stream> stream_;
  bool at_end_ = false;
};

// Packs as small as zlib can; some 50 ms per megabyte. At most 1 GiB.
std::string gzip(std::string_view text);

}  // namespace kvkeep::server
