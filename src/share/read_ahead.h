#pragma once

// Reads payloads of the shared tier before they are asked for: while one is verified, or restored into the model's
// memory, the next ones arrive, over connections of their own. SharedStore verifies each before anybody sees it.
//
// A bounded number of bytes is read ahead. A read that is expected and was not begun is done by whoever asks for it, on
// that thread; without helpers all are, so that simulations need no second thread.

#include <cstdint>
#include <memory>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "os/clock.h"
#include "os/executor.h"
#include "share/shared_store.h"

namespace kvkeep::share {

// A segment or leaf to be read, and the longest that this may take by itself.
struct PatientRead {
  format::SegmentHeader segment;
  double patience_ms = 0;
};

// Thread safe.
class ReadAhead {
 public:
  using Payload = Result<std::shared_ptr<const store::Payload>>;
  // Each helper does one read at a time. The store and the helpers must outlive this object, and the helpers must be
  // drained after the last call of expect(), before it dies.
  ReadAhead(SharedStore& store, os::Clock& clock, std::vector<os::Executor*> helpers, ByteCount most);

  // These will be asked for next, in this order: begins to read them, as far as they fit. Others that were expected
  // before and have not been begun are forgotten; those that have come are kept while there is room.
  void expect(std::vector<PatientRead> reads) EXCLUDES(mutex_);
  // Returns what SharedStore::get() returns, within `limit_ms`. Waits for the read if it is under way, also for another
  // caller.
  Payload get(const PatientRead& read, double limit_ms = kAnyTime) EXCLUDES(mutex_);
  static constexpr double kAnyTime = 1e9;

  // Bytes that were read ahead and not asked for yet, and those that are being read ahead.
  ByteCount held() const EXCLUDES(mutex_);

 private:
  enum class State : std::uint8_t { kExpected, kUnderWay, kDone };
  struct Entry {
    PatientRead read;
    State state = State::kExpected;
    bool wanted = true;  // by the last call of expect()
    Payload payload = not_found("not read yet");
  };
  using EntryPtr = std::shared_ptr<Entry>;

  EntryPtr find(const format::SegmentHeader& segment) const REQUIRES(mutex_);
  // Returns false if it is still under way then.
  bool await(const EntryPtr& entry, std::int64_t until_ns) REQUIRES(mutex_);
  EntryPtr begin_directly(const PatientRead& read, EntryPtr expected) REQUIRES(mutex_);
  EntryPtr next_to_begin() REQUIRES(mutex_);
  std::size_t side_by_side(const EntryPtr& own) const REQUIRES(mutex_);
  ByteCount held_now() const REQUIRES(mutex_);
  void wake_helpers() EXCLUDES(mutex_);
  void help(std::size_t helper) EXCLUDES(mutex_);
  Payload fetch(const PatientRead& read, std::size_t side_by_side, std::int64_t until_ns);

  SharedStore& store_;
  os::Clock& clock_;
  const std::vector<os::Executor*> helpers_;
  const ByteCount most_;
  mutable Mutex mutex_;
  CondVar changed_;
  std::vector<EntryPtr> entries_ GUARDED_BY(mutex_);  // wanted ones first, in their order
  std::vector<EntryPtr> direct_ GUARDED_BY(mutex_);   // that callers of get() read themselves
  std::vector<bool> busy_ GUARDED_BY(mutex_);         // helpers that have a task
};

}  // namespace kvkeep::share
