#pragma once

// A bounded memory of object names: what is known of them, and for how long it may be believed.

#include <cstdint>
#include <cstring>
#include <deque>
#include <optional>
#include <unordered_map>
#include <utility>

#include "base/mutex.h"
#include "share/object_engine.h"

namespace kvkeep::share {

inline constexpr std::int64_t kSecondNs = 1'000'000'000;

// Forgets the oldest entries over `most`. Thread safe; time is passed in.
template <typename Value>
class RecentNames {
 public:
  explicit RecentNames(std::size_t most) : most_(most) {}

  void put(const ObjectName& name, Value value, std::int64_t believed_until_ns) EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    if (entries_.insert_or_assign(name, Entry{std::move(value), believed_until_ns}).second) order_.push_back(name);
    // A name that was forgotten and put again is in the order twice, and leaves at its first place.
    while (order_.size() > most_) {
      entries_.erase(order_.front());
      order_.pop_front();
    }
  }
  std::optional<Value> find(const ObjectName& name, std::int64_t now_ns) const EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    const auto found = entries_.find(name);
    if (found == entries_.end() || found->second.believed_until_ns <= now_ns) return std::nullopt;
    return found->second.value;
  }
  void forget(const ObjectName& name) EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    entries_.erase(name);
  }
  std::size_t size() const EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return order_.size();
  }

 private:
  struct Entry {
    Value value;
    std::int64_t believed_until_ns;
  };
  // Digits of names are spread evenly: names are hashes.
  struct ByDigits {
    std::size_t operator()(const ObjectName& name) const {
      std::size_t first;
      std::memcpy(&first, name.id.text().data(), sizeof first);
      return first;
    }
  };
  const std::size_t most_;
  mutable Mutex mutex_;
  std::unordered_map<ObjectName, Entry, ByDigits> entries_ GUARDED_BY(mutex_);
  std::deque<ObjectName> order_ GUARDED_BY(mutex_);  // by first put
};

}  // namespace kvkeep::share
