// The heads of sounds: how long they are at most. Decoders ask the file for its length and take memory for that.

#include <algorithm>

#include "engine/media/file_reader.h"

namespace kvkeep::engine::media {
namespace {

constexpr std::uint32_t kLeastRate = 1'000;
constexpr std::uint32_t kMostRate = 768'000;
constexpr std::uint32_t kMostChannels = 16;

Result<MediaHead> sound(Format format, double samples, std::uint32_t rate, std::uint32_t channels) {
  if (rate < kLeastRate || rate > kMostRate) return unsupported("it has " + std::to_string(rate) + " samples a second");
  if (channels == 0 || channels > kMostChannels) return unsupported("it has " + std::to_string(channels) + " channels");
  if (samples <= 0) return damaged("it has no samples, or does not say how many");
  return MediaHead{.medium = Medium::kSound, .format = format, .seconds = samples / rate};
}

}  // namespace

Result<MediaHead> read_wav(const FileReader& file) {
  constexpr std::uint32_t kPcm = 1, kFloat = 3, kALaw = 6, kMuLaw = 7, kExtensible = 0xFFFE;
  std::uint32_t kind = 0, channels = 0, rate = 0, frame_bytes = 0;
  for (std::size_t at = 12; file.has(at, 8);) {
    const std::uint32_t length = file.little32(at + 4);
    if (file.is_text(at, "fmt ")) {
      if (length < 16 || !file.has(at + 8, length)) return truncated();
      kind = file.little16(at + 8);
      if (kind == kExtensible && length >= 26) kind = file.little16(at + 8 + 24);
      channels = file.little16(at + 10);
      rate = file.little32(at + 12);
      frame_bytes = channels * ((file.little16(at + 22) + 7) / 8);
    }
    if (file.is_text(at, "data")) {
      const bool known = kind == kPcm || kind == kFloat || kind == kALaw || kind == kMuLaw;
      if (!known)
        return unsupported("WAV files of kind " + std::to_string(kind) + " are not decoded: PCM, float and G.711");
      if (frame_bytes == 0) return damaged("its samples have no size");
      if (!file.has(at + 8, length)) return damaged("its head promises more samples than it has");
      return sound(Format::kWav, length / frame_bytes, rate, channels);
    }
    at += 8 + std::size_t{length} + length % 2;
  }
  return damaged("it has no samples");
}

Result<MediaHead> read_flac(const FileReader& file) {
  constexpr std::size_t kHead = 4 + 4 + 34;
  if (!file.has(0, kHead)) return truncated();
  if ((file.byte(4) & 0x7F) != 0) return damaged("its first part is not the head of a FLAC file");
  const std::uint32_t rate = file.big32(18) >> 12;
  const std::uint32_t channels = (file.byte(20) >> 1 & 7) + 1;
  const double samples = static_cast<double>(file.byte(21) & 15) * 4294967296.0 + file.big32(22);
  // A frame of 65,535 samples takes at least some bytes, however little is in it.
  constexpr double kMostSamplesPerByte = 65'536;
  if (samples > static_cast<double>(file.size()) * kMostSamplesPerByte)
    return damaged("its head promises more samples than it has");
  return sound(Format::kFlac, samples, rate, channels);
}

namespace {

struct Mp3Frame {
  std::size_t bytes = 0;
  std::uint32_t samples = 0;
  std::uint32_t rate = 0;
};

constexpr std::uint32_t kBitrates[2][3][15] = {
    // MPEG 1, layers I, II, III; kilobits a second. The first, 0, leaves the size of frames open.
    {{0, 32, 64, 96, 128, 160, 192, 224, 256, 288, 320, 352, 384, 416, 448},
     {0, 32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384},
     {0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320}},
    // MPEG 2 and 2.5
    {{0, 32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256},
     {0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160},
     {0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160}}};

// Returns a frame of 0 bytes if there is none at that place.
Mp3Frame mp3_frame(const FileReader& file, std::size_t at) {
  const std::uint32_t bits = file.big32(at);
  const std::uint32_t version = bits >> 19 & 3;  // 0: 2.5, 2: 2, 3: 1
  const std::uint32_t layer = 4 - (bits >> 17 & 3);
  const std::uint32_t bitrate = bits >> 12 & 15;
  const std::uint32_t rate = bits >> 10 & 3;
  if (!file.has(at, 4) || bits >> 21 != 0x7FF || version == 1 || layer == 4 || bitrate % 15 == 0 || rate == 3)
    return {};
  constexpr std::uint32_t kRates[] = {44'100, 48'000, 32'000};
  Mp3Frame frame;
  frame.rate = kRates[rate] >> (version == 3 ? 0 : version == 2 ? 1 : 2);
  frame.samples = layer == 1 ? 384 : layer == 2 || version == 3 ? 1'152 : 576;
  const std::uint32_t unit = layer == 1 ? 4 : 1;
  const std::uint32_t bytes_per_second = kBitrates[version == 3 ? 0 : 1][layer - 1][bitrate] * 125;
  frame.bytes = (frame.samples / unit * bytes_per_second / frame.rate + (bits >> 9 & 1)) * unit;
  return frame;
}

std::size_t after_id3(const FileReader& file) {
  if (!file.is_text(0, "ID3")) return 0;
  std::size_t size = 0;
  for (std::size_t i = 6; i < 10; ++i) size = size << 7 | (file.byte(i) & 0x7F);
  return 10 + size;
}

}  // namespace

// Frames follow one another. Decoders search for the next one where the bytes are something else (tags), and a frame of
// open size there may be short and still stand for a whole frame of sound: such bytes count as that.
Result<MediaHead> read_mp3(const FileReader& file) {
  constexpr double kSecondsPerOtherByte = 1'152.0 / 8'000 / 4;
  double seconds = 0;
  std::size_t at = after_id3(file);
  for (;;) {
    const Mp3Frame frame = mp3_frame(file, at);
    if (frame.bytes == 0) break;
    seconds += static_cast<double>(frame.samples) / frame.rate;
    at += frame.bytes;
  }
  if (seconds <= 0) return damaged("it has no frame of MP3");
  seconds += static_cast<double>(file.size() - std::min(at, file.size())) * kSecondsPerOtherByte;
  return MediaHead{.medium = Medium::kSound, .format = Format::kMp3, .seconds = seconds};
}

}  // namespace kvkeep::engine::media
