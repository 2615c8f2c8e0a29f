#include "cache/mutations.h"

namespace kvkeep::cache {

const Mutations& mutations() {
  static constexpr Mutations kNone;
  return kNone;
}

}  // namespace kvkeep::cache
