#include "os/process.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdlib>  // defines __GLIBC__
#include <cstring>
#include <ctime>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <string_view>
#include <vector>

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "base/assert.h"
#include "os/file_stamp.h"

namespace kvkeep::os {

int process_id() { return ::getpid(); }

double cpu_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

std::size_t raise_open_files_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  const rlimit wanted{limit.rlim_max, limit.rlim_max};
  if (limit.rlim_cur < limit.rlim_max && ::setrlimit(RLIMIT_NOFILE, &wanted) == 0) limit = wanted;
  return static_cast<std::size_t>(std::min<rlim_t>(limit.rlim_cur, SIZE_MAX));  // RLIM_INFINITY is the largest value
}

void return_freed_memory() {
#ifdef __GLIBC__
  ::malloc_trim(0);
#endif
}

void keep_memory_returnable() {
#ifdef __GLIBC__
  // Setting either ends the C library's learning. Pieces of this size are mapped by themselves and unmapped when freed.
  // Segments of rows are smaller: those come and go all the time, and new pages cost more than old ones.
  constexpr int kMappedBytes = 4 << 20;
  constexpr int kKeptBytes = 8 << 20;  // free memory at the end of a heap
  ::mallopt(M_MMAP_THRESHOLD, kMappedBytes);
  ::mallopt(M_TRIM_THRESHOLD, kKeptBytes);
#endif
}

bool errors_go_to_a_terminal() { return ::isatty(STDERR_FILENO) == 1; }
bool output_goes_to_a_terminal() { return ::isatty(STDOUT_FILENO) == 1; }
bool input_comes_from_a_terminal() { return ::isatty(STDIN_FILENO) == 1; }

namespace {

bool is_program(const std::string& path) {
  struct stat info{};
  return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) && ::access(path.c_str(), X_OK) == 0;
}

}  // namespace

Environment read_environment() {
  Environment environment;
  for (char** entry = ::environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    // Only in broken environments a name starts with '='; find() from 1 keeps such an entry whole.
    const auto equals = text.find('=', 1);
    if (equals != std::string_view::npos) environment.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return environment;
}

namespace {

std::string file_text(const char* path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

Status restart_with(const std::string& variable, const std::string& value) {
  std::array<char, 4096> program{};
  if (::readlink("/proc/self/exe", program.data(), program.size() - 1) <= 0) return io_error("/proc/self/exe");
  std::string line = file_text("/proc/self/cmdline");  // arguments, each with a zero after it
  std::vector<char*> arguments;
  for (std::size_t at = 0; at < line.size(); at = line.find('\0', at) + 1) arguments.push_back(&line[at]);
  arguments.push_back(nullptr);
  if (::setenv(variable.c_str(), value.c_str(), 1) == 0) ::execv(program.data(), arguments.data());
  return io_error(std::string(program.data()) + ": " + std::strerror(errno));
}

std::vector<FileStamp> stamps_of_program(const std::vector<std::string_view>& names) {
  std::set<std::string> paths;
  std::istringstream maps(file_text("/proc/self/maps"));
  for (std::string line; std::getline(maps, line);) {
    const std::size_t begin = line.find('/');
    if (begin == std::string::npos) continue;
    const std::string_view file = std::string_view(line).substr(line.rfind('/'));
    if (std::ranges::any_of(names, [&](auto name) { return file.contains(name); })) paths.insert(line.substr(begin));
  }
  std::vector<FileStamp> stamps;
  paths.insert("/proc/self/exe");
  for (const std::string& path : paths) {
    const auto stamp = stamp_of(path);
    stamps.push_back(stamp ? *stamp : FileStamp{});
  }
  return stamps;
}

bool has_loaded(std::string_view library) {
  std::string name(1, '/');
  name += library;
  return file_text("/proc/self/maps").find(name) != std::string::npos;
}

Result<std::string> find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) {
    if (is_program(name)) return name;
    return not_found(name + ": no such program");
  }
  const char* found = std::getenv("PATH");
  const std::string list = found == nullptr ? "/usr/local/bin:/usr/bin:/bin" : found;
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(':', begin), list.size());
    const std::string directory = begin == end ? "." : list.substr(begin, end - begin);
    if (is_program(directory + "/" + name)) return directory + "/" + name;
    begin = end + 1;
  }
  return not_found(name + ": no such program in PATH");
}

void fill_random(MutableByteSpan out) {
  constexpr std::size_t kMostAtOnce = 256;  // larger requests may be cut short
  while (!out.empty()) {
    const MutableByteSpan now = out.first(std::min(out.size(), kMostAtOnce));
    KVKEEP_ASSERT(::getentropy(now.data(), now.size()) == 0, "the system gives random bytes");
    out = out.subspan(now.size());
  }
}

}  // namespace kvkeep::os
