// WAV: parts of which one says how samples are coded and another one has them.

#include "engine/media/file_reader.h"

namespace kvkeep::engine::media {
namespace {

constexpr std::uint32_t kPcm = 1, kFloat = 3, kALaw = 6, kMuLaw = 7, kExtensible = 0xFFFE;

struct WavCoding {
  std::uint32_t kind = 0;
  std::uint32_t channels = 0;
  std::uint32_t rate = 0;
  std::uint32_t frame_bytes = 0;  // of a sample of each channel
  std::uint32_t bits = 0;         // of a sample
};

WavCoding coding_at(const FileReader& file, std::size_t at, std::uint32_t length) {
  WavCoding coding{.kind = file.little16(at),
                   .channels = file.little16(at + 2),
                   .rate = file.little32(at + 4),
                   .frame_bytes = file.little16(at + 12),
                   .bits = file.little16(at + 14)};
  if (coding.kind == kExtensible && length >= 26) coding.kind = file.little16(at + 24);
  return coding;
}

// Decoders differ over samples of 9 or 12 bits: they take as many bytes for one as `frame_bytes` says, or the next
// whole number of bytes.
Status check_coding(const WavCoding& coding) {
  const bool known = coding.kind == kPcm || coding.kind == kFloat || coding.kind == kALaw || coding.kind == kMuLaw;
  if (!known) {
    return unsupported("WAV files of kind " + std::to_string(coding.kind) + " are not decoded: PCM, float and G.711");
  }
  const bool whole = coding.kind == kPcm     ? coding.bits % 8 == 0 && coding.bits >= 8 && coding.bits <= 32
                     : coding.kind == kFloat ? coding.bits == 32 || coding.bits == 64
                                             : coding.bits == 8;
  if (!whole) return unsupported("samples of " + std::to_string(coding.bits) + " bits are not decoded in a WAV");
  if (coding.frame_bytes == coding.channels * coding.bits / 8) return {};
  return damaged("its head has two sizes for its samples");
}

std::vector<std::byte> written_head(const WavCoding& coding, std::uint32_t data_bytes) {
  constexpr std::uint32_t kHead = 44;
  std::vector<std::byte> head;
  const auto little = [&](std::uint32_t value, int count) {
    for (int i = 0; i < count; ++i) head.push_back(static_cast<std::byte>(value >> (8 * i) & 0xFF));
  };
  const auto text = [&](std::string_view word) {
    for (const char each : word) head.push_back(static_cast<std::byte>(each));
  };
  text("RIFF");
  little(kHead - 8 + data_bytes, 4);
  text("WAVEfmt ");
  little(16, 4);
  little(coding.kind, 2);
  little(coding.channels, 2);
  little(coding.rate, 4);
  little(coding.rate * coding.frame_bytes, 4);
  little(coding.frame_bytes, 2);
  little(coding.bits, 2);
  text("data");
  little(data_bytes, 4);
  return head;
}

Result<PlainSound> samples_at(const FileReader& file, std::size_t at, std::uint32_t length, const WavCoding& coding) {
  TRY(check_coding(coding));
  if (coding.frame_bytes == 0) return damaged("its samples have no size");
  if (!file.has(at, length)) return damaged("its head promises more samples than it has");
  if (length % coding.frame_bytes != 0) return damaged("its last sample is not whole");
  return PlainSound{.format = Format::kWav,
                    .samples = length / coding.frame_bytes,
                    .rate = coding.rate,
                    .channels = coding.channels,
                    .head = written_head(coding, length),
                    .runs = {file.part(at, length)}};
}

}  // namespace

Result<PlainSound> read_wav(const FileReader& file) {
  WavCoding coding;
  for (std::size_t at = 12; file.has(at, 8);) {
    const std::uint32_t length = file.little32(at + 4);
    if (file.is_text(at, "data")) return samples_at(file, at + 8, length, coding);
    if (file.is_text(at, "fmt ")) {
      if (length < 16 || !file.has(at + 8, length)) return truncated();
      if (coding.kind != 0) return damaged("it says twice how its samples are coded");
      coding = coding_at(file, at + 8, length);
    }
    at += 8 + std::size_t{length} + length % 2;
  }
  return damaged("it has no samples");
}

}  // namespace kvkeep::engine::media
