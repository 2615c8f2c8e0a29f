#pragma once

// The head of a picture's or sound's file: what it is, and how much memory and time its decoder may take.
//
// Files come from clients. A file of some kilobytes can promise a picture of gigabytes or hours of silence, and
// decoders believe it. So nothing is decoded before its head was read here and found to be within limits. Only formats
// with a reader here are accepted: PNG, JPEG, GIF, BMP, WebP; WAV, MP3, FLAC. Pure functions over bytes; thread safe.

#include <cstdint>
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
  // A picture is decoded to 3 bytes a pixel, on the way to up to 16: 64 million pixels, more than cameras of telephones
  // give, take at most 1 GB for a moment.
  std::uint64_t pixels = 64'000'000;
  std::uint32_t side = 32'768;  // pixels of a picture's longer side
  // Frames of an animation, of which only the first is looked at, and scans of a JPEG, each a pass over all pixels.
  std::uint32_t frames = 1'000;
  std::uint32_t scans = 100;
  // Sound is decoded to 64 KB a second: half an hour takes 115 MB.
  double seconds = 1'800;
};

// What the head of a file says. Of a picture: its size. Of a sound: an upper limit of its length.
struct MediaHead {
  Medium medium = Medium::kPicture;
  Format format = Format::kPng;
  std::uint32_t width = 0;
  std::uint32_t height = 0;
  std::uint32_t frames = 1;
  double seconds = 0;
};

// Errors are a line that says what is wrong with the file, to be put after its name: kUnsupported (no format of these,
// or a variant of one that is not decoded), kDamaged (truncated or contradictory), kNoSpace (beyond a limit).
Result<MediaHead> read_head(ByteSpan file, const MediaLimits& limits);

// Returns true for a file that begins like a sound. Costs nothing, while read_head() goes through a whole JPEG.
bool begins_like_sound(ByteSpan file);

// Checks that the pixels of a PNG unpack to as many bytes as its head promises: a decoder would take all of them into
// memory. Costs about as much time as unpacking, and 64 KB. Precondition: read_head() accepted the file. Errors as
// there.
Status check_png_pixels(ByteSpan file);

// Checks that the codes of a GIF's first frame stand for all of its pixels: a decoder would make up what is missing.
// Costs less than decoding, and 8 KB. Precondition and errors as above.
Status check_gif_pixels(ByteSpan file);

// Decodes a WebP, which libmtmd does not: red, green and blue of each pixel, in rows from the top. Precondition:
// read_head() accepted the file and returned `head`. kDamaged; kUnsupported if this kvkeep was built without libwebp.
Result<std::vector<std::uint8_t>> webp_pixels(ByteSpan file, const MediaHead& head);
// Returns kUnsupported if this kvkeep was built without libwebp.
Status check_webp_support();

}  // namespace kvkeep::engine::media
