#include "os/machine_info.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string_view>

namespace kvkeep::os {
namespace {

// What follows `separator` in the first line that begins with `key`; empty if there is none.
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

bool errors_go_to_a_terminal() { return ::isatty(STDERR_FILENO) == 1; }
bool output_goes_to_a_terminal() { return ::isatty(STDOUT_FILENO) == 1; }
bool input_comes_from_a_terminal() { return ::isatty(STDIN_FILENO) == 1; }

}  // namespace kvkeep::os
