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

void append_noise(std::string& to, std::string_view label, std::size_t bytes) {
  std::seed_seq seed(label.begin(), label.end());
  std::mt19937 random(seed);
  std::generate_n(std::back_inserter(to), bytes, [&] { return static_cast<char>(random()); });
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
  append_noise(file, label, kPixelBytes);
  return file;
}

std::string picture_url(std::string_view label) { return "data:image/bmp;base64," + in_base64(picture_file(label)); }

std::string sound_file(std::string_view label) {
  constexpr std::uint32_t kRate = 16'000;  // samples of two bytes
  constexpr std::uint32_t kSampleBytes = 2 * kRate;
  std::string file = "RIFF";
  append_numbers(file, {36 + kSampleBytes});
  file += "WAVEfmt ";
  constexpr std::uint32_t kOneChannel = 1U << 16 | 1;
  append_numbers(file, {16, kOneChannel, kRate, 2 * kRate, 16U << 16 | 2});
  file += "data";
  append_numbers(file, {kSampleBytes});
  append_noise(file, label, kSampleBytes);
  return file;
}

std::string in_base64(std::string_view bytes) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - i);
    std::uint32_t bits = 0;
    for (std::size_t k = 0; k < 3; ++k) bits = bits << 8 | (k < count ? static_cast<std::uint8_t>(bytes[i + k]) : 0);
    for (std::size_t k = 0; k < 4; ++k) text.push_back(k <= count ? kDigits[bits >> (18 - 6 * k) & 63] : '=');
  }
  return text;
}

}  // namespace kvkeep::bench
