#include "share/read_ahead.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace kvkeep::share {
namespace {

ByteCount bytes_of(const PatientRead& read) { return ByteCount{format::payload_bytes(read.segment)}; }

}  // namespace

ReadAhead::ReadAhead(SharedStore& store, os::Clock& clock, std::vector<os::Executor*> helpers, ByteCount most)
    : store_(store), clock_(clock), helpers_(std::move(helpers)), most_(most), busy_(helpers_.size()) {}

void ReadAhead::expect(std::vector<PatientRead> reads) {
  if (helpers_.empty()) return;
  {
    const MutexLock lock(mutex_);
    std::vector<EntryPtr> entries;
    for (PatientRead& read : reads) {
      EntryPtr entry = find(read.segment);
      if (std::ranges::find(direct_, entry) != direct_.end()) continue;
      // A read that failed is tried again: the engine may be well by now.
      const bool failed = entry != nullptr && entry->state == State::kDone && !entry->payload.ok();
      if (entry == nullptr || failed) entry = std::make_shared<Entry>(Entry{.read = std::move(read)});
      entries.push_back(std::move(entry));
    }
    for (EntryPtr& old : entries_) {
      if (std::ranges::find(entries, old) != entries.end()) continue;
      old->wanted = false;
      const bool is_of_use = old->state == State::kUnderWay || (old->state == State::kDone && old->payload.ok());
      if (is_of_use && !reads.empty()) entries.push_back(std::move(old));
    }
    entries_ = std::move(entries);
  }
  wake_helpers();
}

ReadAhead::Payload ReadAhead::get(const PatientRead& read, double limit_ms) {
  const std::int64_t until_ns = clock_.monotonic_ns() + static_cast<std::int64_t>(limit_ms * 1e6);
  EntryPtr entry;
  bool reads_itself = false;
  std::size_t at_once = 1;
  {
    const MutexLock lock(mutex_);
    entry = find(read.segment);
    reads_itself = entry == nullptr || entry->state == State::kExpected;
    if (reads_itself) entry = begin_directly(read, entry);
    if (reads_itself) at_once = side_by_side(entry);
    const bool is_over = reads_itself || await(entry, until_ns);
    std::erase(entries_, entry);
    if (!is_over) return io_error("another read of it takes too long: prefilling would be faster by now");
  }
  wake_helpers();
  if (!reads_itself) return entry->payload;
  Payload payload = fetch(read, at_once, until_ns);
  const MutexLock lock(mutex_);
  entry->payload = payload;
  entry->state = State::kDone;
  std::erase(direct_, entry);
  changed_.notify_all();
  return payload;
}

bool ReadAhead::await(const EntryPtr& entry, std::int64_t until_ns) {
  while (entry->state == State::kUnderWay) {
    const std::int64_t left_ns = until_ns - clock_.monotonic_ns();
    if (left_ns <= 0) return false;
    changed_.wait_for(mutex_, std::chrono::nanoseconds(left_ns));
  }
  return true;
}

ReadAhead::EntryPtr ReadAhead::begin_directly(const PatientRead& read, EntryPtr expected) {
  if (expected == nullptr) expected = std::make_shared<Entry>(Entry{.read = read});
  expected->state = State::kUnderWay;
  direct_.push_back(expected);
  return expected;
}

ByteCount ReadAhead::held() const {
  const MutexLock lock(mutex_);
  return held_now();
}

ReadAhead::EntryPtr ReadAhead::find(const format::SegmentHeader& segment) const {
  const auto is_it = [&](const EntryPtr& entry) {
    return entry->read.segment.name == segment.name && entry->read.segment.parts == segment.parts;
  };
  const auto found = std::ranges::find_if(entries_, is_it);
  if (found != entries_.end()) return *found;
  const auto direct = std::ranges::find_if(direct_, is_it);
  return direct != direct_.end() ? *direct : nullptr;
}

ByteCount ReadAhead::held_now() const {
  ByteCount held;
  for (const EntryPtr& entry : entries_) {
    if (entry->state != State::kExpected) held += bytes_of(entry->read);
  }
  return held;
}

// A read of more bytes than may be held begins once nothing else is.
ReadAhead::EntryPtr ReadAhead::next_to_begin() {
  const auto next = std::ranges::find(entries_, State::kExpected, &Entry::state);
  if (next == entries_.end()) return nullptr;
  EntryPtr entry = *next;
  const auto fits = [&]() REQUIRES(mutex_) { return held_now() + bytes_of(entry->read) <= most_; };
  const auto is_spare = [](const EntryPtr& each) { return each->state == State::kDone && !each->wanted; };
  while (!fits()) {
    const auto spare = std::find_if(entries_.rbegin(), entries_.rend(), is_spare);
    if (spare == entries_.rend()) break;
    entries_.erase(std::next(spare).base());
  }
  return fits() || held_now() == ByteCount{} ? entry : nullptr;
}

// How many reads go on at once while this one does.
std::size_t ReadAhead::side_by_side(const EntryPtr& own) const {
  const auto is_another = [&](const EntryPtr& entry) { return entry != own && entry->state != State::kDone; };
  const auto others = static_cast<std::size_t>(std::ranges::count_if(entries_, is_another));
  const auto direct = static_cast<std::size_t>(std::ranges::count_if(direct_, is_another));
  return 1 + std::min(others, helpers_.size()) + direct;
}

void ReadAhead::wake_helpers() {
  std::vector<std::size_t> idle;
  {
    const MutexLock lock(mutex_);
    if (next_to_begin() == nullptr) return;
    for (std::size_t i = 0; i < helpers_.size(); ++i) {
      if (busy_[i]) continue;
      busy_[i] = true;
      idle.push_back(i);
    }
  }
  for (const std::size_t helper : idle) helpers_[helper]->post([this, helper] { help(helper); });
}

void ReadAhead::help(std::size_t helper) {
  for (;;) {
    EntryPtr entry;
    std::size_t at_once = 1;
    {
      const MutexLock lock(mutex_);
      entry = next_to_begin();
      if (entry == nullptr) {
        busy_[helper] = false;
        return;
      }
      entry->state = State::kUnderWay;
      at_once = side_by_side(entry);
    }
    Payload payload = fetch(entry->read, at_once, INT64_MAX);
    const MutexLock lock(mutex_);
    entry->payload = std::move(payload);
    entry->state = State::kDone;
    changed_.notify_all();
  }
}

// Reads that go on side by side share the network: each may take as long as all of them, and what they save together
// takes as much longer to prefill.
ReadAhead::Payload ReadAhead::fetch(const PatientRead& read, std::size_t side_by_side, std::int64_t until_ns) {
  const double patience_ms = read.patience_ms * static_cast<double>(side_by_side);
  const std::int64_t patient_until_ns = clock_.monotonic_ns() + static_cast<std::int64_t>(patience_ms * 1e6);
  return store_.get(read.segment, std::min(patient_until_ns, until_ns), side_by_side);
}

}  // namespace kvkeep::share
