#include "format/pin_list.h"

#include <algorithm>
#include <optional>

namespace kvkeep::format {
namespace {

constexpr std::string_view kDigits = "0123456789abcdef";

std::optional<PrefixHash> parse_hash(std::string_view digits) {
  PrefixHash hash;
  if (digits.size() != 2 * hash.bytes.size() || digits.find_first_not_of(kDigits) != std::string_view::npos)
    return std::nullopt;
  for (std::size_t i = 0; i < hash.bytes.size(); ++i) {
    hash.bytes[i] = static_cast<std::uint8_t>(kDigits.find(digits[2 * i]) << 4 | kDigits.find(digits[2 * i + 1]));
  }
  return hash;
}

}  // namespace

std::vector<PrefixHash> decode_pins(std::string_view text) {
  std::vector<PrefixHash> pins;
  while (!text.empty() && pins.size() < kMostPins) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    if (const auto hash = parse_hash(text.substr(0, end))) pins.push_back(*hash);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return pins;
}

std::string encode_pins(const std::vector<PrefixHash>& pins) {
  std::string text;
  for (const PrefixHash& pin : pins) text.append(pin.hex()).append("\n");
  return text;
}

}  // namespace kvkeep::format
