#pragma once

// The counting shim (bench/count_shim/count_shim.cc), as bytes in this program: an installed kvkeep needs no file
// beside it.

#include <string>

#include "base/result.h"
#include "base/types.h"

namespace kvkeep::bench {

// A shared library, to be preloaded (LD_PRELOAD) into a server. With KVKEEP_COUNT_FILE in its environment, the first 8
// bytes of that file are the number of ids that it gave to libllama, native byte order, also after kill -9. A server
// that links libllama statically is not seen: its count stays 0.
ByteSpan count_shim();

// Writes it to `path`, a new file.
Status write_count_shim(const std::string& path);

}  // namespace kvkeep::bench
