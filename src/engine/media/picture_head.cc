// The heads of pictures: where each format has its width and height, and what else bounds the work of a decoder.
//
// The decoder of JPEG and GIF makes up the pixels that a file lacks. So a file that ends too early is seen here, by the
// parts that it consists of: a few bytes of each are read, and no pixel.

#include <algorithm>
#include <array>
#include <optional>

#include "engine/media/file_reader.h"

namespace kvkeep::engine::media {
namespace {

// libmtmd holds a picture twice at the end, in 3 bytes a pixel, whatever its decoder took before.
constexpr std::uint64_t kPixelBytes = 3;
constexpr std::uint64_t kLeastDecodedBytes = 2 * kPixelBytes;

// `decoded_bytes`: those that the decoder takes for a pixel.
MediaHead picture(Format format, std::uint32_t width, std::uint32_t height,
                  std::uint64_t decoded_bytes = kLeastDecodedBytes) {
  return {.medium = Medium::kPicture,
          .format = format,
          .width = width,
          .height = height,
          .decoded_bytes = std::uint64_t{width} * height * std::max(decoded_bytes, kLeastDecodedBytes)};
}

Error beyond(const char* what, std::uint32_t limit) {
  return no_space(std::string("it has more than ") + std::to_string(limit) + " " + what);
}

// The decoder holds the unpacked rows, and as many bytes again or, if one colour is transparent, one or two more for
// each pixel; those of interlaced pictures twice. It makes four bytes of a colour in a table, and then the result.
std::uint64_t png_decoded_bytes(const FileReader& file) {
  constexpr std::uint32_t kTable = 3;
  const std::uint32_t colour = file.byte(25);
  if (colour == kTable) return 4 + kPixelBytes;
  const std::uint64_t unpacked = (png_pixel_bits(file) + 7) / 8;
  const std::uint64_t transparency = colour > kTable ? 0 : file.byte(24) == 16 ? 2 : 1;
  const bool is_interlaced = file.byte(28) != 0;
  return unpacked + (unpacked + transparency) * (is_interlaced ? 2 : 1);
}

}  // namespace

std::uint32_t png_pixel_bits(const FileReader& file) {
  constexpr std::uint32_t kChannels[] = {1, 0, 3, 1, 2, 0, 4};
  const std::uint32_t depth = file.byte(24);
  const std::uint32_t colour = file.byte(25);
  const bool known = depth != 0 && depth <= 16 && (depth & (depth - 1)) == 0 && colour < std::size(kChannels);
  return known ? depth * kChannels[colour] : 0;
}

Result<MediaHead> read_png(const FileReader& file) {
  constexpr std::size_t kHead = 8 + 8 + 13;  // signature, length and name of the first chunk, its content
  if (!file.has(0, kHead)) return truncated();
  if (file.big32(8) != 13 || !file.is_text(12, "IHDR")) return damaged("its first part is not the head of a PNG");
  constexpr std::size_t kAround = 12;  // a part's length, name and sum
  std::size_t at = 8;
  while (file.has(at, kAround) && !file.is_text(at + 4, "IEND")) at += kAround + file.big32(at);
  if (!file.has(at, kAround)) return truncated();
  return picture(Format::kPng, file.big32(16), file.big32(20), png_decoded_bytes(file));
}

namespace {

constexpr std::uint32_t kStartOfScan = 0xDA;
constexpr std::uint32_t kEndOfImage = 0xD9;

bool is_frame_head(std::uint32_t marker) {
  return marker >= 0xC0 && marker <= 0xCF && marker != 0xC4 && marker != 0xC8 && marker != 0xCC;
}

// Returns the place after the next marker, whose second byte lies before it; nullopt if there is none. Compressed data
// has no markers, but restart marks and zeros after 0xFF.
std::optional<std::size_t> after_next_marker(const FileReader& file, std::size_t at) {
  for (at = file.find(0xFF, at); file.has(at, 2); at = file.find(0xFF, at + 1)) {
    const std::uint32_t next = file.byte(at + 1);
    if (next != 0 && next != 0xFF && !(next >= 0xD0 && next <= 0xD7)) return at + 2;
  }
  return std::nullopt;
}

bool is_progressive(const FileReader& file, std::size_t frame) { return file.byte(frame - 1) == 0xC2; }

// Blocks of 8 x 8 pixels in the smallest square that holds whole ones of each colour.
struct JpegBlocks {
  std::uint32_t square = 1;  // how many of one colour would fill it
  std::uint32_t all = 0;
  std::uint32_t least = 16;  // of one colour
};

JpegBlocks jpeg_blocks(const FileReader& file, std::size_t frame) {
  JpegBlocks blocks;
  std::uint32_t most_across = 1, most_down = 1;
  for (std::uint32_t i = 0; i < file.byte(frame + 7); ++i) {
    const std::uint32_t sampling = file.byte(frame + 8 + 3 * std::size_t{i} + 1);
    const std::uint32_t count = (sampling >> 4) * (sampling & 15);
    most_across = std::max(most_across, sampling >> 4);
    most_down = std::max(most_down, sampling & 15);
    blocks.all += count;
    blocks.least = std::min(blocks.least, count);
  }
  blocks.square = most_across * most_down;
  return blocks;
}

// The least bytes of compressed pixels: each block of 8 x 8 has two codes, or one in the first pass of a progressive
// file, and a code at least one bit. Such a file may lack later passes, and some decoders take one that lacks the
// colours.
std::uint64_t least_jpeg_bytes(const FileReader& file, std::size_t frame, const MediaHead& head) {
  const JpegBlocks blocks = jpeg_blocks(file, frame);
  const std::uint64_t codes = is_progressive(file, frame) ? blocks.least : 2 * blocks.all;
  return std::uint64_t{head.width} * head.height * codes / (64 * 8) / blocks.square;
}

// The decoder holds each colour in blocks, and of a progressive file two bytes more for each of its numbers; then the
// pixels.
std::uint64_t jpeg_decoded_bytes(const FileReader& file, std::size_t frame, const MediaHead& head) {
  const JpegBlocks blocks = jpeg_blocks(file, frame);
  const std::uint64_t numbers = std::uint64_t{head.width} * head.height * blocks.all / blocks.square;
  const std::uint64_t pixels = std::uint64_t{head.width} * head.height * kPixelBytes;
  return std::max(numbers * (is_progressive(file, frame) ? 3 : 1) + pixels, 2 * pixels);
}

// Reads the parts of a JPEG one after the other.
class JpegReader {
 public:
  JpegReader(const FileReader& file, const MediaLimits& limits) : file_(file), limits_(limits) {}

