// The heads of pictures: where each format has its width and height, and what else bounds the work of a decoder.

#include "engine/media/file_reader.h"

namespace kvkeep::engine::media {
namespace {

MediaHead picture(Format format, std::uint32_t width, std::uint32_t height) {
  return {.medium = Medium::kPicture, .format = format, .width = width, .height = height};
}

Error beyond(const char* what, std::uint32_t limit) {
  return no_space(std::string("it has more than ") + std::to_string(limit) + " " + what);
}

}  // namespace

Result<MediaHead> read_png(const FileReader& file) {
  constexpr std::size_t kHead = 8 + 8 + 13;  // signature, length and name of the first chunk, its content
  if (!file.has(0, kHead)) return truncated();
  if (file.big32(8) != 13 || !file.is_text(12, "IHDR")) return damaged("its first part is not the head of a PNG");
  return picture(Format::kPng, file.big32(16), file.big32(20));
}

namespace {

constexpr std::uint32_t kStartOfScan = 0xDA;
constexpr std::uint32_t kEndOfImage = 0xD9;

bool is_frame_head(std::uint32_t marker) {
  return marker >= 0xC0 && marker <= 0xCF && marker != 0xC4 && marker != 0xC8 && marker != 0xCC;
}

// Returns the place after the next marker, whose second byte lies before it; the end of the file if there is none.
// Compressed data has no markers, but restart marks and zeros after 0xFF.
std::size_t after_next_marker(const FileReader& file, std::size_t at) {
  for (; file.has(at, 2); ++at) {
    const std::uint32_t next = file.byte(at + 1);
    const bool marks = file.byte(at) == 0xFF && next != 0 && next != 0xFF && !(next >= 0xD0 && next <= 0xD7);
    if (marks) return at + 2;
  }
  return file.size();
}

}  // namespace

Result<MediaHead> read_jpeg(const FileReader& file, const MediaLimits& limits) {
  MediaHead head = picture(Format::kJpeg, 0, 0);
  std::uint32_t scans = 0;
  for (std::size_t at = after_next_marker(file, 2); at < file.size(); at = after_next_marker(file, at)) {
    const std::uint32_t marker = file.byte(at - 1);
    if (marker == kEndOfImage) break;
    const std::uint32_t length = file.big16(at);
    if (length < 2 || !file.has(at, length)) break;
    if (is_frame_head(marker)) {
      if (head.width != 0) return damaged("it has two heads");
      if (marker > 0xC2) return unsupported("JPEGs of this kind (arithmetic coding, lossless) are not decoded");
      if (length < 8) return damaged("its head is too short");
      head.height = file.big16(at + 3);
      head.width = file.big16(at + 5);
    }
    if (marker == kStartOfScan && ++scans > limits.scans) return beyond("scans", limits.scans);
    at += length;
  }
  if (head.width == 0 && head.height == 0) return damaged("it has no head with a width and height");
  return head;
}

Result<MediaHead> read_gif(const FileReader& file, const MediaLimits& limits) {
  constexpr std::size_t kHead = 13;
  if (!file.has(0, kHead)) return truncated();
  const auto table_bytes = [](std::uint32_t flags) -> std::size_t {
    return (flags & 0x80) != 0 ? std::size_t{3} << ((flags & 7) + 1) : 0;
  };
  const auto after_blocks = [&file](std::size_t at) {
    while (at < file.size() && file.byte(at) != 0) at += 1 + file.byte(at);
    return at + 1;
  };
  MediaHead head = picture(Format::kGif, file.little16(6), file.little16(8));
  head.frames = 0;
  std::size_t at = kHead + table_bytes(file.byte(10));
  while (at < file.size()) {
    const std::uint32_t kind = file.byte(at);
    if (kind == ';') break;
    if (kind == '!') {
      at = after_blocks(at + 2);
    } else if (kind == ',') {
      if (++head.frames > limits.frames) return beyond("frames", limits.frames);
      at = after_blocks(at + 10 + table_bytes(file.byte(at + 9)) + 1);
    } else {
      break;  // the decoder stops here as well
    }
  }
  if (head.frames == 0) return damaged("it has no picture");
  return head;
}

namespace {

// Pixels are not packed in any BMP that is decoded: a file without them would make the decoder fill in as many as its
// head says. Sides of more than 16 bits are beyond the limit anyway. The bytes that fill the last row up may be
// missing.
Status check_bmp_pixels(const FileReader& file, const MediaHead& head, std::uint32_t bits) {
  if (head.width > 0xFFFF || head.height > 0xFFFF || head.height == 0) return {};
  const std::size_t packed = (std::size_t{head.width} * bits + 7) / 8;
  const std::size_t row = (packed + 3) / 4 * 4;
  if (file.has(file.little32(10), row * (head.height - 1) + packed)) return {};
  return damaged("its head promises more pixels than it has");
}

}  // namespace

Result<MediaHead> read_bmp(const FileReader& file) {
  constexpr std::size_t kShortHead = 14 + 12;
  if (!file.has(0, kShortHead)) return truncated();
  const bool is_old = file.little32(14) == 12;
  // Rows from the top have a negative height.
  const auto height = static_cast<std::int32_t>(file.little32(22));
  const MediaHead head = is_old ? picture(Format::kBmp, file.little16(18), file.little16(20))
                                : picture(Format::kBmp, file.little32(18),
                                          static_cast<std::uint32_t>(height < 0 ? -std::int64_t{height} : height));
  TRY(check_bmp_pixels(file, head, file.little16(is_old ? 24 : 28)));
  return head;
}

// The first part is the pixels, in one of two codings, or a head that says what the other parts are.
Result<MediaHead> read_webp(const FileReader& file) {
  constexpr std::size_t kPart = 12;
  constexpr std::size_t kContent = kPart + 8;
  if (!file.has(0, kContent + 10)) return truncated();
  const auto little24 = [&file](std::size_t at) { return file.little16(at) | file.byte(at + 2) << 16; };
  if (file.is_text(kPart, "VP8 ")) {
    if (little24(kContent + 3) != 0x2A019D) return damaged("its pixels do not begin as those of a WebP");
    return picture(Format::kWebp, file.little16(kContent + 6) & 0x3FFF, file.little16(kContent + 8) & 0x3FFF);
  }
  if (file.is_text(kPart, "VP8L")) {
    if (file.byte(kContent) != 0x2F) return damaged("its pixels do not begin as those of a WebP");
    const std::uint32_t sides = file.little32(kContent + 1);
    return picture(Format::kWebp, (sides & 0x3FFF) + 1, (sides >> 14 & 0x3FFF) + 1);
  }
  if (!file.is_text(kPart, "VP8X")) return damaged("its first part is not one that a WebP begins with");
  constexpr std::uint32_t kAnimation = 2;
  if ((file.byte(kContent) & kAnimation) != 0) return unsupported("animations in WebP are not decoded");
  return picture(Format::kWebp, little24(kContent + 4) + 1, little24(kContent + 7) + 1);
}

}  // namespace kvkeep::engine::media
