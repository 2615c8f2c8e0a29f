// MP3: frames, which follow one another, and tags before and after them.

#include <algorithm>
#include <array>

#include "engine/media/file_reader.h"

namespace kvkeep::engine::media {
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

// Returns a frame of 0 bytes if there is none at that place, or one that decoders do not agree on: of open size, or of
// MPEG 2.5 in another layer than III.
Mp3Frame mp3_frame(const FileReader& file, std::size_t at) {
  const std::uint32_t bits = file.big32(at);
  const std::uint32_t version = bits >> 19 & 3;  // 0: 2.5, 2: 2, 3: 1
  const std::uint32_t layer = 4 - (bits >> 17 & 3);
  const std::uint32_t bitrate = bits >> 12 & 15;
  const std::uint32_t rate = bits >> 10 & 3;
  const bool known = version != 1 && layer != 4 && bitrate % 15 != 0 && rate != 3 && (version != 0 || layer == 3);
  if (!file.has(at, 4) || bits >> 21 != 0x7FF || !known) return {};
  constexpr std::uint32_t kRates[] = {44'100, 48'000, 32'000};
  Mp3Frame frame;
  frame.rate = kRates[rate] >> (version == 3 ? 0 : version == 2 ? 1 : 2);
  frame.samples = layer == 1 ? 384 : layer == 2 || version == 3 ? 1'152 : 576;
  const std::uint32_t unit = layer == 1 ? 4 : 1;
  const std::uint32_t bytes_per_second = kBitrates[version == 3 ? 0 : 1][layer - 1][bitrate] * 125;
  frame.bytes = (frame.samples / unit * bytes_per_second / frame.rate + (bits >> 9 & 1)) * unit;
  if (!file.has(at, frame.bytes)) return {};
  return frame;
}

constexpr std::uint32_t kSameBits = 0xFFFE0C00;  // of the heads of all frames of a file: version, layer, rate

// Returns the place after tags of music players; their sizes are in groups of 7 bits.
std::size_t after_tags(const FileReader& file) {
  constexpr std::size_t kHead = 10;
  std::size_t at = 0;
  while (file.is_text(at, "ID3") && file.has(at, kHead)) {
    std::size_t size = 0;
    for (std::size_t i = 6; i < kHead; ++i) size = size << 7 | (file.byte(at + i) & 0x7F);
    const bool has_foot = (file.byte(at + 5) & 0x10) != 0;
    at += kHead + size + (has_foot ? kHead : 0);
  }
  return at;
}

// A first frame that is no sound, but says how many frames there are, and more.
struct Mp3Index {
  bool found = false;
  std::uint32_t frames = 0;  // 0: it does not say, or nobody reads it
  bool is_whole = false;     // all that decoders look for lies in the frame
};

Mp3Index mp3_index(const FileReader& file, std::size_t at, const Mp3Frame& frame) {
  constexpr auto kNames = std::to_array<std::string_view>({"Xing", "Info", "VBRI"});
  constexpr std::size_t kLatest = 4 + 2 + 32;  // after a checksum and the side information
  constexpr std::size_t kBytes = 144;          // after the name's beginning: numbers, a table, and the encoder's delay
  for (std::size_t i = at + 4; i <= at + kLatest; ++i) {
    for (const std::string_view name : kNames) {
      if (!file.is_text(i, name)) continue;
      const bool counts = name != "VBRI" && (file.byte(i + 7) & 1) != 0;
      return {true, counts ? file.big32(i + 8) : 0, i + kBytes <= at + frame.bytes};
    }
  }
  return {};
}

// The frames of one file, all of the same kind.
class Mp3Reader {
 public:
  explicit Mp3Reader(const FileReader& file) : file_(file) {}

  Result<PlainSound> read() {
    std::size_t at = after_tags(file_);
    Mp3Frame frame = mp3_frame(file_, at);
    if (frame.bytes == 0) return damaged("no frame of MP3 is where its tags end");
    kind_ = file_.big32(at) & kSameBits;
    sound_.rate = frame.rate;
    const Mp3Index index = mp3_index(file_, at, frame);
    const ByteSpan first = file_.part(at, frame.bytes);
    if (index.found) at += frame.bytes;
    while (at < file_.size()) at = read_run(at);
    if (frames_ == 0) return damaged("it has no frame of MP3");
    // Decoders believe what it says. It is worth keeping only for the silence that it tells them to leave out.
    if (index.found && index.is_whole && index.frames == frames_) sound_.runs.insert(sound_.runs.begin(), first);
    return std::move(sound_);
  }

 private:
  // Reads frames up to the first other byte, and returns the place of the next frame. Other bytes are tags, or damage,
  // where a decoder would search as well; two frames in a row are no accident.
  std::size_t read_run(std::size_t at) {
    const std::size_t begin = at;
    for (Mp3Frame frame = frame_at(at); frame.bytes != 0; frame = frame_at(at)) {
      sound_.samples += frame.samples;
      ++frames_;
      at += frame.bytes;
    }
    if (at > begin) sound_.runs.push_back(file_.part(begin, at - begin));
    for (at = file_.find(0xFF, at + 1); at < file_.size(); at = file_.find(0xFF, at + 1)) {
      const std::size_t bytes = frame_at(at).bytes;
      if (bytes != 0 && frame_at(at + bytes).bytes != 0) return at;
    }
    return file_.size();
  }
  Mp3Frame frame_at(std::size_t at) const {
    return (file_.big32(at) & kSameBits) == kind_ ? mp3_frame(file_, at) : Mp3Frame{};
  }

  const FileReader& file_;
  std::uint32_t kind_ = 0;
  std::uint64_t frames_ = 0;
  PlainSound sound_{.format = Format::kMp3};
};

}  // namespace

Result<PlainSound> read_mp3(const FileReader& file) { return Mp3Reader(file).read(); }

}  // namespace kvkeep::engine::media
