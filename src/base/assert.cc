#include "base/assert.h"

#include <cstdio>
#include <cstdlib>

namespace kvkeep {

void assertion_failed(const char* condition, const char* message, const char* file, int line) {
  std::fprintf(stderr, "kvkeep: bug: %s (%s) at %s:%d\n", message, condition, file, line);
  std::abort();
}

}  // namespace kvkeep
