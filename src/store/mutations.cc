#include "store/mutations.h"

namespace kvkeep::store {

const Mutations& mutations() {
  static constexpr Mutations kNone;
  return kNone;
}

}  // namespace kvkeep::store
