#include "os/environment.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

namespace kvkeep::os {
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

}  // namespace kvkeep::os
