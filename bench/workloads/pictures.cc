#include "bench/workloads/pictures.h"

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <random>

namespace kvkeep::bench {
namespace {

constexpr std::uint32_t kGreys = 16;
constexpr std::uint32_t kRowBytes = kPictureWidth / 2;  // 4 bits for each pixel; a multiple of 4, as BMP wants it
constexpr std::uint32_t kFileHeadBytes = 14;
constexpr std::uint32_t kPictureHeadBytes = 40;
constexpr std::uint32_t kBeforePixelsBytes = kFileHeadBytes + kPictureHeadBytes + 4 * kGreys;
constexpr std::uint32_t kPixelBytes = kRowBytes * kPictureHeight;
static_assert(kRowBytes % 4 == 0);

void append_numbers(std::string& to, std::initializer_list<std::uint32_t> numbers) {
  for (const std::uint32_t number : numbers) {
    for (int shift = 0; shift < 32; shift += 8) to.push_back(static_cast<char>(number >> shift));
  }
}

}  // namespace

std::string picture_file(std::string_view label) {
  std::string file = "BM";
  file.reserve(kBeforePixelsBytes + kPixelBytes);
  append_numbers(file, {kBeforePixelsBytes + kPixelBytes, 0, kBeforePixelsBytes});
  constexpr std::uint32_t kOnePlaneOfFourBits = 4U << 16 | 1;
  append_numbers(file, {kPictureHeadBytes, kPictureWidth, kPictureHeight, kOnePlaneOfFourBits, 0, kPixelBytes, 0, 0,
                        kGreys, kGreys});
  for (std::uint32_t grey = 0; grey < kGreys; ++grey) append_numbers(file, {grey * 0x111111});
  std::seed_seq seed(label.begin(), label.end());
  std::mt19937 random(seed);
  std::generate_n(std::back_inserter(file), kPixelBytes, [&] { return static_cast<char>(random()); });
  return file;
}

std::string picture_url(std::string_view label) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const std::string file = picture_file(label);
  std::string url = "data:image/bmp;base64,";
  url.reserve(url.size() + (file.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < file.size(); i += 3) {
    const std::size_t count = std::min<std::size_t>(3, file.size() - i);
    std::uint32_t bits = 0;
    for (std::size_t k = 0; k < 3; ++k) bits = bits << 8 | (k < count ? static_cast<std::uint8_t>(file[i + k]) : 0);
    for (std::size_t k = 0; k < 4; ++k) url.push_back(k <= count ? kDigits[bits >> (18 - 6 * k) & 63] : '=');
  }
  return url;
}

}  // namespace kvkeep::bench
