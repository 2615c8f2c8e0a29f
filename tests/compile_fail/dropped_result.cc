// refused: nodiscard|ignoring return
// An operating error that nobody looks at would be a silent failure.
#include "base/result.h"

namespace kvkeep {

Status save() { return io_error("the disk is gone"); }

Status caller() {
#ifdef MISUSE
  save();
#else
  TRY(save());
#endif
  return {};
}

}  // namespace kvkeep
