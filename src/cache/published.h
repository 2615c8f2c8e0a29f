#pragma once

// Marks of segments and leaves that were offered to the shared tier, or found there. The tier may have lost them by
// now: a mark only saves offering a path again and again. When the tier turns out to lack something, it may lack more,
// and all marks are in doubt: whole paths are then offered anew as they grow, and the store asks for each object before
// it writes.

#include <cstdint>
#include <vector>

#include "base/types.h"
#include "cache/segment_table.h"

namespace kvkeep::cache {

class Published {
 public:
  explicit Published(const SegmentTable& table) : table_(table) {}

  void add(SegmentId segment) REQUIRES(kCacheLock) {
    if (segment.value() >= marks_.size()) marks_.resize(segment.value() + 1);
    marks_[segment.value()] = {table_.entry(segment).serial, doubts_};
  }
  // Numbers of segments are used again; their serials are not.
  bool has(SegmentId segment) const REQUIRES(kCacheLock) {
    if (segment.value() >= marks_.size()) return false;
    const Mark& mark = marks_[segment.value()];
    return mark.serial != 0 && mark.serial == table_.entry(segment).serial && mark.doubts == doubts_;
  }
  void doubt() REQUIRES(kCacheLock) { ++doubts_; }

 private:
  struct Mark {
    std::uint64_t serial = 0;
    std::uint64_t doubts = 0;  // before it was made
  };
  const SegmentTable& table_;
  std::vector<Mark> marks_ GUARDED_BY(kCacheLock);  // by segment
  std::uint64_t doubts_ GUARDED_BY(kCacheLock) = 0;
};

}  // namespace kvkeep::cache