  // `only_size`: nothing after the frame's head is looked at.
  Result<MediaHead> read(bool only_size = false) {
    for (std::size_t at = 2;;) {
      const std::optional<std::size_t> next = after_next_marker(file_, at);
      if (!next) return truncated();
      if (in_scan_) pixel_bytes_ += *next - 2 - at;
      const std::uint32_t marker = file_.byte(*next - 1);
      if (marker == kEndOfImage) return finish();
      const std::uint32_t length = file_.big16(*next);
      if (!file_.has(*next, std::max(length, 2U))) return truncated();
      if (length < 2) return damaged("one of its parts has no length");
      TRY(read_part(marker, *next, length));
      if (only_size && frame_ != 0) return head_;
      at = *next + length;
    }
  }

 private:
  Status read_part(std::uint32_t marker, std::size_t at, std::uint32_t length) {
    in_scan_ = marker == kStartOfScan;
    if (in_scan_ && ++scans_ > limits_.scans) return beyond("scans", limits_.scans);
    if (!is_frame_head(marker)) return {};
    if (frame_ != 0) return damaged("it has two heads");
    if (marker > 0xC2) return unsupported("JPEGs of this kind (arithmetic coding, lossless) are not decoded");
    if (length < 8) return damaged("its head is too short");
    frame_ = at;
    head_.height = file_.big16(at + 3);
    head_.width = file_.big16(at + 5);
    head_.decoded_bytes = jpeg_decoded_bytes(file_, at, head_);
    return {};
  }

