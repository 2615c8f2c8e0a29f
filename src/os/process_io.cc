#include "os/process_io.h"

#include <fstream>
#include <string>

namespace kvkeep::os {

Result<std::uint64_t> bytes_written_by(int process_id) {
  std::ifstream file("/proc/" + std::to_string(process_id) + "/io");
  std::string name;
  std::uint64_t value = 0;
  while (file >> name >> value) {
    if (name == "wchar:") return value;
  }
  return unsupported("the system does not say what process " + std::to_string(process_id) + " wrote");
}

}  // namespace kvkeep::os
