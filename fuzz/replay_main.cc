// Calls a fuzz target with each file of the folders and files given: what once broke it must not break it again.
//   fuzz_replay_GROUP TARGET PATH...

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <vector>

#include "fuzz.h"

namespace {

namespace fs = std::filesystem;

std::set<fs::path> files_of(int count, char** paths) {
  std::set<fs::path> files;
  for (int i = 0; i < count; ++i) {
    if (!fs::is_directory(paths[i])) {
      files.insert(paths[i]);
      continue;
    }
    for (const fs::directory_entry& entry : fs::directory_iterator(paths[i])) files.insert(entry.path());
  }
  return files;
}

}  // namespace

int main(int argument_count, char** arguments) {
  const auto target = kvkeep::fuzz::targets().find(argument_count > 1 ? arguments[1] : "");
  if (target == kvkeep::fuzz::targets().end()) {
    std::fprintf(stderr, "usage: %s TARGET PATH...; its targets:\n", arguments[0]);
    for (const auto& [name, function] : kvkeep::fuzz::targets()) std::fprintf(stderr, "  %s\n", name.data());
    return 2;
  }
  const std::set<fs::path> files = files_of(argument_count - 2, arguments + 2);
  for (const fs::path& path : files) {
    std::printf("%s\n", path.c_str());
    std::fflush(stdout);  // the last one is what failed
    std::ifstream file(path, std::ios::binary);
    const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
    (void)target->second(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
  }
  std::printf("%zu inputs\n", files.size());
  return files.empty() ? 1 : 0;
}
