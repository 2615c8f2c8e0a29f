#include "os/find_program.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

namespace kvkeep::os {
namespace {

bool is_program(const std::string& path) {
  struct stat info{};
  return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) && ::access(path.c_str(), X_OK) == 0;
}

}  // namespace

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
