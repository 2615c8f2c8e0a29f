#include "base/checksum.h"

namespace kvkeep {

Checksum checksum(ByteSpan bytes) {
  const XXH128_hash_t sum = XXH3_128bits(bytes.data(), bytes.size());
  return {sum.low64, sum.high64};
}

}  // namespace kvkeep
