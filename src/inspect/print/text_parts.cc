#include "inspect/print/text_parts.h"

#include <fmt/format.h>

#include "text/printable.h"

namespace kvkeep::inspect {

std::string size_text(ByteCount bytes) {
  constexpr double kKibi = 1024;
  const auto value = static_cast<double>(bytes.value());
  if (value < kKibi * kKibi) return fmt::format("{:.0f} KiB", value / kKibi);
  if (value < kKibi * kKibi * kKibi) return fmt::format("{:.1f} MiB", value / kKibi / kKibi);
  return fmt::format("{:.2f} GiB", value / kKibi / kKibi / kKibi);
}

std::string counted(std::uint64_t count, const char* one, const char* many) {
  return fmt::format("{} {}", text::grouped(count), count == 1 ? one : many);
}

void append_line(std::string& out, const char* name, const std::string& value) {
  if (!value.empty()) out += fmt::format("  {:<12}{}\n", name, value);
}

}  // namespace kvkeep::inspect
