#include "format/repeated_bytes.h"

#include <algorithm>
#include <string_view>
#include <unordered_set>

namespace kvkeep::format {

std::size_t repeated_bytes(ByteSpan base, ByteSpan fresh, std::size_t window_bytes) {
  const auto window = [window_bytes](ByteSpan bytes, std::size_t at) {
    return std::string_view(reinterpret_cast<const char*>(bytes.data()) + at, window_bytes);
  };
  std::unordered_set<std::string_view> windows;
  for (std::size_t at = 0; at + window_bytes <= base.size(); ++at) windows.insert(window(base, at));
  std::size_t repeated = 0;
  std::size_t counted = 0;  // everything before it
  for (std::size_t at = 0; at + window_bytes <= fresh.size(); ++at) {
    if (!windows.contains(window(fresh, at))) continue;
    repeated += at + window_bytes - std::max(at, counted);
    counted = at + window_bytes;
  }
  return repeated;
}

}  // namespace kvkeep::format
