#include "os/machine.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <set>
#include <sstream>
#include <utility>

namespace kvkeep::os {
namespace {

// Returns the text after `separator` in the first line that begins with `key`; "" if there is none.
std::string value_in(const std::string& path, std::string_view key, char separator) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(key)) continue;
    const auto at = line.find(separator);
    if (at == std::string::npos) continue;
    std::string value = line.substr(at + 1);
    value.erase(0, std::min(value.find_first_not_of(" \t\""), value.size()));
    while (!value.empty() && std::string_view(" \t\"").contains(value.back())) value.pop_back();
    return value;
  }
  return {};
}

std::uint32_t allowed_cpus() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  return sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? static_cast<std::uint32_t>(CPU_COUNT(&allowed)) : 1;
}

}  // namespace

MachineInfo machine_info() {
  const auto pages = static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES));
  const auto page_bytes = static_cast<std::uint64_t>(::sysconf(_SC_PAGE_SIZE));
  return {.processor = value_in("/proc/cpuinfo", "model name", ':'),
          .logical_cpus = allowed_cpus(),
          .memory = ByteCount{pages * page_bytes},
          .system = value_in("/etc/os-release", "PRETTY_NAME", '=')};
}

unsigned core_count() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return 1;
  std::set<std::string> cores;
  for (int i = 0; i < CPU_SETSIZE; ++i) {
    if (!CPU_ISSET(i, &allowed)) continue;
    std::ifstream file("/sys/devices/system/cpu/cpu" + std::to_string(i) + "/topology/thread_siblings_list");
    std::string siblings;
    if (!(file >> siblings)) siblings = "cpu" + std::to_string(i);  // no topology: count every processor
    cores.insert(siblings);
  }
  return cores.empty() ? 1 : static_cast<unsigned>(cores.size());
}

Result<ByteCount> parse_available_memory(std::string_view meminfo) {
  constexpr std::string_view kField = "MemAvailable:";
  std::size_t at = meminfo.find(kField);
  if (at == std::string_view::npos) return unsupported("the system does not report its available memory");
  at = meminfo.find_first_not_of(' ', at + kField.size());
  if (at == std::string_view::npos) return unsupported("available memory has no number");
  std::uint64_t kibibytes = 0;
  const auto [end, error] = std::from_chars(meminfo.data() + at, meminfo.data() + meminfo.size(), kibibytes);
  if (error != std::errc{} || kibibytes > (~0ull >> 10)) return unsupported("available memory is not a valid number");
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
