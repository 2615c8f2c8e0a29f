// Leaves libggml one of its CPU backends: a module for the dynamic linker (LD_AUDIT), which is asked about each library
// before it is opened. libggml opens every backend that it finds, asks which suits the processor best, and passes over
// those that it cannot open. scripts/with-cpu-variant sets both variables:
//   LD_AUDIT=only_cpu_variant.so KVKEEP_CPU_VARIANT=haswell
//
// A preloaded library would not do: tests preload others instead, and some look functions up in libggml itself.

#include <link.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

namespace {

// Also begins the name of a backend that is linked in, which a program under test may not have either.
constexpr std::string_view kBackends = "libggml-cpu";

bool may_open(std::string_view path) {
  const std::string_view name = path.substr(path.rfind('/') + 1);  // all of it without a slash
  const char* const variant = std::getenv("KVKEEP_CPU_VARIANT");
  return !name.starts_with(kBackends) || (variant != nullptr && name == std::string(kBackends) + "-" + variant + ".so");
}

}  // namespace

extern "C" {

unsigned int la_version(unsigned int linkers) { return linkers < LAV_CURRENT ? linkers : LAV_CURRENT; }

// A search that returns null is one without success.
char* la_objsearch(const char* path, std::uintptr_t* /*from*/, unsigned int /*flag*/) {
  return may_open(path) ? const_cast<char*>(path) : nullptr;
}

}  // extern "C"
