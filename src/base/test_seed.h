#pragma once

// For tests only: the seed of random tests, taken from KVKEEP_TEST_SEED where that is set, and printed either way.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>

namespace kvkeep {

// The same number throughout one program.
inline std::uint64_t test_seed() {
  static const std::uint64_t seed = [] {
    const char* given = std::getenv("KVKEEP_TEST_SEED");
    const std::uint64_t chosen = given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device{}();
    std::printf("KVKEEP_TEST_SEED=%llu\n", static_cast<unsigned long long>(chosen));
    return chosen;
  }();
  return seed;
}

// Makes RapidCheck use the same seed. Call before its first check: from a static initialiser of the test file.
inline bool seed_rapidcheck() { return setenv("RC_PARAMS", ("seed=" + std::to_string(test_seed())).c_str(), 0) == 0; }

}  // namespace kvkeep
