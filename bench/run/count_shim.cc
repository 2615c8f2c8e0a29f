#include "bench/run/count_shim.h"

#include <cstddef>

#include "os/file_system.h"

// KVKEEP_COUNT_SHIM is the library's path at build time.
asm(R"(
  .pushsection .rodata
  .balign 16
  .global kvkeep_count_shim_begin
  .hidden kvkeep_count_shim_begin
kvkeep_count_shim_begin:
  .incbin ")" KVKEEP_COUNT_SHIM R"("
  .global kvkeep_count_shim_end
  .hidden kvkeep_count_shim_end
kvkeep_count_shim_end:
  .popsection
)");

extern "C" {
extern const std::byte kvkeep_count_shim_begin[];
extern const std::byte kvkeep_count_shim_end[];
}

namespace kvkeep::bench {

ByteSpan count_shim() { return {kvkeep_count_shim_begin, kvkeep_count_shim_end}; }

Status write_count_shim(const std::string& path) {
  TRY_ASSIGN(const auto file, os::real_file_system().create(path));
  return file->append(count_shim());
}

}  // namespace kvkeep::bench
