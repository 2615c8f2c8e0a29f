// refused: nodiscard|ignoring return
// The same for a result that carries a value.
#include "base/result.h"

namespace kvkeep {

Result<int> load() { return 7; }

Result<int> caller() {
#ifdef MISUSE
  load();
#endif
  TRY_ASSIGN(const int loaded, load());
  return loaded;
}

}  // namespace kvkeep
