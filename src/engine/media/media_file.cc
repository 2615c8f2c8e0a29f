#include "engine/media/media_file.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "base/assert.h"
#include "engine/media/file_reader.h"

namespace kvkeep::engine::media {
namespace {

bool is_wav(const FileReader& file) { return file.is_text(0, "RIFF") && file.is_text(8, "WAVE"); }
bool is_flac(const FileReader& file) { return file.is_text(0, "fLaC"); }
bool is_mp3(const FileReader& file) {
  return file.is_text(0, "ID3") || (file.byte(0) == 0xFF && (file.byte(1) & 0xE0) == 0xE0);
}

bool is_png(const FileReader& file) { return file.is_text(0, "\x89PNG\r\n\x1A\n"); }
bool is_jpeg(const FileReader& file) { return file.is_text(0, "\xFF\xD8\xFF"); }
bool is_gif(const FileReader& file) { return file.is_text(0, "GIF87a") || file.is_text(0, "GIF89a"); }
bool is_bmp(const FileReader& file) { return file.is_text(0, "BM"); }
bool is_webp(const FileReader& file) { return file.is_text(0, "RIFF") && file.is_text(8, "WEBP"); }
bool is_picture(const FileReader& file) {
  return is_png(file) || is_jpeg(file) || is_gif(file) || is_bmp(file) || is_webp(file);
}

// Precondition: is_picture().
Result<MediaHead> read_picture(const FileReader& file, const MediaLimits& limits) {
  if (is_png(file)) return read_png(file);
  if (is_jpeg(file)) return read_jpeg(file, limits);
  if (is_gif(file)) return read_gif(file, limits);
  return is_bmp(file) ? read_bmp(file) : read_webp(file);
}

Result<PlainSound> read_sound(const FileReader& file) {
  if (is_wav(file)) return read_wav(file);
  if (is_flac(file)) return read_flac(file);
  if (is_mp3(file)) return read_mp3(file);
  return unsupported("it is none of the formats that are read: PNG, JPEG, GIF, BMP, WebP; WAV, MP3, FLAC");
}

Result<MediaHead> check_sound(const PlainSound& sound, const MediaLimits& limits) {
  constexpr std::uint32_t kLeastRate = 1'000;
  constexpr std::uint32_t kMostRate = 768'000;
  constexpr std::uint32_t kMostChannels = 16;
  if (sound.rate < kLeastRate || sound.rate > kMostRate) {
    return unsupported("it has " + std::to_string(sound.rate) + " samples a second");
  }
  if (sound.channels == 0 || sound.channels > kMostChannels) {
    return unsupported("it has " + std::to_string(sound.channels) + " channels");
  }
  if (sound.samples == 0) return damaged("it has no samples");
  const double seconds = static_cast<double>(sound.samples) / sound.rate;
  if (seconds > limits.seconds) {
    return no_space("it is a sound of up to " + std::to_string(static_cast<std::uint64_t>(seconds)) +
                    " seconds: at most " + std::to_string(static_cast<std::uint64_t>(limits.seconds)) +
                    " are read: send it in parts");
  }
  const std::uint64_t samples = sound.samples * sound.channels;
  if (samples > limits.samples) {
    return no_space("it is a sound of " + std::to_string(samples) + " samples in all channels: at most " +
                    std::to_string(limits.samples) + " are read: send fewer channels or samples a second, or parts");
  }
  return MediaHead{.medium = Medium::kSound, .format = sound.format, .seconds = seconds, .samples = samples};
}

}  // namespace

Status check_picture(const MediaHead& head, const MediaLimits& limits) {
  const std::uint64_t pixels = std::uint64_t{head.width} * head.height;
  if (pixels == 0) return damaged("it is a picture without pixels");
  const auto [shorter, longer] = std::minmax(head.width, head.height);
  const std::string size = std::to_string(head.width) + " x " + std::to_string(head.height) + " pixels";
  if (pixels > limits.pixels || longer > limits.side) {
    return no_space("it is a picture of " + size + ": at most " + std::to_string(limits.pixels) +
                    " are read, and sides of " + std::to_string(limits.side) + ": make it smaller");
  }
  if (longer > std::uint64_t{shorter} * limits.side_ratio) {
    return no_space("it is a picture of " + size + ": its longer side may be at most " +
                    std::to_string(limits.side_ratio) + " times the shorter one");
  }
  if (head.decoded_bytes <= limits.decoded_bytes.value()) return {};
  return no_space("it is a picture of " + size + " that takes " + std::to_string(head.decoded_bytes >> 20) +
                  " MiB to decode: at most " + std::to_string(limits.decoded_bytes.value() >> 20) +
                  " are taken: make it smaller");
}

Result<MediaHead> read_head(ByteSpan bytes, const MediaLimits& limits) {
  if (bytes.size() > limits.file_bytes.value()) {
    return no_space("it has " + std::to_string(bytes.size()) + " bytes: at most " +
                    std::to_string(limits.file_bytes.value()));
  }
  const FileReader file(bytes);
  if (is_picture(file)) {
    TRY_ASSIGN(const MediaHead head, read_picture(file, limits));
    TRY(check_picture(head, limits));
    return head;
  }
  TRY_ASSIGN(const PlainSound sound, read_sound(file));
  return check_sound(sound, limits);
}

std::uint64_t promised_pixels(ByteSpan bytes) {
  const FileReader file(bytes);
  if (!is_picture(file)) return 0;
  const auto head = is_jpeg(file) ? Result<MediaHead>(jpeg_size(file)) : read_picture(file, {});
  return head ? std::uint64_t{head->width} * head->height : 0;
}

std::vector<std::byte> plain_sound(ByteSpan bytes) {
  const auto sound = read_sound(FileReader(bytes));
  KVKEEP_ASSERT(sound.ok(), "read_head() accepted the file");
  std::vector<std::byte> plain;
  std::size_t size = sound->head.size();
  for (const ByteSpan run : sound->runs) size += run.size();
  plain.reserve(size);
  plain.insert(plain.end(), sound->head.begin(), sound->head.end());
  for (const ByteSpan run : sound->runs) plain.insert(plain.end(), run.begin(), run.end());
  return plain;
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

// Each row has a byte before it. Interlaced pictures are seven smaller ones, each of every so many columns and rows.
std::uint64_t unpacked_bytes(std::uint64_t width, std::uint64_t height, std::uint32_t bits, bool interlaced) {
  const auto rows = [bits](std::uint64_t across, std::uint64_t down) {
    return across == 0 ? 0 : down * (1 + (across * bits + 7) / 8);
  };
  if (!interlaced) return rows(width, height);
  constexpr std::array<std::array<std::uint32_t, 4>, 7> kPasses = {
      {{0, 0, 8, 8}, {4, 0, 8, 8}, {0, 4, 4, 8}, {2, 0, 4, 4}, {0, 2, 2, 4}, {1, 0, 2, 2}, {0, 1, 1, 2}}};
  std::uint64_t all = 0;
  for (const auto& [x, y, across, down] : kPasses) {
    all += rows((width + across - 1 - x) / across, (height + down - 1 - y) / down);
  }
  return all;
}

}  // namespace

Status check_png_pixels(ByteSpan bytes) {
  const FileReader file(bytes);
  const std::uint32_t bits = png_pixel_bits(file);
  if (bits == 0) return damaged("its colours have a depth that PNG does not have");
  const std::uint64_t promised = unpacked_bytes(file.big32(16), file.big32(20), bits, file.byte(28) != 0);
  UnpackedSize unpacked;
  for (std::size_t at = 8; file.has(at, 12);) {
    const std::uint32_t length = file.big32(at);
    if (!file.has(at + 8, length)) return truncated();
    if (file.is_text(at + 4, "IEND")) break;
    if (file.is_text(at + 4, "IDAT") && !unpacked.add(bytes.subspan(at + 8, length), promised)) {
      return damaged("its pixels are damaged, or more than its head promises");
    }
    at += 12 + std::size_t{length};
  }
  return unpacked.bytes() == promised ? Status() : damaged("it has fewer pixels than its head promises");
}

Status check_samples(std::span<const float> samples, std::uint32_t rate) {
  constexpr float kLoudest = 2'147'483'648.0F;
  const auto bad = std::ranges::find_if_not(samples, [](float each) { return std::abs(each) <= kLoudest; });
  if (bad == samples.end()) return {};
  const auto at = static_cast<double>(bad - samples.begin());
  return damaged("its sample after " + std::to_string(at / rate) + " seconds is " +
                 (std::isfinite(*bad) ? std::to_string(*bad)
                  : std::isnan(*bad)  ? "NaN"
                                      : "infinite") +
                 ", and not between -1 and 1");
}

std::size_t whole_windows(std::size_t count, std::uint32_t rate) {
  const std::size_t part = std::size_t{30} * rate;
  const std::size_t window = rate / 10;
  const std::size_t last = count % part;
  return count > 0 && (last > 0 || count < part) && last < window ? count - last + window : count;
}

}  // namespace kvkeep::engine::media
