#pragma once

// Files of every format that is read, written in the slow and obvious way.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/types.h"

namespace kvkeep::engine::media {

class FileWriter {
 public:
  void byte(std::uint32_t value) { bytes_.push_back(static_cast<std::byte>(value)); }
  void text(std::string_view text) {
    for (const char c : text) byte(static_cast<unsigned char>(c));
  }
  void big(std::uint32_t value, int count) {
    for (int i = count - 1; i >= 0; --i) byte(value >> (8 * i) & 0xFF);
  }
  void little(std::uint32_t value, int count) {
    for (int i = 0; i < count; ++i) byte(value >> (8 * i) & 0xFF);
  }
  void add(std::span<const std::byte> more) { bytes_.insert(bytes_.end(), more.begin(), more.end()); }
  std::size_t size() const { return bytes_.size(); }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

// Pixels of a picture, red, green and blue for each; they look random and depend on `seed`.
inline std::vector<std::uint8_t> make_pixels(std::uint32_t width, std::uint32_t height, std::uint32_t seed = 1) {
  std::vector<std::uint8_t> pixels;
  for (std::uint32_t i = 0; i < width * height * 3; ++i) {
    pixels.push_back(static_cast<std::uint8_t>((i + seed * 7919) * 2654435761U >> 24));
  }
  return pixels;
}

inline std::vector<std::byte> make_bmp(std::uint32_t width, std::uint32_t height,
                                       std::span<const std::uint8_t> pixels) {
  FileWriter file;
  const std::uint32_t row = (width * 3 + 3) / 4 * 4;
  file.text("BM");
  file.little(54 + row * height, 4);
  file.little(0, 4);
  file.little(54, 4);
  file.little(40, 4);
  file.little(width, 4);
  file.little(0 - height, 4);  // rows from the top
  file.little(1, 2);
  file.little(24, 2);
  for (int i = 0; i < 6; ++i) file.little(0, 4);
  for (std::uint32_t y = 0; y < height; ++y) {
    for (std::uint32_t x = 0; x < width; ++x) {
      for (int colour = 2; colour >= 0; --colour)
        file.byte(pixels[(y * width + x) * 3 + static_cast<unsigned>(colour)]);
    }
    for (std::uint32_t i = width * 3; i < row; ++i) file.byte(0);
  }
  return file.take();
}

inline std::vector<std::byte> make_bmp(std::uint32_t width, std::uint32_t height, std::uint32_t seed = 1) {
  return make_bmp(width, height, make_pixels(width, height, seed));
}

// The colours of the two WebP below: squares of 8 pixels.
inline std::vector<std::uint8_t> webp_colours() {
  std::vector<std::uint8_t> pixels;
  for (std::uint32_t y = 0; y < 6; ++y) {
    for (std::uint32_t row = 0; row < 8; ++row) {
      for (std::uint32_t x = 0; x < 64; ++x) {
        for (const std::uint32_t colour : {x / 8 * 40, y * 30, (x / 8 + y) * 12}) {
          pixels.push_back(static_cast<std::uint8_t>(colour));
        }
      }
    }
  }
  return pixels;
}

// 64 x 48, made by libwebp: without loss, and with.
inline std::vector<std::byte> webp_file(bool lossless) {
  static constexpr unsigned char kLossless[] = {
      0x52, 0x49, 0x46, 0x46, 0x3e, 0x00, 0x00, 0x00, 0x57, 0x45, 0x42, 0x50, 0x56, 0x50, 0x38, 0x4c, 0x32, 0x00,
      0x00, 0x00, 0x2f, 0x3f, 0xc0, 0x0b, 0x00, 0x99, 0x32, 0x44, 0xf4, 0x3f, 0x36, 0x11, 0xd1, 0xff, 0x30, 0xa8,
      0x69, 0xdb, 0x08, 0x2a, 0x92, 0xf2, 0x27, 0xda, 0xa9, 0xd3, 0xfd, 0xa7, 0x41, 0x29, 0x43, 0x28, 0x48, 0xdb,
      0x80, 0xd9, 0x04, 0x7c, 0x15, 0x2f, 0x44, 0x83, 0x40, 0x14, 0x49, 0x3e, 0x6c, 0x71, 0xbf, 0x7b};
  static constexpr unsigned char kLossy[] = {
      0x52, 0x49, 0x46, 0x46, 0x8a, 0x00, 0x00, 0x00, 0x57, 0x45, 0x42, 0x50, 0x56, 0x50, 0x38, 0x20, 0x7e, 0x00, 0x00,
      0x00, 0x10, 0x05, 0x00, 0x9d, 0x01, 0x2a, 0x40, 0x00, 0x30, 0x00, 0x3e, 0xad, 0x46, 0x9b, 0x49, 0xa6, 0x23, 0xa2,
      0xa1, 0x32, 0xa8, 0x00, 0xc0, 0x15, 0x89, 0x66, 0x03, 0x24, 0x01, 0xdc, 0xb8, 0x00, 0xe9, 0x62, 0xb9, 0x9b, 0xfc,
      0x10, 0xff, 0x72, 0x6d, 0x2f, 0xfe, 0x7e, 0x4c, 0x3f, 0xfb, 0x9f, 0x00, 0x00, 0xfe, 0xfc, 0x6f, 0x19, 0xff, 0xe5,
      0x0b, 0xab, 0x5e, 0x77, 0x1d, 0x9a, 0x8f, 0xe4, 0xc2, 0x8f, 0xc6, 0xe8, 0xb5, 0x4f, 0x67, 0xfc, 0x29, 0x5c, 0xd2,
      0x33, 0x75, 0xff, 0xd7, 0xe9, 0xcc, 0x88, 0x4b, 0x9b, 0x3f, 0x13, 0x13, 0xc7, 0xde, 0xf2, 0x3f, 0xd2, 0x77, 0x35,
      0x1c, 0xe6, 0x5e, 0xa1, 0x54, 0x8d, 0x50, 0xb9, 0xa0, 0x74, 0x9f, 0x6c, 0x9e, 0x97, 0x5f, 0xc3, 0x86, 0x2c, 0xe1,
      0x0c, 0xef, 0x54, 0x08, 0x12, 0xa8, 0xe0, 0x25, 0xcf, 0x50, 0x00, 0x00, 0x00};
  const auto bytes = std::as_bytes(lossless ? std::span<const unsigned char>(kLossless) : std::span(kLossy));
  return {bytes.begin(), bytes.end()};
}

// The packed form of `raw` without any packing.
inline std::vector<std::byte> stored(std::span<const std::byte> raw) {
  FileWriter out;
  out.big(0x7801, 2);
  std::uint32_t low = 1, high = 0;
  for (std::size_t at = 0; at < raw.size();) {
    const std::size_t count = std::min<std::size_t>(65'535, raw.size() - at);
    out.byte(at + count == raw.size() ? 1 : 0);
    out.little(static_cast<std::uint32_t>(count), 2);
    out.little(static_cast<std::uint32_t>(count) ^ 0xFFFF, 2);
    out.add(raw.subspan(at, count));
    at += count;
  }
  for (const std::byte each : raw) {
    low = (low + std::to_integer<std::uint32_t>(each)) % 65'521;
    high = (high + low) % 65'521;
  }
  out.big(high << 16 | low, 4);
  return out.take();
}

inline std::uint32_t png_sum(std::span<const std::byte> bytes) {
  std::uint32_t sum = 0xFFFFFFFF;
  for (const std::byte each : bytes) {
    sum ^= std::to_integer<std::uint32_t>(each);
    for (int i = 0; i < 8; ++i) sum = sum >> 1 ^ ((sum & 1) != 0 ? 0xEDB88320U : 0);
  }
  return ~sum;
}

inline void add_png_part(FileWriter& file, std::string_view name, std::span<const std::byte> content) {
  FileWriter part;
  part.text(name);
  part.add(content);
  file.big(static_cast<std::uint32_t>(content.size()), 4);
  const std::vector<std::byte> bytes = part.take();
  file.add(bytes);
  file.big(png_sum(bytes), 4);
}

// `packed` are its packed rows, each with a zero before it; the head may say otherwise.
inline std::vector<std::byte> make_png(std::uint32_t width, std::uint32_t height, std::span<const std::byte> packed) {
  FileWriter head;
  head.big(width, 4);
  head.big(height, 4);
  head.big(0x08020000, 4);  // 8 bits, red, green and blue
  head.byte(0);
  FileWriter file;
  file.text("\x89PNG\r\n\x1A\n");
  add_png_part(file, "IHDR", head.take());
  add_png_part(file, "IDAT", packed);
  add_png_part(file, "IEND", {});
  return file.take();
}

inline std::vector<std::byte> make_png(std::uint32_t width, std::uint32_t height, std::uint32_t seed = 1) {
  const std::vector<std::uint8_t> pixels = make_pixels(width, height, seed);
  FileWriter rows;
  for (std::uint32_t y = 0; y < height; ++y) {
    rows.byte(0);
    for (std::uint32_t i = 0; i < width * 3; ++i) rows.byte(pixels[y * width * 3 + i]);
  }
  return make_png(width, height, stored(rows.take()));
}

// Grey, but for a first block of another shade. `scans`: how often all pixels are coded.
inline std::vector<std::byte> make_jpeg(std::uint32_t width, std::uint32_t height, std::uint32_t scans = 1) {
  FileWriter file;
  file.big(0xFFD8, 2);
  file.big(0xFFDB0043, 4);
  file.byte(0);
  for (int i = 0; i < 64; ++i) file.byte(1);
  file.big(0xFFC0000B, 4);
  file.byte(8);
  file.big(height, 2);
  file.big(width, 2);
  file.big(0x01011100, 4);
  // Codes of differences: 0 means none, 10 one of 7 bits. Codes of the rest of a block: 0 ends it.
  for (const std::uint32_t table : {0x00U, 0x10U}) {
    file.big(0xFFC40000 + 2 + 17 + (table == 0 ? 2 : 1), 4);
    file.byte(table);
    for (int length = 1; length <= 16; ++length) file.byte(length == 1 || (length == 2 && table == 0) ? 1 : 0);
    file.byte(0);
    if (table == 0) file.byte(7);
  }
  const std::uint32_t blocks = (width + 7) / 8 * ((height + 7) / 8);
  for (std::uint32_t scan = 0; scan < scans; ++scan) {
    file.big(0xFFDA0008, 4);
    file.big(0x01010000, 4);
    file.big(0x3F00, 2);
    file.big(0xA9, 1);  // 10, then 1010100 for 84, then the 0 that ends the block... of which one bit follows
    file.big(0x00, 1);
    for (std::uint32_t i = 0; i < blocks / 4; ++i) file.byte(0);
  }
  file.big(0xFFD9, 2);
  return file.take();
}

// The blocks of a GIF's frame of two colours: codes of 3 bits, of which 4 forgets all longer runs and 5 ends. `pixels`
// of more than a million are left out.
inline std::vector<std::byte> gif_blocks(std::uint64_t pixels) {
  FileWriter data;
  std::uint32_t bits = 0;
  int count = 0;
  const auto add = [&](std::uint32_t code) {
    bits |= code << count;
    for (count += 3; count >= 8; count -= 8, bits >>= 8) data.byte(bits & 0xFF);
  };
  for (std::uint64_t i = 0; i < pixels && pixels <= 1'000'000; ++i) {
    if (i % 2 == 0) add(4);  // after two runs codes would grow
    add(i % 3 == 0 ? 1 : 0);
  }
  add(5);
  data.byte(bits);
  const std::vector<std::byte> bytes = data.take();
  FileWriter blocks;
  for (std::size_t at = 0; at < bytes.size(); at += 255) {
    const std::size_t size = std::min<std::size_t>(255, bytes.size() - at);
    blocks.byte(static_cast<std::uint32_t>(size));
    blocks.add(std::span(bytes).subspan(at, size));
  }
  blocks.byte(0);
  return blocks.take();
}

inline std::vector<std::byte> make_gif(std::uint32_t width, std::uint32_t height, std::uint32_t frames = 1) {
  FileWriter file;
  file.text("GIF89a");
  file.little(width, 2);
  file.little(height, 2);
  file.big(0x800000, 3);  // a table of two colours
  file.big(0x102030, 3);
  file.big(0xF0E0D0, 3);
  for (std::uint32_t frame = 0; frame < frames; ++frame) {
    file.byte(',');
    file.little(0, 4);
    file.little(width, 2);
    file.little(height, 2);
    file.byte(0);
    file.byte(2);  // bits of a colour; codes have one more
    file.add(gif_blocks(std::uint64_t{width} * height));
  }
  file.byte(';');
  return file.take();
}

// A tone, in 16 bits.
inline std::vector<std::byte> make_wav(std::uint32_t samples, std::uint32_t rate = 16'000, std::int32_t bump = 0) {
  FileWriter file;
  file.text("RIFF");
  file.little(36 + samples * 2, 4);
  file.text("WAVEfmt ");
  file.little(16, 4);
  file.little(1, 2);
  file.little(1, 2);
  file.little(rate, 4);
  file.little(rate * 2, 4);
  file.little(2, 2);
  file.little(16, 2);
  file.text("data");
  file.little(samples * 2, 4);
  for (std::uint32_t i = 0; i < samples; ++i) {
    const auto value = static_cast<std::int32_t>(3'000 * std::sin(i * 0.05)) + (i == samples / 2 ? bump : 0);
    file.little(static_cast<std::uint32_t>(value) & 0xFFFF, 2);
  }
  return file.take();
}

// Samples of 32 bits that are no whole numbers, 16,000 a second.
inline std::vector<std::byte> make_float_wav(std::span<const float> samples) {
  FileWriter file;
  const auto bytes = static_cast<std::uint32_t>(samples.size_bytes());
  file.text("RIFF");
  file.little(36 + bytes, 4);
  file.text("WAVEfmt ");
  file.little(16, 4);
  file.little(3, 2);
  file.little(1, 2);
  file.little(16'000, 4);
  file.little(64'000, 4);
  file.little(4, 2);
  file.little(32, 2);
  file.text("data");
  file.little(bytes, 4);
  file.add(std::as_bytes(samples));
  return file.take();
}

// The head of a FLAC file, and `more` bytes.
inline std::vector<std::byte> make_flac_head(std::uint32_t rate, std::uint64_t samples, std::size_t more) {
  FileWriter file;
  file.text("fLaC");
  file.big(0x80000022, 4);
  file.big(4'096, 2);
  file.big(4'096, 2);
  file.big(0, 3);
  file.big(0, 3);
  const std::uint64_t packed = std::uint64_t{rate} << 44 | std::uint64_t{15} << 36 | samples;  // one channel, 16 bits
  file.big(static_cast<std::uint32_t>(packed >> 32), 4);
  file.big(static_cast<std::uint32_t>(packed), 4);
  for (std::size_t i = 0; i < 16 + more; ++i) file.byte(0);
  return file.take();
}

// The checksum of a FLAC frame (16 bits) or of its head (8).
inline std::uint32_t flac_sum(std::span<const std::byte> bytes, std::uint32_t polynomial, int bits) {
  std::uint32_t sum = 0;
  for (const std::byte each : bytes) {
    sum ^= std::to_integer<std::uint32_t>(each) << (bits - 8);
    for (int i = 0; i < 8; ++i) sum = (sum << 1) ^ ((sum >> (bits - 1) & 1) != 0 ? polynomial : 0);
    sum &= (1U << bits) - 1;
  }
  return sum;
}

// The samples of a WAV of make_wav(), in frames of 1,024 that are not packed.
inline std::vector<std::byte> make_flac(std::span<const std::byte> wav, std::uint32_t rate = 16'000) {
  constexpr std::size_t kHead = 44, kFrame = 1'024;
  const std::size_t samples = (wav.size() - kHead) / 2;
  const std::vector<std::byte> head = make_flac_head(rate, samples, 0);
  FileWriter file;
  file.add(head);
  for (std::size_t begin = 0, number = 0; begin < samples; begin += kFrame, ++number) {
    const std::size_t count = std::min(kFrame, samples - begin);
    FileWriter frame;
    frame.big(0xFFF87008, 4);  // frames of equal size, which stands below; the head's rate, one channel, 16 bits
    if (number >= 0x80) frame.byte(0xC0 | static_cast<std::uint32_t>(number >> 6));  // in UTF-8, up to 2,047
    frame.byte(static_cast<std::uint32_t>(number < 0x80 ? number : 0x80 | (number & 0x3F)));
    frame.big(static_cast<std::uint32_t>(count - 1), 2);
    std::vector<std::byte> bytes = frame.take();
    frame.add(bytes);
    frame.byte(flac_sum(bytes, 0x07, 8));
    frame.byte(0x02);  // the samples as they are
    for (std::size_t i = kHead + 2 * begin; i < kHead + 2 * (begin + count); i += 2) {
      frame.add(wav.subspan(i + 1, 1));
      frame.add(wav.subspan(i, 1));
    }
    bytes = frame.take();
    file.add(bytes);
    file.big(flac_sum(bytes, 0x8005, 16), 2);
  }
  return file.take();
}

// Frames of silence: MPEG 1, layer III, 128 kilobits and 44,100 samples a second, one channel.
inline std::vector<std::byte> make_mp3(std::uint32_t frames) {
  FileWriter file;
  for (std::uint32_t i = 0; i < frames; ++i) {
    file.big(0xFFFB90C0, 4);
    for (int k = 4; k < 417; ++k) file.byte(0);
  }
  return file.take();
}

// A frame of that kind that is no sound: it says how many frames there are. Its name is one of Xing, Info and VBRI.
inline std::vector<std::byte> make_mp3_index(std::string_view name, std::uint32_t count) {
  constexpr std::ptrdiff_t kSideInformation = 17;
  std::vector<std::byte> frame = make_mp3(1);
  FileWriter says;
  says.text(name);
  says.big(1, 4);
  says.big(count, 4);
  std::ranges::copy(says.take(), frame.begin() + 4 + (name == "VBRI" ? 32 : kSideInformation));
  return frame;
}

}  // namespace kvkeep::engine::media
