#pragma once

// For the readers of heads: numbers out of bytes, without reading past their end.

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "engine/media/media_file.h"

namespace kvkeep::engine::media {

// Reads at any place; numbers beyond the end are 0.
class FileReader {
 public:
  explicit FileReader(ByteSpan bytes) : bytes_(bytes) {}

  std::size_t size() const { return bytes_.size(); }
  bool has(std::size_t at, std::size_t count) const { return at <= bytes_.size() && count <= bytes_.size() - at; }
  std::uint32_t byte(std::size_t at) const {
    return at < bytes_.size() ? std::to_integer<std::uint32_t>(bytes_[at]) : 0;
  }
  std::uint32_t big16(std::size_t at) const { return byte(at) << 8 | byte(at + 1); }
  std::uint32_t big32(std::size_t at) const { return big16(at) << 16 | big16(at + 2); }
  std::uint32_t little16(std::size_t at) const { return byte(at) | byte(at + 1) << 8; }
  std::uint32_t little32(std::size_t at) const { return little16(at) | little16(at + 2) << 16; }
  bool is_text(std::size_t at, std::string_view text) const {
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (at + i >= bytes_.size() || byte(at + i) != static_cast<unsigned char>(text[i])) return false;
    }
    return true;
  }
  // Precondition: has(at, count).
  ByteSpan part(std::size_t at, std::size_t count) const { return bytes_.subspan(at, count); }
  // Returns the place of the first byte of this value at or after `at`; size() if there is none.
  std::size_t find(int value, std::size_t at) const {
    if (at >= bytes_.size()) return bytes_.size();
    const void* found = std::memchr(bytes_.data() + at, value, bytes_.size() - at);
    return found == nullptr ? bytes_.size()
                            : static_cast<std::size_t>(static_cast<const std::byte*>(found) - bytes_.data());
  }

 private:
  ByteSpan bytes_;
};

// A sound as its decoder gets it: a head that is written here, and runs of the file's samples or frames. Two parsers of
// one file may disagree where a file is odd: the decoder would find more sound than was checked, and take memory for
// that. So it never sees the file, but only what was understood here.
struct PlainSound {
  Format format = Format::kWav;
  std::uint64_t samples = 0;   // of each channel; exactly, or for an MP3 at most
  std::uint32_t rate = 0;      // samples a second
  std::uint32_t channels = 1;  // at most, likewise
  std::vector<std::byte> head = {};
  std::vector<ByteSpan> runs = {};
};

inline Error truncated() { return damaged("the file ends too early"); }

// Bits of a PNG's pixel; 0 for a combination of depth and colours that does not exist.
std::uint32_t png_pixel_bits(const FileReader& file);

// Returns a head that has only the picture's size, of a JPEG that may lack everything else.
Result<MediaHead> jpeg_size(const FileReader& file);

// kNoSpace for a picture beyond a limit.
Status check_picture(const MediaHead& head, const MediaLimits& limits);

// Of the formats; preconditions: the file begins like one.
Result<MediaHead> read_png(const FileReader& file);
Result<MediaHead> read_jpeg(const FileReader& file, const MediaLimits& limits);
Result<MediaHead> read_gif(const FileReader& file, const MediaLimits& limits);
Result<MediaHead> read_bmp(const FileReader& file);
Result<MediaHead> read_webp(const FileReader& file);
Result<PlainSound> read_wav(const FileReader& file);
Result<PlainSound> read_flac(const FileReader& file);
Result<PlainSound> read_mp3(const FileReader& file);

}  // namespace kvkeep::engine::media
