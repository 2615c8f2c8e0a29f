#include "os/memory_info.h"

#include <unistd.h>

#include <charconv>
#include <fstream>
#include <sstream>

namespace kvkeep::os {

Result<ByteCount> parse_available_memory(std::string_view meminfo) {
  constexpr std::string_view kField = "MemAvailable:";
  std::size_t at = meminfo.find(kField);
  if (at == std::string_view::npos) return unsupported("the system does not tell its available memory");
  at = meminfo.find_first_not_of(' ', at + kField.size());
  if (at == std::string_view::npos) return unsupported("available memory has no number");
  std::uint64_t kibibytes = 0;
  const auto [end, error] = std::from_chars(meminfo.data() + at, meminfo.data() + meminfo.size(), kibibytes);
  if (error != std::errc{} || kibibytes > (~0ull >> 10)) return unsupported("available memory is no sensible number");
  return ByteCount{kibibytes << 10};
}

Result<ByteCount> available_memory() {
  std::ifstream file("/proc/meminfo");
  if (!file) return unsupported("/proc/meminfo cannot be read");
  std::stringstream text;
  text << file.rdbuf();
  return parse_available_memory(text.str());
}

std::size_t page_size() { return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)); }

}  // namespace kvkeep::os
