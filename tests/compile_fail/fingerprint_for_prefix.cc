// refused: FingerprintHash
// All hashes are 32 bytes; a fingerprint looked up as a prefix would simply never be found.
#include "base/hash.h"

namespace kvkeep {

bool known(const PrefixHash& name) { return name == PrefixHash{}; }

bool caller([[maybe_unused]] const FingerprintHash& fingerprint, [[maybe_unused]] const PrefixHash& prefix) {
#ifdef MISUSE
  return known(fingerprint);
#else
  return known(prefix);
#endif
}

}  // namespace kvkeep
