// refused: operator ?\+|invalid operands
// Positions count tokens; budgets count bytes.
#include "base/types.h"

namespace kvkeep {

Position after(Position position, ByteCount bytes, std::size_t tokens) {
#ifdef MISUSE
  return position + bytes;
#else
  static_cast<void>(bytes);
  return position + tokens;
#endif
}

}  // namespace kvkeep