  Result<MediaHead> finish() const {
    if (frame_ == 0) return damaged("it has no head with a width and height");
    TRY(check_picture(head_, limits_));
    const bool enough = scans_ > 0 && pixel_bytes_ >= least_jpeg_bytes(file_, frame_, head_);
    return enough ? head_ : Result<MediaHead>(damaged("it has fewer pixels than its head promises"));
  }

  const FileReader& file_;
  const MediaLimits& limits_;
  MediaHead head_ = picture(Format::kJpeg, 0, 0);
  std::size_t frame_ = 0;  // the place of the frame's head after its marker; 0: none was read
  bool in_scan_ = false;
  std::uint32_t scans_ = 0;
  std::uint64_t pixel_bytes_ = 0;
};

}  // namespace

Result<MediaHead> read_jpeg(const FileReader& file, const MediaLimits& limits) {
  return JpegReader(file, limits).read();
}

Result<MediaHead> jpeg_size(const FileReader& file) { return JpegReader(file, {}).read(true); }

namespace {

// Of a GIF: the bytes of a table of colours.
std::size_t table_bytes(std::uint32_t flags) { return (flags & 0x80) != 0 ? std::size_t{3} << ((flags & 7) + 1) : 0; }

constexpr std::size_t kGifHead = 13;
constexpr std::size_t kGifFrame = 10;  // before its colours

// Where the blocks of data begin in the frame at `at`, after the number of bits of a colour.
std::size_t gif_data(const FileReader& file, std::size_t at) {
  return at + kGifFrame + table_bytes(file.byte(at + 9)) + 1;
}

// Returns the place after blocks of data; nullopt if the file ends before.
std::optional<std::size_t> after_gif_blocks(const FileReader& file, std::size_t at) {
  while (file.byte(at) != 0) at += 1 + file.byte(at);
  return file.has(at, 1) ? std::optional(at + 1) : std::nullopt;
}

// Returns the place of the next frame at or after `at`, between extensions; nullopt if there is none.
std::optional<std::size_t> gif_frame(const FileReader& file, std::optional<std::size_t> at) {
  while (at && file.byte(*at) == '!') at = after_gif_blocks(file, *at + 2);
  return at && file.byte(*at) == ',' ? at : std::nullopt;
}

}  // namespace

// The decoder holds the picture twice in four bytes a pixel, what it drew where in one, and the result. After the last
// frame there may be anything, as for the decoder, but for the beginning of a further frame.
Result<MediaHead> read_gif(const FileReader& file, const MediaLimits& limits) {
  if (!file.has(0, kGifHead)) return truncated();
  constexpr std::uint64_t kDecodedBytes = 4 + 4 + 1 + kPixelBytes;
  MediaHead head = picture(Format::kGif, file.little16(6), file.little16(8), kDecodedBytes);
  head.frames = 0;
  std::optional<std::size_t> at = kGifHead + table_bytes(file.byte(10));
  while (const std::optional<std::size_t> frame = gif_frame(file, at)) {
    if (++head.frames > limits.frames) return beyond("frames", limits.frames);
    at = after_gif_blocks(file, gif_data(file, *frame));
    if (!at) return truncated();
  }
  if (head.frames == 0) return damaged("it has no picture");
  return head;
}

namespace {

// Reads the codes of a GIF's frame, which lie in blocks of up to 255 bytes, the lowest bits first.
class GifCodes {
 public:
  GifCodes(const FileReader& file, std::size_t at) : file_(file), at_(at) {}

  // Returns nullopt at the end of the data.
  std::optional<std::uint32_t> next(unsigned bits) {
    while (count_ < bits) {
      if (left_ == 0) left_ = file_.byte(at_++);
      if (left_ == 0 || !file_.has(at_, 1)) return std::nullopt;
      bits_ |= file_.byte(at_++) << count_;
      count_ += 8;
      --left_;
    }
    const std::uint32_t code = bits_ & ((1U << bits) - 1);
    bits_ >>= bits;
    count_ -= bits;
    return code;
  }

