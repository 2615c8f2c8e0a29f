// refused: SegmentId
// Both are small integers; dropping sequence 3 because segment 3 left would lose somebody's conversation.
#include "base/types.h"

namespace kvkeep {

int drop(SeqId sequence) { return sequence.value(); }

int caller([[maybe_unused]] SegmentId segment, [[maybe_unused]] SeqId sequence) {
#ifdef MISUSE
  return drop(segment);
#else
  return drop(sequence);
#endif
}

}  // namespace kvkeep
