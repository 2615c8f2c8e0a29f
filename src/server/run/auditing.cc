// When the scheduler lets the audit work, and what becomes of what it finds.

#include <utility>

#include "server/run/scheduler.h"

namespace kvkeep::server {

// What is in the model's memory may have come from what is wrong.
void Scheduler::heed_distrust() {
  if (!cache_.distrusted() || std::exchange(heeded_distrust_, true)) return;
  for (std::size_t i = 0; i < sequences_.size(); ++i) {
    if (sequences_[i].state == Sequence::State::kIdle) clear(SeqId{static_cast<std::int32_t>(i)});
  }
}

// Whatever is under way or waits goes before.
void Scheduler::audit() {
  if (!active_.empty() || !waiting_.empty()) return note_audit(audit_.disturb());
  note_audit(audit_.step(free_sequence(), ahead_slice_tokens()));
}

void Scheduler::note_audit(const std::optional<AuditReport>& report) {
  if (!report) return;
  {
    MutexLock lock(mutex_);
    stats_.audits.add(report->outcome);
  }
  if (options_.trace != nullptr) options_.trace->on_audit(*report);
  heed_distrust();
}

}  // namespace kvkeep::server
