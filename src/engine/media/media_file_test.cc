#include "engine/media/media_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <functional>

#include "engine/media/media_files_fixture.h"

namespace kvkeep::engine::media {
namespace {

struct Sample {
  Format format;
  std::vector<std::byte> bytes;
};

std::vector<Sample> pictures(std::uint32_t width, std::uint32_t height) {
  return {{Format::kPng, make_png(width, height)},
          {Format::kJpeg, make_jpeg(width, height)},
          {Format::kGif, make_gif(width, height)},
          {Format::kBmp, make_bmp(width, height)}};
}

std::vector<Sample> sounds() {
  return {{Format::kWav, make_wav(8'000)}, {Format::kFlac, make_flac(make_wav(8'000))}, {Format::kMp3, make_mp3(20)}};
}

void put_big(std::vector<std::byte>& bytes, std::size_t at, std::uint32_t value, int count) {
  for (int i = 0; i < count; ++i) {
    bytes[at + static_cast<std::size_t>(i)] = static_cast<std::byte>(value >> (8 * (count - 1 - i)));
  }
}

ErrorKind refusal(const std::vector<std::byte>& file, const MediaLimits& limits = {}) {
  const auto head = read_head(file, limits);
  EXPECT_FALSE(head.ok());
  EXPECT_FALSE(!head.ok() && head.error().message.empty());
  return head.ok() ? ErrorKind::kBusy : head.error().kind;
}

TEST(MediaHeadTest, KnowsTheSizeOfEachPicture) {
  for (const auto& [width, height] : {std::pair{1U, 1U}, {40U, 24U}, {300U, 7U}}) {
    for (const Sample& sample : pictures(width, height)) {
      const auto head = read_head(sample.bytes, {});
      ASSERT_TRUE(head.ok()) << to_string(sample.format) << ": " << head.error().message;
      EXPECT_EQ(head->format, sample.format);
      EXPECT_EQ(head->medium, Medium::kPicture);
      EXPECT_EQ(head->width, width) << to_string(sample.format);
      EXPECT_EQ(head->height, height) << to_string(sample.format);
    }
  }
}

TEST(MediaHeadTest, KnowsTheSizeOfAWebpInEachCoding) {
  FileWriter extended;
  extended.text("RIFF");
  extended.little(22, 4);
  extended.text("WEBPVP8X");
  extended.little(10, 4);
  extended.little(0x10, 4);  // with transparency
  extended.little(63, 3);
  extended.little(47, 3);
  for (const auto& file : {webp_file(true), webp_file(false), extended.take()}) {
    const auto head = read_head(file, {});
    ASSERT_TRUE(head.ok()) << head.error().message;
    EXPECT_EQ(head->format, Format::kWebp);
    EXPECT_EQ(head->width, 64U);
    EXPECT_EQ(head->height, 48U);
  }
}

TEST(MediaHeadTest, RefusesWebpOfOtherKinds) {
  const auto changed = [](bool lossless, std::size_t at, std::uint32_t value) {
    auto file = webp_file(lossless);
    file[at] = static_cast<std::byte>(value);
    return file;
  };
  EXPECT_EQ(refusal(changed(true, 20, 0x2E)), ErrorKind::kDamaged);
  EXPECT_EQ(refusal(changed(false, 23, 0)), ErrorKind::kDamaged);
  EXPECT_EQ(refusal(changed(true, 15, 'Y')), ErrorKind::kDamaged);
  auto animated = changed(true, 15, 'X');
  animated[20] = std::byte{2};
  EXPECT_EQ(refusal(animated), ErrorKind::kUnsupported);
  const auto whole = webp_file(true);
  EXPECT_EQ(refusal({whole.begin(), whole.begin() + 25}), ErrorKind::kDamaged);
}

TEST(WebpPixels, AreThoseThatWereCoded) {
  if (!check_webp_support()) {
    EXPECT_EQ(webp_pixels(webp_file(true), {}).error().kind, ErrorKind::kUnsupported);
    return;
  }
  const auto of = [](const std::vector<std::byte>& file) { return webp_pixels(file, read_head(file, {}).value()); };
  const std::vector<std::uint8_t> colours = webp_colours();
  EXPECT_EQ(of(webp_file(true)).value(), colours);
  const std::vector<std::uint8_t> near = of(webp_file(false)).value();
  ASSERT_EQ(near.size(), colours.size());
  std::uint64_t off = 0;
  for (std::size_t i = 0; i < near.size(); ++i) {
    off += static_cast<std::uint64_t>(std::abs(int{near[i]} - int{colours[i]}));
  }
  EXPECT_LT(off / near.size(), 40U) << "as it was coded with loss";
}

TEST(WebpPixels, OfDamagedFilesAreRefused) {
  if (!check_webp_support()) return;
  const auto file = webp_file(true);
  MediaHead smaller = read_head(file, {}).value();
  --smaller.height;
  EXPECT_EQ(webp_pixels(file, smaller).error().kind, ErrorKind::kDamaged);
  std::vector<std::byte> half(file.begin(), file.begin() + 40);
  half[4] = std::byte{40 - 8};
  EXPECT_EQ(webp_pixels(half, read_head(half, {}).value()).error().kind, ErrorKind::kDamaged);
}

TEST(MediaHeadTest, KnowsHowLongASoundIsAtMost) {
  for (const Sample& sample : sounds()) {
    const auto head = read_head(sample.bytes, {});
    ASSERT_TRUE(head.ok()) << to_string(sample.format) << ": " << head.error().message;
    EXPECT_EQ(head->medium, Medium::kSound);
    EXPECT_EQ(head->format, sample.format);
    EXPECT_NEAR(head->seconds, 0.5, 0.03) << to_string(sample.format);
  }
}

// Every head is read to the end before a byte of content is: cut anywhere, a file is an error or has the same head.
TEST(MediaHeadTest, TruncatedFilesHaveTheSameHeadOrNone) {
  std::vector<Sample> samples = pictures(20, 10);
  const std::vector<Sample> more = sounds();
  samples.insert(samples.end(), more.begin(), more.end());
  for (const Sample& sample : samples) {
    const auto whole = read_head(sample.bytes, {});
    for (std::size_t size = 0; size < sample.bytes.size(); ++size) {
      const auto head = read_head(ByteSpan(sample.bytes).first(size), {});
      if (!head) continue;
      EXPECT_EQ(head->width, whole->width) << to_string(sample.format) << " " << size;
      EXPECT_EQ(head->height, whole->height) << to_string(sample.format) << " " << size;
      EXPECT_LE(head->seconds, whole->seconds + 15) << to_string(sample.format) << " " << size;
    }
  }
}

// The decoder of JPEG and GIF would make up what is missing. After the last frame of a GIF nothing is needed.
TEST(MediaHeadTest, PicturesThatAreCutAreRefused) {
  std::vector<Sample> samples = pictures(20, 10);
  samples.push_back({Format::kJpeg, make_jpeg(64, 64, 3)});
  samples.push_back({Format::kWebp, webp_file(true)});
  samples.push_back({Format::kWebp, webp_file(false)});
  for (const Sample& sample : samples) {
    const std::size_t needless = sample.format == Format::kGif ? 1 : 0;
    for (std::size_t size = 0; size + needless < sample.bytes.size(); ++size) {
      EXPECT_FALSE(read_head(ByteSpan(sample.bytes).first(size), {}).ok()) << to_string(sample.format) << " " << size;
    }
    EXPECT_TRUE(read_head(ByteSpan(sample.bytes).first(sample.bytes.size() - needless), {}).ok());
  }
  std::vector<std::byte> frames = make_gif(4, 4, 3);
  for (std::size_t size = frames.size() - 20; size < frames.size() - 1; ++size) {
    const auto head = read_head(ByteSpan(frames).first(size), {});
    EXPECT_TRUE(!head || head->frames == 2) << "a frame that is not whole, " << size;
  }
}

TEST(MediaHeadTest, JpegsWithoutPixelsAreRefused) {
  const auto refusal_of = [](const std::vector<std::byte>& jpeg, std::size_t begin, std::size_t end) {
    std::vector<std::byte> file(jpeg.begin(), jpeg.begin() + static_cast<std::ptrdiff_t>(begin));
    file.insert(file.end(), jpeg.begin() + static_cast<std::ptrdiff_t>(end), jpeg.end());
    return refusal(file);
  };
  const std::vector<std::byte> whole = make_jpeg(160, 160);  // 400 blocks, of 2 bits each
  const auto scan = std::ranges::search(whole, std::array{std::byte{0xFF}, std::byte{0xDA}}).begin() - whole.begin();
  const std::size_t pixels = static_cast<std::size_t>(scan) + 10;
  ASSERT_TRUE(read_head(whole, {}).ok());
  EXPECT_EQ(refusal_of(whole, static_cast<std::size_t>(scan), whole.size() - 2), ErrorKind::kDamaged) << "no scan";
  EXPECT_EQ(refusal_of(whole, pixels, whole.size() - 2), ErrorKind::kDamaged) << "a scan without pixels";
  EXPECT_EQ(refusal_of(whole, pixels + 50, whole.size() - 2), ErrorKind::kDamaged) << "half of them";
  std::vector<std::byte> progressive = whole;
  progressive[static_cast<std::size_t>(
                  std::ranges::search(whole, std::array{std::byte{0xFF}, std::byte{0xC0}}).begin() - whole.begin()) +
              1] = std::byte{0xC2};
  EXPECT_EQ(refusal_of(progressive, pixels, whole.size() - 2), ErrorKind::kDamaged);
  progressive.erase(progressive.begin() + static_cast<std::ptrdiff_t>(pixels) + 50, progressive.end() - 2);
  EXPECT_TRUE(read_head(progressive, {}).ok()) << "its first pass may have one bit for each block";
}

TEST(MediaHeadTest, AnyByteMayBeWrong) {
  std::vector<Sample> samples = pictures(20, 10);
  const std::vector<Sample> more = sounds();
  samples.insert(samples.end(), more.begin(), more.end());
  const MediaLimits limits;
  for (const Sample& sample : samples) {
    for (std::size_t at = 0; at < std::min<std::size_t>(sample.bytes.size(), 400); ++at) {
      for (const unsigned value : {0x00U, 0x01U, 0x7FU, 0x80U, 0xFFU}) {
        std::vector<std::byte> bent = sample.bytes;
        bent[at] = static_cast<std::byte>(value);
        const auto head = read_head(bent, limits);
        if (!head) continue;
        EXPECT_LE(std::uint64_t{head->width} * head->height, limits.pixels);
        EXPECT_LE(head->seconds, limits.seconds);
        EXPECT_LE(head->frames, limits.frames);
      }
    }
  }
}

TEST(MediaHeadTest, HugePicturesAreRefusedByTheirHead) {
  std::vector<std::byte> png = make_png(4, 4);
  put_big(png, 16, 30'000, 4);
  put_big(png, 20, 30'000, 4);
  EXPECT_EQ(refusal(png), ErrorKind::kNoSpace);
  EXPECT_NE(read_head(png, {}).error().message.find("30000 x 30000"), std::string::npos);
  std::vector<std::byte> bmp = make_bmp(4, 4);
  put_big(bmp, 18, 0xFFFFFFFF, 4);
  EXPECT_EQ(refusal(bmp), ErrorKind::kNoSpace);
  bmp = make_bmp(5, 4);  // each row has a byte more, which may be missing after the last one
  bmp.resize(bmp.size() - 1);
  EXPECT_TRUE(read_head(bmp, {}).ok());
  bmp.resize(bmp.size() - 1);
  EXPECT_EQ(refusal(bmp), ErrorKind::kDamaged) << "a decoder would fill in what is missing";
  std::vector<std::byte> jpeg = make_jpeg(4, 4);
  const auto head = std::ranges::search(jpeg, std::array{std::byte{0xFF}, std::byte{0xC0}}).begin() - jpeg.begin();
  put_big(jpeg, static_cast<std::size_t>(head) + 5, 0xFFFFFFFF, 4);
  EXPECT_EQ(refusal(jpeg), ErrorKind::kNoSpace);
  EXPECT_EQ(refusal(make_gif(65'535, 65'535)), ErrorKind::kNoSpace);
  EXPECT_EQ(refusal(make_gif(40'000, 1)), ErrorKind::kNoSpace) << "one side";
  for (const Sample& sample : pictures(20, 10)) {
    EXPECT_EQ(refusal(sample.bytes, {.pixels = 199}), ErrorKind::kNoSpace) << to_string(sample.format);
    EXPECT_TRUE(read_head(sample.bytes, {.pixels = 200}).ok());
    EXPECT_EQ(refusal(sample.bytes, {.side = 19}), ErrorKind::kNoSpace) << to_string(sample.format);
    EXPECT_EQ(refusal(sample.bytes, {.file_bytes = ByteCount{sample.bytes.size() - 1}}), ErrorKind::kNoSpace);
  }
  for (const Sample& sample : pictures(0, 10)) EXPECT_EQ(refusal(sample.bytes), ErrorKind::kDamaged);
}

// libmtmd ends the process over a side that it rounds to nothing.
TEST(MediaHeadTest, ThinPicturesAreRefused) {
  for (const Sample& sample : pictures(512, 2)) {
    EXPECT_TRUE(read_head(sample.bytes, {}).ok()) << to_string(sample.format);
    EXPECT_EQ(refusal(sample.bytes, {.side_ratio = 255}), ErrorKind::kNoSpace) << to_string(sample.format);
  }
  EXPECT_EQ(refusal(make_png(257, 1)), ErrorKind::kNoSpace);
  EXPECT_EQ(refusal(make_png(1, 257)), ErrorKind::kNoSpace);
}

TEST(MediaHeadTest, TheMemoryOfADecoderIsKnownByTheHead) {
  const auto bytes = [](const std::vector<std::byte>& file) { return read_head(file, {}).value().decoded_bytes; };
  EXPECT_EQ(bytes(make_bmp(20, 10)), 200U * 6) << "two copies of the result";
  EXPECT_EQ(bytes(make_png(20, 10)), 200U * (3 + 4)) << "rows, and pixels of which one colour may be transparent";
  EXPECT_EQ(bytes(make_gif(20, 10)), 200U * 12);
  EXPECT_EQ(bytes(make_jpeg(20, 10)), 200U * 6) << "one colour, and the result";
  std::vector<std::byte> png = make_png(20, 10);
  png[24] = std::byte{16};
  png[25] = std::byte{6};
  EXPECT_EQ(bytes(png), 200U * 16) << "eight bytes a pixel, twice";
  png[28] = std::byte{1};
  EXPECT_EQ(bytes(png), 200U * 24) << "and once more";
  for (const Sample& sample : pictures(20, 10)) {
    const ByteCount needed{read_head(sample.bytes, {}).value().decoded_bytes};
    EXPECT_TRUE(read_head(sample.bytes, {.decoded_bytes = needed}).ok());
    EXPECT_EQ(refusal(sample.bytes, {.decoded_bytes = ByteCount{needed.value() - 1}}), ErrorKind::kNoSpace);
  }
}

TEST(MediaHeadTest, PixelsArePromisedByTheFirstBytes) {
  for (const Sample& sample : pictures(20, 10)) EXPECT_EQ(promised_pixels(sample.bytes), 200U);
  std::vector<std::byte> jpeg = make_jpeg(20, 10);
  jpeg.resize(jpeg.size() - 4);
  EXPECT_EQ(promised_pixels(jpeg), 200U) << "without a look at what comes after";
  EXPECT_EQ(promised_pixels(make_wav(100)), 0U);
  EXPECT_EQ(promised_pixels({}), 0U);
}

TEST(MediaHeadTest, FramesAndScansAreCounted) {
  EXPECT_EQ(read_head(make_gif(4, 4, 7), {})->frames, 7U);
  EXPECT_EQ(refusal(make_gif(4, 4, 10'000)), ErrorKind::kNoSpace);
  EXPECT_TRUE(read_head(make_gif(4, 4, 1'000), {}).ok());
  EXPECT_EQ(refusal(make_jpeg(8, 8, 101)), ErrorKind::kNoSpace);
  EXPECT_TRUE(read_head(make_jpeg(8, 8, 100), {}).ok());
}

TEST(MediaHeadTest, LongSoundsAreRefusedByTheirHead) {
  EXPECT_EQ(refusal(make_wav(16'000), {.seconds = 0.9}), ErrorKind::kNoSpace);
  EXPECT_TRUE(read_head(make_wav(16'000), {.seconds = 1}).ok());
  EXPECT_EQ(refusal(make_wav(16'000, 1)), ErrorKind::kUnsupported) << "hours at one sample a second";
  EXPECT_EQ(refusal(make_flac_head(16'000, 0xFFFFFFFFF, 100)), ErrorKind::kDamaged);
  EXPECT_EQ(refusal(make_flac_head(16'000, 60'000'000, 4'000)), ErrorKind::kDamaged);
  EXPECT_EQ(refusal(make_flac_head(16'000, 0, 100)), ErrorKind::kDamaged);
  EXPECT_EQ(refusal(make_mp3(80'000), {.seconds = 1'800}), ErrorKind::kNoSpace);
  std::vector<std::byte> promises = make_wav(100);
  put_big(promises, 40, 0xFFFFFFFF, 4);
  EXPECT_EQ(refusal(promises), ErrorKind::kDamaged);
}

TEST(MediaHeadTest, SamplesOfAllChannelsAreBounded) {
  EXPECT_EQ(read_head(make_wav(16'000), {})->samples, 16'000U);
  EXPECT_TRUE(read_head(make_wav(16'000), {.samples = 16'000}).ok());
  EXPECT_EQ(refusal(make_wav(16'000), {.samples = 15'999}), ErrorKind::kNoSpace);
  EXPECT_EQ(read_head(make_wav(16'000), {.samples = 15'999}).error().message,
            "it is a sound of 16000 samples in all channels: at most 15999 are read: send fewer channels or samples a "
            "second, or parts");
  std::vector<std::byte> wide = make_wav(16'000);
  wide[22] = std::byte{16};  // channels
  wide[32] = std::byte{32};  // bytes of a sample of each of them
  EXPECT_EQ(read_head(wide, {})->samples, 16'000U) << "a thousand in each of 16 channels";
  EXPECT_EQ(read_head(make_mp3(10), {})->samples, 2U * 11'520) << "as if all of its frames were in stereo";
  EXPECT_TRUE(read_head(make_flac(make_wav(5'000)), {.samples = 5'000}).ok());
}

TEST(MediaHeadTest, OtherFormatsAreNamedAsUnsupported) {
  const auto file = [](std::string_view text) {
    const ByteSpan bytes = std::as_bytes(std::span(text));
    return std::vector<std::byte>(bytes.begin(), bytes.end());
  };
  for (const std::string_view text : {"", "%PDF-1.7", "RIFF0000AVI LIST", "<svg/>", "P6 1 1 255 abc", "8BPS\x00\x01"}) {
    EXPECT_EQ(refusal(file(text)), ErrorKind::kUnsupported) << text;
  }
}

// A decoder would unpack all of these into memory.
TEST(PngPixels, MayNotBeMoreThanTheHeadPromises) {
  EXPECT_TRUE(check_png_pixels(make_png(40, 30)).ok());
  const std::vector<std::byte> rows(30 * (1 + 40 * 3) + 1);
  EXPECT_EQ(check_png_pixels(make_png(40, 30, stored(rows))).error().kind, ErrorKind::kDamaged);
  EXPECT_TRUE(check_png_pixels(make_png(40, 30, stored(ByteSpan(rows).first(rows.size() - 1)))).ok());
  const std::vector<std::byte> bomb(5'000'000);
  EXPECT_EQ(check_png_pixels(make_png(1, 1, stored(bomb))).error().kind, ErrorKind::kDamaged);
  std::vector<std::byte> damaged = make_png(40, 30);
  damaged[60] ^= std::byte{0xFF};
  const Status status = check_png_pixels(damaged);
  EXPECT_TRUE(status.ok() || status.error().kind == ErrorKind::kDamaged);
  EXPECT_EQ(check_png_pixels(make_png(4, 4, ByteSpan{})).error().kind, ErrorKind::kDamaged);
  EXPECT_EQ(check_png_pixels(make_png(40, 30, stored(ByteSpan(rows).first(rows.size() - 2)))).error().kind,
            ErrorKind::kDamaged)
      << "one byte too few";
}

// Seven pictures: of every eighth column and row, and so on, each with a byte before its rows.
TEST(PngPixels, OfInterlacedPicturesAreCounted) {
  constexpr std::size_t kBytes = 2 * (1 + 3 * 2) + 2 * (1 + 3) + 1 * (1 + 3 * 3) + 3 * (1 + 3 * 2) + 2 * (1 + 3 * 5) +
                                 5 * (1 + 3 * 4) + 4 * (1 + 3 * 9);
  const auto interlaced = [](std::size_t bytes) {
    std::vector<std::byte> png = make_png(9, 9, stored(std::vector<std::byte>(bytes)));
    png[28] = std::byte{1};
    return check_png_pixels(png);
  };
  EXPECT_TRUE(interlaced(kBytes).ok());
  EXPECT_FALSE(interlaced(kBytes - 1).ok());
  EXPECT_FALSE(interlaced(kBytes + 1).ok());
}

TEST(GifPixels, MustBeAllThere) {
  for (const auto& [width, height] : {std::pair{1U, 1U}, {4U, 4U}, {300U, 7U}, {64U, 64U}}) {
    EXPECT_TRUE(check_gif_pixels(make_gif(width, height, 2)).ok()) << width << " x " << height;
  }
  std::vector<std::byte> promises = make_gif(40, 24);
  constexpr std::size_t kFrame = 13 + 6;
  promises[kFrame + 5] = std::byte{41};
  EXPECT_EQ(check_gif_pixels(promises).error().kind, ErrorKind::kDamaged) << "a column more";
  promises[kFrame + 5] = std::byte{39};
  EXPECT_TRUE(check_gif_pixels(promises).ok()) << "a decoder leaves out what is too much";
  std::vector<std::byte> ends = make_gif(40, 24);
  ends[kFrame + 12] = std::byte{0x2C};  // 4, then 5, which ends
  EXPECT_EQ(check_gif_pixels(ends).error().kind, ErrorKind::kDamaged);
  ends[kFrame + 12] = std::byte{0x3C};  // 4, then 7, which is no code yet
  EXPECT_EQ(check_gif_pixels(ends).error().kind, ErrorKind::kDamaged);
  ends[kFrame + 10] = std::byte{9};
  EXPECT_EQ(check_gif_pixels(ends).error().kind, ErrorKind::kDamaged);
}

TEST(GifPixels, OfALargePictureAreNotMostlyMadeUp) {
  std::vector<std::byte> gif = make_gif(300, 300);
  const auto put_side = [&](std::uint32_t side) {
    for (const std::size_t at : {6U, 8U}) {
      gif[at] = static_cast<std::byte>(side & 0xFF);
      gif[at + 1] = static_cast<std::byte>(side >> 8);
    }
  };
  put_side(1'000);
  EXPECT_TRUE(check_gif_pixels(gif).ok()) << "a small one may be";
  put_side(1'200);
  EXPECT_TRUE(check_gif_pixels(gif).ok()) << "sixteen times as large as its frame";
  put_side(1'201);
  EXPECT_EQ(check_gif_pixels(gif).error().kind, ErrorKind::kDamaged);
}

// 0, then the run of two that the code after it makes known, then of three, and so on: long runs are in few codes.
TEST(GifPixels, OfLongRunsAreCounted) {
  FileWriter file;
  file.text("GIF89a");
  file.little(6, 2);
  file.little(1, 2);
  file.big(0, 3);
  file.byte(',');
  file.little(0, 4);
  file.little(6, 2);
  file.little(1, 2);
  file.byte(0);
  file.byte(2);
  file.byte(2);
  file.byte(0x84);  // 4, 0, and two bits of 6
  file.byte(0x5F);  // the third, 7, and, since runs up to 7 are known now, 5 in four bits
  file.byte(0);
  const std::vector<std::byte> gif = file.take();
  EXPECT_TRUE(check_gif_pixels(gif).ok()) << "1 + 2 + 3";
  std::vector<std::byte> more = gif;
  more[13 + 5] = std::byte{7};
  EXPECT_EQ(check_gif_pixels(more).error().kind, ErrorKind::kDamaged);
}

}  // namespace
}  // namespace kvkeep::engine::media
