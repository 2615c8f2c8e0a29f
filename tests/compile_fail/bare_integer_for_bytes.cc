// refused: ByteCount
// A bare number says no unit: is 512 bytes or mebibytes?
#include "base/types.h"

namespace kvkeep {

bool fits(ByteCount size) { return size < mebibytes(1); }

bool caller() {
#ifdef MISUSE
  return fits(512);
#else
  return fits(ByteCount{512});
#endif
}

}  // namespace kvkeep
