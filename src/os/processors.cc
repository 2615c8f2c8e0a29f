#include "os/processors.h"

#include <sched.h>

#include <fstream>
#include <set>
#include <string>

namespace kvkeep::os {

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

}  // namespace kvkeep::os
