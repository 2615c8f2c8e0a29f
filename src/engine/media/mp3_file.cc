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

// Returns where decoders look for an index in a frame with this head: after a checksum and the side information, which
// they read as that of layer III whatever the layer is.
std::size_t index_place(std::uint32_t head) {
  const bool is_mpeg1 = (head >> 19 & 3) == 3;
  const bool is_mono = (head >> 6 & 3) == 3;
  const bool has_checksum = (head >> 16 & 1) == 0;
  return 4 + (has_checksum ? 2 : 0) + (is_mpeg1 ? (is_mono ? 17 : 32) : (is_mono ? 9 : 17));
}

// A frame that is no sound, but says how many frames there are, and more.
struct Mp3Index {
  bool found = false;
  std::uint32_t frames = 0;  // 0: it does not say, or no decoder reads it
  bool is_whole = false;     // all that decoders look for lies in the frame
};

Mp3Index mp3_index(const FileReader& file, std::size_t at, const Mp3Frame& frame) {
  constexpr std::size_t kPlaceOfVbri = 4 + 32;
  constexpr std::size_t kBytes = 144;  // from the name's beginning: numbers, a table, and the encoder's delay
  const std::size_t name = at + index_place(file.big32(at));
  if (!file.is_text(name, "Xing") && !file.is_text(name, "Info")) {
    return {.found = file.is_text(at + kPlaceOfVbri, "VBRI")};
  }
  const bool counts = (file.byte(name + 7) & 1) != 0;
  return {true, counts ? file.big32(name + 8) : 0, name + kBytes <= at + frame.bytes};
}

// Returns true if a decoder would take the end of the last frame for a tag, and cut off as many bytes as that says. It
// would then search for frames in the rest of a frame.
bool end_like_tags(const std::vector<ByteSpan>& runs) {
  constexpr std::size_t kOldTag = 128, kApeTag = 32;
  std::vector<std::byte> end;
  for (auto run = runs.rbegin(); run != runs.rend() && end.size() < kOldTag; ++run) {
    const ByteSpan part = run->last(std::min(run->size(), kOldTag - end.size()));
    end.insert(end.begin(), part.begin(), part.end());
  }
  const FileReader last(end);
  return (end.size() == kOldTag && last.is_text(0, "TAG")) ||
         (end.size() >= kApeTag && last.is_text(end.size() - kApeTag, "APETAGEX"));
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
    while (at < file_.size()) at = read_run(at);
    if (frames_ == 0) return damaged("it has no frame of MP3");
    // Decoders believe what it says. It is worth keeping only for the silence that it tells them to leave out.
    if (index.is_whole && index.frames == frames_) sound_.runs.insert(sound_.runs.begin(), first);
    if (end_like_tags(sound_.runs)) return damaged("its last frame ends like a tag of a music player");
    return std::move(sound_);
  }

 private:
  // Reads frames up to the first other byte, and returns the place of the next frame. Other bytes are tags, or damage,
  // where a decoder would search as well; two frames in a row are no accident. An index is left out wherever it is: a
  // decoder takes for the first frame the first one of which it can make samples.
  std::size_t read_run(std::size_t at) {
    std::size_t begin = at;
    for (Mp3Frame frame = frame_at(at); frame.bytes != 0; frame = frame_at(at)) {
      const bool is_sound = !mp3_index(file_, at, frame).found;
      if (!is_sound) add_run(begin, at);
      at += frame.bytes;
      if (!is_sound) begin = at;
      sound_.samples += is_sound ? frame.samples : 0;
      frames_ += is_sound ? 1 : 0;
    }
    add_run(begin, at);
    for (at = file_.find(0xFF, at + 1); at < file_.size(); at = file_.find(0xFF, at + 1)) {
      const std::size_t bytes = frame_at(at).bytes;
      if (bytes != 0 && frame_at(at + bytes).bytes != 0) return at;
    }
    return file_.size();
  }
  void add_run(std::size_t begin, std::size_t end) {
    if (end > begin) sound_.runs.push_back(file_.part(begin, end - begin));
  }
  Mp3Frame frame_at(std::size_t at) const {
    return (file_.big32(at) & kSameBits) == kind_ ? mp3_frame(file_, at) : Mp3Frame{};
  }

  const FileReader& file_;
  std::uint32_t kind_ = 0;
  std::uint64_t frames_ = 0;
  PlainSound sound_{.format = Format::kMp3, .channels = 2};
};

}  // namespace

Result<PlainSound> read_mp3(const FileReader& file) { return Mp3Reader(file).read(); }

}  // namespace kvkeep::engine::media