 private:
  const FileReader& file_;
  std::size_t at_;
  std::uint32_t left_ = 0;  // bytes of the block
  std::uint32_t bits_ = 0;
  unsigned count_ = 0;  // of the bits
};

// Returns how many pixels the codes stand for, or `enough` if they are more; 0 if they are no codes. A code stands for
// one pixel, or for as many as an earlier one and one more.
std::uint64_t count_gif_pixels(GifCodes codes, unsigned colour_bits, std::uint64_t enough) {
  constexpr unsigned kMostBits = 12;
  const std::uint32_t clear = 1U << colour_bits;
  std::array<std::uint16_t, 1U << kMostBits> pixels{};
  std::fill_n(pixels.begin(), clear, std::uint16_t{1});
  std::uint64_t all = 0;
  std::uint32_t known = clear + 2;
  std::uint32_t before = clear;
  for (unsigned bits = colour_bits + 1; all < enough;) {
    const std::optional<std::uint32_t> code = codes.next(bits);
    if (!code || *code == clear + 1) break;
    if (*code == clear) {
      known = clear + 2;
      bits = colour_bits + 1;
    } else if (*code > known || (before == clear && *code > clear)) {
      return 0;
    } else {
      if (before != clear && known < pixels.size()) pixels[known++] = static_cast<std::uint16_t>(pixels[before] + 1);
      if (known == 1U << bits && bits < kMostBits) ++bits;
      all += pixels[*code];
    }
    before = *code;
  }
  return all;
}

}  // namespace

Status check_gif_pixels(ByteSpan bytes) {
  constexpr unsigned kMostColourBits = 8;
  const FileReader file(bytes);
  const std::optional<std::size_t> frame = gif_frame(file, kGifHead + table_bytes(file.byte(10)));
  if (!frame) return damaged("it has no picture");
  const std::uint64_t promised = std::uint64_t{file.little16(*frame + 5)} * file.little16(*frame + 7);
  constexpr std::uint64_t kSmall = 1'000'000;
  constexpr std::uint64_t kMostAround = 16;
  const std::uint64_t pixels = std::uint64_t{file.little16(6)} * file.little16(8);
  if (pixels > kSmall && pixels / kMostAround > promised) return damaged("its first frame is a small part of it");
  const std::size_t data = gif_data(file, *frame);
  const std::uint32_t colour_bits = file.byte(data - 1);
  if (colour_bits == 0 || colour_bits > kMostColourBits)
    return damaged("its colours have a number of bits that GIF does not have");
  const std::uint64_t found = count_gif_pixels(GifCodes(file, data), colour_bits, promised);
  return found > 0 && found >= promised ? Status() : damaged("it has fewer pixels than its head promises");
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

// The first part is the pixels, in one of two codings, or a head that says what the other parts are. libwebp takes four
// bytes a pixel beside the result, or fewer.
Result<MediaHead> read_webp(const FileReader& file) {
  constexpr std::size_t kPart = 12;
  constexpr std::size_t kContent = kPart + 8;
  if (!file.has(0, kContent + 10)) return truncated();
  if (!file.has(8, file.little32(4))) return truncated();
  constexpr std::uint64_t kDecodedBytes = 2 * 4 + kPixelBytes;
  const auto little24 = [&file](std::size_t at) { return file.little16(at) | file.byte(at + 2) << 16; };
  if (file.is_text(kPart, "VP8 ")) {
    if (little24(kContent + 3) != 0x2A019D) return damaged("its pixels do not begin as those of a WebP");
    return picture(Format::kWebp, file.little16(kContent + 6) & 0x3FFF, file.little16(kContent + 8) & 0x3FFF,
                   kDecodedBytes);
  }
  if (file.is_text(kPart, "VP8L")) {
    if (file.byte(kContent) != 0x2F) return damaged("its pixels do not begin as those of a WebP");
    const std::uint32_t sides = file.little32(kContent + 1);
    return picture(Format::kWebp, (sides & 0x3FFF) + 1, (sides >> 14 & 0x3FFF) + 1, kDecodedBytes);
  }
  if (!file.is_text(kPart, "VP8X")) return damaged("its first part is not one that a WebP begins with");
  constexpr std::uint32_t kAnimation = 2;
  if ((file.byte(kContent) & kAnimation) != 0) return unsupported("animations in WebP are not decoded");
  return picture(Format::kWebp, little24(kContent + 4) + 1, little24(kContent + 7) + 1, kDecodedBytes);
}

}  // namespace kvkeep::engine::media
