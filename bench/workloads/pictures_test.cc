#include "bench/workloads/pictures.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <set>

namespace kvkeep::bench {
namespace {

std::uint32_t number_at(const std::string& file, std::size_t at) {
  std::uint32_t number = 0;
  for (std::size_t i = 4; i > 0; --i) number = number << 8 | static_cast<std::uint8_t>(file[at + i - 1]);
  return number;
}

TEST(Pictures, AreFilesOfHalfAMegapixel) {
  const std::string file = picture_file("1");
  EXPECT_TRUE(file.starts_with("BM"));
  EXPECT_EQ(number_at(file, 2), file.size());
  EXPECT_EQ(number_at(file, 18), kPictureWidth);
  EXPECT_EQ(number_at(file, 22), kPictureHeight);
  const std::size_t pixels = number_at(file, 10);
  EXPECT_EQ(pixels + kPictureWidth * kPictureHeight / 2, file.size());
  EXPECT_EQ(number_at(file, pixels - 4), 0xffffffU) << "the last of the greys is white";
  EXPECT_GT(std::set<char>(file.begin() + static_cast<std::ptrdiff_t>(pixels), file.end()).size(), 200u);
}

TEST(Pictures, DependOnTheirLabelOnly) {
  EXPECT_EQ(picture_file("1"), picture_file("1"));
  EXPECT_NE(picture_file("1"), picture_file("2"));
}

TEST(Sounds, AreASecondOfNoise) {
  const std::string file = sound_file("1");
  EXPECT_TRUE(file.starts_with("RIFF"));
  EXPECT_EQ(number_at(file, 4), file.size() - 8);
  EXPECT_EQ(file.substr(8, 8), "WAVEfmt ");
  EXPECT_EQ(number_at(file, 24), 16'000u);
  EXPECT_EQ(number_at(file, 40), file.size() - 44);
  EXPECT_NE(sound_file("1"), sound_file("2"));
}

TEST(Base64, HasPadding) {
  EXPECT_EQ(in_base64(""), "");
  EXPECT_EQ(in_base64("f"), "Zg==");
  EXPECT_EQ(in_base64("fo"), "Zm8=");
  EXPECT_EQ(in_base64("foob"), "Zm9vYg==");
  EXPECT_EQ(in_base64("\xff\xfe\xfd"), "//79");
}

TEST(Pictures, StandInChatsAsUrls) {
  const std::string url = picture_url("1");
  const std::string head = "data:image/bmp;base64,";
  const std::size_t size = picture_file("1").size();
  EXPECT_TRUE(url.starts_with(head + "Qk"));
  EXPECT_EQ(url.size() - head.size(), (size + 2) / 3 * 4);
  EXPECT_EQ(url.size() - 1 - url.find_last_not_of('='), (3 - size % 3) % 3);
}

}  // namespace
}  // namespace kvkeep::bench
