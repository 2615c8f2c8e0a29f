#include <cstdint>
#include <vector>

#include "engine/media/media_file.h"

#ifdef KVKEEP_WEBP
#include <webp/decode.h>
#endif

namespace kvkeep::engine::media {

#ifndef KVKEEP_WEBP

Status check_webp_support() { return unsupported("it is WebP, and this kvkeep was built without libwebp"); }

Result<std::vector<std::uint8_t>> webp_pixels(ByteSpan, const MediaHead&) { return check_webp_support().error(); }

#else

Status check_webp_support() { return {}; }

// libwebp writes no more than fits: a picture that is larger than its head says is an error.
Result<std::vector<std::uint8_t>> webp_pixels(ByteSpan file, const MediaHead& head) {
  constexpr std::size_t kColours = 3;
  const std::size_t row_bytes = kColours * head.width;
  std::vector<std::uint8_t> pixels(row_bytes * head.height);
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(file.data());
  int width = 0;
  int height = 0;
  const bool is_as_said = WebPGetInfo(bytes, file.size(), &width, &height) != 0 &&
                          static_cast<std::uint32_t>(width) == head.width &&
                          static_cast<std::uint32_t>(height) == head.height;
  if (is_as_said &&
      WebPDecodeRGBInto(bytes, file.size(), pixels.data(), pixels.size(), static_cast<int>(row_bytes)) != nullptr) {
    return pixels;
  }
  return damaged("it cannot be decoded as WebP");
}

#endif

}  // namespace kvkeep::engine::media
