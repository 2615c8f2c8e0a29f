#include "os/machine.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <sstream>
#include <system_error>
#include <utility>

#include "os/descriptor.h"

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

namespace {

double ticks_per_second() { return static_cast<double>(::sysconf(_SC_CLK_TCK)); }

// As far as it can be read: reading the file of a process that ends meanwhile fails, and an iterator would throw.
std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::optional<int> process_of(const std::filesystem::path& directory) {
  const std::string name = directory.filename();
  int id = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), id);
  if (error != std::errc() || end != name.data() + name.size()) return std::nullopt;
  return id;
}

// "1234 (a name) S 1 ...": the name may contain anything, so that fields are counted from the last parenthesis on.
std::optional<ProcessTime> parse_process(int id, const std::string& text) {
  const auto open = text.find('(');
  const auto close = text.rfind(')');
  if (open == std::string::npos || close == std::string::npos || close < open) return std::nullopt;
  std::istringstream fields(text.substr(close + 1));
  ProcessTime out{.id = id, .name = text.substr(open + 1, close - open - 1)};
  std::string skipped;
  std::uint64_t user = 0, system = 0, children_user = 0, children_system = 0;
  fields >> skipped >> out.parent;  // fields 3 and 4
  for (int field = 5; field < 14; ++field) fields >> skipped;
  fields >> user >> system >> children_user >> children_system;  // fields 14 to 17
  for (int field = 18; field < 22; ++field) fields >> skipped;
  fields >> out.started_ticks;  // field 22
  if (!fields) return std::nullopt;
  out.cpu_s = static_cast<double>(user + system) / ticks_per_second();
  out.children_cpu_s = static_cast<double>(children_user + children_system) / ticks_per_second();
  return out;
}

// The first line of /proc/stat: "cpu  user nice system idle iowait irq softirq steal".
bool read_totals(ProcessorTimes& times) {
  std::ifstream file("/proc/stat");
  std::string name;
  double user = 0, nice = 0, system = 0, idle = 0, waiting = 0, irq = 0, soft_irq = 0, stolen = 0;
  file >> name >> user >> nice >> system >> idle >> waiting >> irq >> soft_irq >> stolen;
  if (!file || name != "cpu") return false;
  times.busy_s = (user + nice + system + irq + soft_irq) / ticks_per_second();
  times.idle_s = (idle + waiting) / ticks_per_second();
  times.stolen_s = stolen / ticks_per_second();
  return true;
}

}  // namespace

Result<ProcessorTimes> processor_times() {
  ProcessorTimes times;
  if (!read_totals(times)) return unsupported("the system does not report the time of its processors");
  std::error_code error;
  for (std::filesystem::directory_iterator entry("/proc", error), end; !error && entry != end; entry.increment(error)) {
    const auto id = process_of(entry->path());
    if (!id) continue;
    // A process may end between its name and its file.
    if (auto process = parse_process(*id, text_of(entry->path() / "stat")))
      times.processes.push_back(std::move(*process));
  }
  return times;
}

namespace {

constexpr std::size_t kLargePageBytes = std::size_t{2} << 20;

std::size_t rounded(std::size_t bytes, std::size_t unit) { return (bytes + unit - 1) / unit * unit; }

}  // namespace

void prefer_large_pages(MutableByteSpan bytes) {
  const auto address = reinterpret_cast<std::uintptr_t>(bytes.data());
  const std::size_t begin = rounded(address, kLargePageBytes) - address;
  const std::size_t end = (address + bytes.size()) / kLargePageBytes * kLargePageBytes;
  if (address + begin < end) (void)::madvise(bytes.data() + begin, end - address - begin, MADV_HUGEPAGE);
}

// The system chooses an address that suits small pages: what lies before the first large one is given back.
MutableByteSpan map_memory(std::size_t size) {
  constexpr std::size_t kEveryPage = std::size_t{64} << 10;
  size = rounded(size, kEveryPage);
  const std::size_t mapped = size + kLargePageBytes;
  void* const address = ::mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED) return {};
  auto* const begin = static_cast<std::byte*>(address);
  const auto number = reinterpret_cast<std::uintptr_t>(begin);
  const std::size_t before = rounded(number, kLargePageBytes) - number;
  if (before > 0) (void)::munmap(begin, before);
  (void)::munmap(begin + before + size, kLargePageBytes - before);
  const MutableByteSpan pages{begin + before, size};
  prefer_large_pages(pages);
  return pages;
}

void unmap_memory(MutableByteSpan pages) { (void)::munmap(pages.data(), pages.size()); }

void touch_memory(MutableByteSpan pages) {
#ifdef MADV_POPULATE_WRITE
  if (::madvise(pages.data(), pages.size(), MADV_POPULATE_WRITE) == 0) return;
#endif
  constexpr std::size_t kSmallestPage = 4096;
  volatile std::byte* bytes = pages.data();
  for (std::size_t at = 0; at < pages.size(); at += kSmallestPage) bytes[at] = std::byte{0};
}

Result<std::uint64_t> voluntary_switches(int process_id) {
  constexpr std::string_view kKey = "voluntary_ctxt_switches:";
  const std::filesystem::path tasks = "/proc/" + std::to_string(process_id) + "/task";
  std::uint64_t total = 0;
  bool found = false;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(tasks, error), end; !error && entry != end; entry.increment(error)) {
    std::ifstream file(entry->path() / "status");
    for (std::string line; std::getline(file, line);) {
      if (!line.starts_with(kKey)) continue;
      total += std::stoull(line.substr(kKey.size()));
      found = true;
    }
  }
  if (!found) return unsupported("the system does not report the switches of process " + std::to_string(process_id));
  return total;
}

namespace {

// Of the file's first `size` bytes, mapped at `begin`.
bool any_page_resident(void* begin, std::size_t size) {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> resident((size + page - 1) / page);
  if (::mincore(begin, size, resident.data()) != 0) return true;
  return std::ranges::any_of(resident, [](unsigned char state) { return (state & 1) != 0; });
}

}  // namespace

Result<bool> drop_from_page_cache(const std::string& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!file.valid()) return not_found("open " + path + ": " + std::generic_category().message(errno));
  const off_t size = ::lseek(file.get(), 0, SEEK_END);
  if (size < 0) return io_error("seek " + path);
  if (size == 0) return true;
  if (::posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED) != 0) return false;
  void* const mapped = ::mmap(nullptr, static_cast<std::size_t>(size), PROT_READ, MAP_SHARED, file.get(), 0);
  if (mapped == MAP_FAILED) return io_error("map " + path);
  const bool resident = any_page_resident(mapped, static_cast<std::size_t>(size));
  ::munmap(mapped, static_cast<std::size_t>(size));
  return !resident;
}

Result<std::uint64_t> bytes_written_by(int process_id) {
  std::ifstream file("/proc/" + std::to_string(process_id) + "/io");
  std::string name;
  std::uint64_t value = 0;
  while (file >> name >> value) {
    if (name == "wchar:") return value;
  }
  return unsupported("the system does not report what process " + std::to_string(process_id) + " wrote");
}

}  // namespace kvkeep::os
