#include "testing/sim/fault_plan.h"

namespace kvkeep::sim {

void FaultInjector::set_plan(FaultPlan plan) {
  plan_ = plan;
  operations_ = 0;
  aimed_at_ = 0;
  fired_ = false;
}

FaultInjector::Outcome FaultInjector::next(Operation operation) {
  if (crashed_) return Outcome::kFails;
  ++operations_;
  if (plan_.kind == FaultKind::kNone || !plan_.of.contains(operation)) return Outcome::kWorks;
  ++aimed_at_;
  const bool hit = plan_.kind == FaultKind::kFailForever || plan_.kind == FaultKind::kDiskFull
                       ? aimed_at_ >= plan_.at_operation
                       : aimed_at_ == plan_.at_operation;
  if (!hit) return Outcome::kWorks;
  fired_ = true;
  switch (plan_.kind) {
    case FaultKind::kCrash: crashed_ = true; return Outcome::kDies;
    case FaultKind::kDiskFull: return Outcome::kWorks;  // as long as there is space
    case FaultKind::kShortRead:
    case FaultKind::kRot: return Outcome::kSpoils;
    case FaultKind::kSlow: return Outcome::kStalls;
    default: return Outcome::kFails;
  }
}

ErrorKind FaultInjector::error_kind() const {
  const bool space = plan_.kind == FaultKind::kNoSpaceOnce || plan_.kind == FaultKind::kDiskFull;
  return space && !crashed_ ? ErrorKind::kNoSpace : ErrorKind::kIo;
}

}  // namespace kvkeep::sim
