#pragma once

// Pictures, and sounds, that depend only on a label, the same on every machine: 832 x 608 in 16 greys, noise. Files of
// 253 kB, about as large as screenshots of text.

#include <string>
#include <string_view>

namespace kvkeep::bench {

inline constexpr unsigned kPictureWidth = 832;
inline constexpr unsigned kPictureHeight = 608;

// Returns the bytes of a BMP file, which needs neither compression nor checksums.
std::string picture_file(std::string_view label);

// The same as a data: URL, as chats take it.
std::string picture_url(std::string_view label);

// Returns the bytes of a WAV file: a second of noise.
std::string sound_file(std::string_view label);

std::string in_base64(std::string_view bytes);

}  // namespace kvkeep::bench
