// FLAC: a head, parts about the music, and frames. A frame does not say how long it is. It ends where the checksum of
// its bytes says so and the next frame begins, with a head that has a checksum too: so all samples are counted without
// decoding one.

#include <array>
#include <optional>

#include "engine/media/file_reader.h"

namespace kvkeep::engine::media {
namespace {

constexpr std::size_t kInfoBytes = 34;

template <typename Sum>
constexpr std::array<Sum, 256> make_sums(std::uint32_t polynomial) {
  constexpr int kBits = 8 * static_cast<int>(sizeof(Sum));
  std::array<Sum, 256> sums{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t sum = byte << (kBits - 8);
    for (int i = 0; i < 8; ++i) sum = sum << 1 ^ ((sum >> (kBits - 1) & 1) != 0 ? polynomial : 0);
    sums[byte] = static_cast<Sum>(sum);
  }
  return sums;
}

std::uint32_t head_sum(const FileReader& file, std::size_t at, std::size_t count) {
  static constexpr auto kSums = make_sums<std::uint8_t>(0x07);
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i < count; ++i) sum = kSums[sum ^ file.byte(at + i)];
  return sum;
}

std::uint32_t frame_sum(std::uint32_t sum, std::uint32_t byte) {
  static constexpr auto kSums = make_sums<std::uint16_t>(0x8005);
  return (sum << 8 & 0xFF00) ^ kSums[sum >> 8 ^ byte];
}

struct FlacFrame {
  std::size_t head_bytes = 0;
  std::uint32_t samples = 0;
};

// Its number, or that of its first sample, in the coding of UTF-8 with up to 36 bits.
std::size_t number_bytes(std::uint32_t first) {
  if (first < 0x80) return 1;
  std::size_t count = 0;
  for (std::uint32_t bit = 0x80; (first & bit) != 0 && bit > 1; bit >>= 1) ++count;
  return count;
}

// Returns nullopt if no frame begins at that place.
std::optional<FlacFrame> any_frame(const FileReader& file, std::size_t at) {
  if (file.byte(at) != 0xFF || (file.byte(at + 1) & 0xFE) != 0xF8) return std::nullopt;
  const std::uint32_t size_code = file.byte(at + 2) >> 4;
  const std::uint32_t rate_code = file.byte(at + 2) & 15;
  const bool known = size_code != 0 && rate_code != 15 && file.byte(at + 3) >> 4 < 11 && (file.byte(at + 3) & 1) == 0;
  const std::size_t number = number_bytes(file.byte(at + 4));
  if (!known || number == 0 || (file.byte(at + 4) & 0xC0) == 0x80) return std::nullopt;
  std::size_t next = at + 4 + number;
  FlacFrame frame;
  if (size_code == 6 || size_code == 7) {
    frame.samples = 1 + (size_code == 6 ? file.byte(next) : file.big16(next));
    next += size_code - 5;
  } else {
    frame.samples = size_code == 1 ? 192 : size_code < 6 ? 576U << (size_code - 2) : 256U << (size_code - 8);
  }
  if (rate_code >= 12) next += rate_code == 12 ? 1 : 2;
  if (!file.has(at, next - at + 1) || head_sum(file, at, next - at) != file.byte(next)) return std::nullopt;
  frame.head_bytes = next + 1 - at;
  return frame;
}

// Returns the place after the parts before the frames.
Result<std::size_t> first_frame(const FileReader& file) {
  for (std::size_t at = 4; file.has(at, 4);) {
    const bool is_last = (file.byte(at) & 0x80) != 0;
    at += 4 + (file.big32(at) & 0xFFFFFF);
    if (is_last) return at;
  }
  return truncated();
}

// Returns nullopt also for a frame of more samples than the file's head allows: a decoder has no room for it.
std::optional<FlacFrame> flac_frame(const FileReader& file, std::size_t at) {
  const std::optional<FlacFrame> frame = any_frame(file, at);
  return frame && frame->samples <= file.big16(10) ? frame : std::nullopt;
}

struct FlacFrames {
  std::uint64_t samples = 0;
  std::size_t end = 0;
};

// Goes from frame to frame until there are `wanted` samples, or if that is 0 or more than there are, to the last one.
// After the last wanted one there may be anything, as for the decoder.
FlacFrames count_frames(const FileReader& file, std::size_t at, std::uint64_t wanted) {
  FlacFrames found{.end = at};
  std::optional<FlacFrame> frame = flac_frame(file, at);
  while (frame && (wanted == 0 || found.samples < wanted)) {
    const std::uint64_t samples = found.samples + frame->samples;
    std::uint32_t sum = 0;
    bool is_whole = false;
    std::optional<FlacFrame> next;
    std::size_t end = at;
    while (!is_whole && file.has(end, 1)) {
      sum = frame_sum(sum, file.byte(end++));
      if (sum != 0 || end - at < frame->head_bytes + 3) continue;
      next = flac_frame(file, end);
      is_whole = next || end == file.size() || samples == wanted;
    }
    if (!is_whole) break;
    found = {samples, samples == wanted ? file.size() : end};
    at = end;
    frame = next;
  }
  return found;
}

// A file that does not say how many samples it has, as one that was written to a pipe, says it now: a decoder would
// find none in it.
std::vector<std::byte> written_head(const FileReader& file, std::uint64_t samples) {
  std::vector<std::byte> head;
  for (const char each : std::string_view("fLaC\x80\0\0\x22", 8)) head.push_back(static_cast<std::byte>(each));
  const ByteSpan info = file.part(8, kInfoBytes);
  head.insert(head.end(), info.begin(), info.end());
  constexpr std::size_t kSamples = 8 + 13;  // four bits of its first byte are of another number
  head[kSamples] = (head[kSamples] & std::byte{0xF0}) | static_cast<std::byte>(samples >> 32 & 15);
  for (std::size_t i = 0; i < 4; ++i) head[kSamples + 1 + i] = static_cast<std::byte>(samples >> (24 - 8 * i) & 0xFF);
  return head;
}

}  // namespace

Result<PlainSound> read_flac(const FileReader& file) {
  if (!file.has(0, 8 + kInfoBytes)) return truncated();
  if ((file.byte(4) & 0x7F) != 0 || (file.big32(4) & 0xFFFFFF) != kInfoBytes) {
    return damaged("its first part is not the head of a FLAC file");
  }
  const std::uint64_t promised = std::uint64_t{file.byte(21) & 15} << 32 | file.big32(22);
  TRY_ASSIGN(const std::size_t begin, first_frame(file));
  const FlacFrames frames = count_frames(file, begin, promised);
  if (frames.samples == 0) return damaged("it has no samples");
  if (promised != 0 && frames.samples != promised) return damaged("its head promises other samples than it has");
  return PlainSound{.format = Format::kFlac,
                    .samples = frames.samples,
                    .rate = file.big32(18) >> 12,
                    .channels = (file.byte(20) >> 1 & 7) + 1,
                    .head = written_head(file, frames.samples),
                    .runs = {file.part(begin, frames.end - begin)}};
}

}  // namespace kvkeep::engine::media
