#include "engine/media/media_file.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <string>

#include "engine/media/file_reader.h"

namespace kvkeep::engine::media {
namespace {

bool is_wav(const FileReader& file) { return file.is_text(0, "RIFF") && file.is_text(8, "WAVE"); }
bool is_flac(const FileReader& file) { return file.is_text(0, "fLaC"); }
bool is_mp3(const FileReader& file) {
  return file.is_text(0, "ID3") || (file.byte(0) == 0xFF && (file.byte(1) & 0xE0) == 0xE0);
}

Result<MediaHead> read_any(const FileReader& file, const MediaLimits& limits) {
  if (file.is_text(0, "\x89PNG\r\n\x1A\n")) return read_png(file);
  if (file.is_text(0, "\xFF\xD8\xFF")) return read_jpeg(file, limits);
  if (file.is_text(0, "GIF87a") || file.is_text(0, "GIF89a")) return read_gif(file, limits);
  if (file.is_text(0, "BM")) return read_bmp(file);
  if (file.is_text(0, "RIFF") && file.is_text(8, "WEBP")) return read_webp(file);
  if (is_wav(file)) return read_wav(file);
  if (is_flac(file)) return read_flac(file);
  if (is_mp3(file)) return read_mp3(file);
  return unsupported("it is none of the formats that are read: PNG, JPEG, GIF, BMP, WebP; WAV, MP3, FLAC");
}

Status check_sound(const MediaHead& head, const MediaLimits& limits) {
  if (head.seconds <= limits.seconds) return {};
  return no_space("it is a sound of up to " + std::to_string(static_cast<std::uint64_t>(head.seconds)) +
                  " seconds: at most " + std::to_string(static_cast<std::uint64_t>(limits.seconds)) +
                  " are read: send it in parts");
}

}  // namespace

Status check_picture(const MediaHead& head, const MediaLimits& limits) {
  const std::uint64_t pixels = std::uint64_t{head.width} * head.height;
  if (pixels == 0) return damaged("it is a picture without pixels");
  if (pixels <= limits.pixels && std::max(head.width, head.height) <= limits.side) return {};
  return no_space("it is a picture of " + std::to_string(head.width) + " x " + std::to_string(head.height) +
                  " pixels: at most " + std::to_string(limits.pixels) + " are read, and sides of " +
                  std::to_string(limits.side) + ": make it smaller");
}

Result<MediaHead> read_head(ByteSpan file, const MediaLimits& limits) {
  if (file.size() > limits.file_bytes.value()) {
    return no_space("it has " + std::to_string(file.size()) + " bytes: at most " +
                    std::to_string(limits.file_bytes.value()));
  }
  TRY_ASSIGN(const MediaHead head, read_any(FileReader(file), limits));
  TRY(head.medium == Medium::kPicture ? check_picture(head, limits) : check_sound(head, limits));
  return head;
}

bool begins_like_sound(ByteSpan bytes) {
  const FileReader file(bytes);
  return is_wav(file) || is_flac(file) || is_mp3(file);
}

namespace {

// Unpacks into one small buffer, again and again, and counts.
class UnpackedSize {
 public:
  UnpackedSize() { ready_ = inflateInit(&stream_) == Z_OK; }
  ~UnpackedSize() { inflateEnd(&stream_); }
  UnpackedSize(const UnpackedSize&) = delete;
  UnpackedSize& operator=(const UnpackedSize&) = delete;

  std::uint64_t bytes() const { return bytes_; }
  // Returns false if the bytes are not packed ones, or unpack to more than `limit` in all.
  bool add(ByteSpan packed, std::uint64_t limit) {
    // zlib's older interface takes no pointer to constant bytes.
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(packed.data()));
    stream_.avail_in = static_cast<uInt>(packed.size());
    while (ready_ && !ended_ && (stream_.avail_in > 0 || full_)) {
      stream_.next_out = buffer_.data();
      stream_.avail_out = static_cast<uInt>(buffer_.size());
      const int code = inflate(&stream_, Z_NO_FLUSH);
      bytes_ += buffer_.size() - stream_.avail_out;
      full_ = stream_.avail_out == 0;
      ended_ = code == Z_STREAM_END;
      if ((code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR) || bytes_ > limit) return false;
      if (code == Z_BUF_ERROR) break;
    }
    return ready_;
  }

 private:
  z_stream stream_{};
  std::array<Bytef, 65'536> buffer_;
  std::uint64_t bytes_ = 0;
  bool ready_ = false;
  bool ended_ = false;
  bool full_ = false;
};

// Returns 0 for a combination that does not exist.
std::uint32_t bits_per_pixel(std::uint32_t depth, std::uint32_t colour) {
  constexpr std::uint32_t kChannels[] = {1, 0, 3, 1, 2, 0, 4};
  const bool known = depth != 0 && depth <= 16 && (depth & (depth - 1)) == 0 && colour < std::size(kChannels);
  return known ? depth * kChannels[colour] : 0;
}

// Each row has a byte before it, and interlaced pictures have seven times rows of some pixels.
std::uint64_t unpacked_limit(std::uint64_t width, std::uint64_t height, std::uint32_t bits, bool interlaced) {
  const std::uint64_t plain = height * (1 + (width * bits + 7) / 8);
  return interlaced ? plain + 7 * (height + width + 8) * 2 : plain;
}

}  // namespace

Status check_png_pixels(ByteSpan bytes) {
  const FileReader file(bytes);
  const std::uint32_t bits = bits_per_pixel(file.byte(24), file.byte(25));
  if (bits == 0) return damaged("its colours have a depth that PNG does not have");
  const std::uint64_t limit = unpacked_limit(file.big32(16), file.big32(20), bits, file.byte(28) != 0);
  UnpackedSize unpacked;
  for (std::size_t at = 8; file.has(at, 12);) {
    const std::uint32_t length = file.big32(at);
    if (!file.has(at + 8, length)) return truncated();
    if (file.is_text(at + 4, "IEND")) break;
    if (file.is_text(at + 4, "IDAT") && !unpacked.add(bytes.subspan(at + 8, length), limit)) {
      return damaged("its pixels are damaged, or more than its head promises");
    }
    at += 12 + std::size_t{length};
  }
  return unpacked.bytes() == 0 ? damaged("it has no pixels") : Status();
}

}  // namespace kvkeep::engine::media
