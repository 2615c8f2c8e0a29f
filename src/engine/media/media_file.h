#pragma once

// The head of a picture's or sound's file: what it is, and how much memory and time its decoder may take.
//
// Files come from clients. A file of some kilobytes can promise a picture of gigabytes or hours of silence, and
// decoders believe it. So nothing is decoded before its head was read here and found to be within limits. A sound's
// frames or samples are counted as well, and its decoder gets a file that is written here (plain_sound()). Only formats
// with a reader here are accepted: PNG, JPEG, GIF, BMP, WebP; WAV, MP3, FLAC. Pure functions over bytes; thread safe.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/types.h"

namespace kvkeep::engine::media {

enum class Medium { kPicture, kSound };
enum class Format { kPng, kJpeg, kGif, kBmp, kWebp, kWav, kMp3, kFlac };

constexpr std::string_view to_string(Format format) {
  switch (format) {
    case Format::kPng: return "PNG";
    case Format::kJpeg: return "JPEG";
    case Format::kGif: return "GIF";
    case Format::kBmp: return "BMP";
    case Format::kWebp: return "WebP";
    case Format::kWav: return "WAV";
    case Format::kMp3: return "MP3";
    case Format::kFlac: return "FLAC";
  }
  return "unknown";
}

struct MediaLimits {
  ByteCount file_bytes = mebibytes(64);
  // More than cameras of telephones give.
  std::uint64_t pixels = 64'000'000;
  // Memory that a picture's decoder takes for a moment: 6 or 7 bytes a pixel of most pictures, up to 24.
  ByteCount decoded_bytes = mebibytes(448);
  std::uint32_t side = 32'768;  // pixels of a picture's longer side
  // How often the longer side may be as long as the shorter one. libmtmd scales pictures: a side that it rounds to
  // nothing ends the process, and some projectors make a thin picture hundreds of times as large.
  std::uint32_t side_ratio = 256;
  // Frames of an animation, of which only the first is looked at, and scans of a JPEG, each a pass over all pixels.
  std::uint32_t frames = 1'000;
  std::uint32_t scans = 100;
  // Sound is decoded to 64 KB a second, and takes three times as much on the way to the projector: half an hour takes
  // 360 MB.
  double seconds = 1'800;
  // Samples of all channels of a sound, each of which its decoder looks at: those of half an hour in stereo at 48,000
  // Hz.
  std::uint64_t samples = 1'800ULL * 48'000 * 2;
};

// The facts in the head of a file. A picture has a size, and the memory that its decoder takes at most; a sound has a
// length and a number of samples, which for an MP3 are upper bounds.
struct MediaHead {
  Medium medium = Medium::kPicture;
  Format format = Format::kPng;
  std::uint32_t width = 0;
  std::uint32_t height = 0;
  std::uint32_t frames = 1;
  std::uint64_t decoded_bytes = 0;
  double seconds = 0;
  std::uint64_t samples = 0;  // of all channels
};

// Errors are a line that says what is wrong with the file, to be put after its name: kUnsupported (no format of these,
// or a variant of one that is not decoded), kDamaged (truncated or contradictory), kNoSpace (beyond a limit).
Result<MediaHead> read_head(ByteSpan file, const MediaLimits& limits);

// Returns true for a file that begins like a sound. Costs nothing, while read_head() goes through a whole JPEG.
bool begins_like_sound(ByteSpan file);

// Returns how many pixels a picture promises, without looking whether it has them; 0 for a sound, or if it does not
// say. Costs next to nothing.
std::uint64_t promised_pixels(ByteSpan file);

// Returns the sound as a file that a decoder can read in one way only: with a head that is written here, and without
// anything else than the samples or frames that were counted. Precondition: read_head() accepted the file.
std::vector<std::byte> plain_sound(ByteSpan file);

// Checks that the pixels of a PNG unpack to exactly as many bytes as its head promises: a decoder would take all of
// them into memory. Costs about as much time as unpacking, and 64 KB. Precondition: read_head() accepted the file.
// Errors as there.
Status check_png_pixels(ByteSpan file);

// Checks that the codes of a GIF's first frame stand for all of its pixels, and that a large picture is not mostly
// around it: a decoder would make up what is missing. Costs less than decoding, and 8 KB. Precondition and errors as
// above.
Status check_gif_pixels(ByteSpan file);

// Decodes a WebP, which libmtmd does not: red, green and blue of each pixel, in rows from the top. Precondition:
// read_head() accepted the file and returned `head`. kDamaged; kUnsupported if this kvkeep was built without libwebp.
Result<std::vector<std::uint8_t>> webp_pixels(ByteSpan file, const MediaHead& head);
// Returns kUnsupported if this kvkeep was built without libwebp.
Status check_webp_support();

// ---- the samples of a decoded sound: which ones go to the encoder ----

// kDamaged for a sample that is no number, or so large that the encoder's sums would not be numbers: they would be
// those of every token after the sound. Samples of sounds lie between -1 and 1, of some files that were written wrongly
// between whole numbers of 32 bits.
Status check_samples(std::span<const float> samples, std::uint32_t rate);

// Returns how many samples the encoder gets of a sound with `count`, the last ones being silence. Encoders look through
// windows, of some milliseconds to a tenth of a second, and take sounds in parts of whole half minutes: libmtmd ends
// the process over one that has, or whose last part has, less than a window.
std::size_t whole_windows(std::size_t count, std::uint32_t rate);

}  // namespace kvkeep::engine::media
