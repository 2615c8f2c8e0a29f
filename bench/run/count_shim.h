#pragma once

// The counting shim (bench/count_shim/count_shim.cc), as bytes in this program: an installed kvkeep needs no file next
// to it.

#include <string>

#include "base/result.h"
#include "base/types.h"

namespace kvkeep::bench {

// A shared library, to be preloaded (LD_PRELOAD) into a server. With KVKEEP_COUNT_FILE in its environment, that file
// has the number of ids that the server gave to libllama, even after kill -9; bench/count_shim/count_shim.cc has its
// format.
// A server that links libllama statically cannot be counted: its count stays 0.
ByteSpan count_shim();

// Writes it to `path`, which must be a new file.
Status write_count_shim(const std::string& path);

}  // namespace kvkeep::bench
