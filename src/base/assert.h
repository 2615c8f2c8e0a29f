#pragma once

// KVKEEP_ASSERT(condition, "what must hold"): a bug if it fails. Prints one line and aborts, in every build type:
// a cache that goes on after a broken invariant would lie.

#include <cstdio>
#include <cstdlib>

namespace kvkeep {
[[noreturn, gnu::cold, gnu::noinline]] inline void assertion_failed(const char* condition, const char* message,
                                                                    const char* file, int line) {
  std::fprintf(stderr, "kvkeep: bug: %s (%s) at %s:%d\n", message, condition, file, line);
  std::abort();
}
}  // namespace kvkeep

#define KVKEEP_ASSERT(condition, message)              \
  (static_cast<bool>(condition) ? static_cast<void>(0) \
                                : ::kvkeep::assertion_failed(#condition, message, __FILE__, __LINE__))
