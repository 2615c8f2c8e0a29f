#pragma once

// The memory of handlers, within bounds: values computed from texts, ids of pieces of prompts, parts of files, the
// order of keys, the lines that the log has, and the thoughts that clients may end.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "base/mutex.h"
#include "base/types.h"
#include "engine/projector.h"

namespace kvkeep::server {

// Remembers values computed from texts. Entries are found by their whole text: there is no hash to trust. The least
// recently used leave when the limit is reached. Each tenant has entries of its own, because a hit takes less time and
// could be noticed. Thread safe; a value stays valid as long as a caller holds it.
template <class Value>
class TextMemo {
 public:
  // `limit`: bytes of texts and values together.
  explicit TextMemo(ByteCount limit) : limit_(limit.value()) {}

  // Returns null if the text is not remembered.
  std::shared_ptr<const Value> find(std::string_view text, const Tenant& tenant = kNoTenant) {
    const Key key(text, tenant);
    MutexLock lock(mutex_);
    const auto found = by_text_.find(key.bytes());
    if (found == by_text_.end()) return nullptr;
    entries_.splice(entries_.begin(), entries_, found->second);
    return found->second->value;
  }

  // `value_bytes` is the size of the value. An entry of more than an eighth of the limit is not remembered.
  void remember(std::string_view text, Value value, std::size_t value_bytes, const Tenant& tenant = kNoTenant) {
    const Key key(text, tenant);
    Entry entry{std::string(key.bytes()), std::make_shared<const Value>(std::move(value)),
                kOverheadBytes + key.bytes().size() + value_bytes};
    if (entry.bytes > limit_ / kLargestShare) return;
    MutexLock lock(mutex_);
    if (by_text_.contains(entry.text)) return;  // another thread was faster
    bytes_ += entry.bytes;
    entries_.push_front(std::move(entry));
    by_text_.emplace(entries_.front().text, entries_.begin());
    while (bytes_ > limit_) {
      bytes_ -= entries_.back().bytes;
      by_text_.erase(entries_.back().text);
      entries_.pop_back();
    }
  }

  ByteCount size() const {
    MutexLock lock(mutex_);
    return ByteCount{bytes_};
  }

 private:
  static constexpr std::size_t kOverheadBytes = 200;  // of an entry, in list and map
  static constexpr std::size_t kLargestShare = 8;

  // A text without a tenant as it is; a tenant's text after a byte that begins no text, since all texts are UTF-8.
  class Key {
   public:
    Key(std::string_view text, const Tenant& tenant) : bytes_(text) {
      if (tenant == kNoTenant) return;
      own_.append(1, '\xff').append(reinterpret_cast<const char*>(tenant.bytes.data()), tenant.bytes.size());
      bytes_ = own_.append(text);
    }
    Key(const Key&) = delete;
    Key& operator=(const Key&) = delete;
    std::string_view bytes() const { return bytes_; }

   private:
    std::string own_;
    std::string_view bytes_;
  };

  struct Entry {
    std::string text;  // includes the tenant
    std::shared_ptr<const Value> value;
    std::size_t bytes;
  };

  const std::size_t limit_;
  mutable Mutex mutex_;
  std::list<Entry> entries_ GUARDED_BY(mutex_);  // used last first
  // Keys are views of the entries' texts.
  std::unordered_map<std::string_view, typename std::list<Entry>::iterator> by_text_ GUARDED_BY(mutex_);
  std::size_t bytes_ GUARDED_BY(mutex_) = 0;
};

// Remembers the ids of texts between markers, so that a conversation that comes back longer is not tokenized again.
// Tokenizing takes some 150 ms per megabyte, looking a text up about one.
// See TextMemo.
class PieceMemo : public TextMemo<std::vector<TokenId>> {
 public:
  using Ids = std::shared_ptr<const std::vector<TokenId>>;

  using TextMemo::TextMemo;
  void remember(std::string_view text, std::vector<TokenId> ids, const Tenant& tenant = kNoTenant) {
    const std::size_t bytes = ids.size() * sizeof(TokenId);
    TextMemo::remember(text, std::move(ids), bytes, tenant);
  }
};

// Remembers the parts of pictures and sounds, by the hash that names their file.
using MediaMemo = TextMemo<std::vector<engine::MediaPart>>;

// The order of keys in the definitions of tools. Clients that build them anew may send the same definition in another
// order; templates print the keys in the order sent, and the prompt would part there, before everything else.
//
// A definition is printed in the order in which an equal one of the same tenant came first. No order is chosen here:
// the model always sees an order that a client wrote.
// Thread safe.
class KeyOrders {
 public:
  // `limit`: bytes of remembered definitions.
  explicit KeyOrders(ByteCount limit) : first_(limit) {}

  // Puts the keys of `value`, at every depth, into the order in which an equal value came first; the first one is
  // remembered unchanged. Elements of arrays keep their places. Cost: O(value).
  void settle(nlohmann::ordered_json& value, const Tenant& tenant = kNoTenant) {
    using Sorted = nlohmann::json;
    // Broken UTF-8 has the same text as its replacement, but is another value: keep it as it is.
    std::string sorted;
    try {
      sorted = Sorted(value).dump();
    } catch (const Sorted::exception&) {
      return;
    }
    if (const auto first = first_.find(sorted, tenant)) {
      value = *first;
      return;
    }
    first_.remember(sorted, value, sorted.size(), tenant);
  }

 private:
  TextMemo<nlohmann::ordered_json> first_;  // by the text with sorted keys
};

// Remembers which lines the log has, so that a client that repeats itself costs one line and not one per request.
//
// Clients choose the words, so that there is a bound: the first `most` different ones are logged, the last of them with
// the remark that no more follow. A client that makes up names fills neither memory nor the log.
// Thread safe.
class SaidOnce {
 public:
  enum class Say {
    kNow,
    kNowAndNoMore,  // the last one that there is room for: log that, too
    kNot,           // said before, or there is no room
  };

  explicit SaidOnce(std::size_t most) : most_(most) {}

  Say first(std::string_view words) {
    const MutexLock lock(mutex_);
    if (said_.size() >= most_ || !said_.emplace(words.substr(0, kMostBytes)).second) return Say::kNot;
    return said_.size() == most_ ? Say::kNowAndNoMore : Say::kNow;
  }

  // Only the beginning of longer words counts.
  static constexpr std::size_t kMostBytes = 256;

 private:
  const std::size_t most_;
  Mutex mutex_;
  std::set<std::string, std::less<>> said_ GUARDED_BY(mutex_);
};

// The thoughts that clients may end, by the id of the reply: each by clients with the API key that asked for it (0: the
// server has no keys).
// Thread safe.
class OpenThoughts {
 public:
  // Returns what ends the thought once it is true. The reply keeps it; when the reply is gone, so is its entry.
  std::shared_ptr<const std::atomic<bool>> open(const std::string& id, std::uint64_t key) {
    auto end_now = std::make_shared<std::atomic<bool>>(false);
    const MutexLock lock(mutex_);
    std::erase_if(open_, [](const auto& known) { return known.second.end_now.expired(); });
    open_[id] = {key, end_now};
    return end_now;
  }

  // Returns false if there is no such reply, none any more, or it is another key's.
  bool end(const std::string& id, std::uint64_t key) {
    const MutexLock lock(mutex_);
    const auto known = open_.find(id);
    if (known == open_.end() || known->second.key != key) return false;
    const std::shared_ptr<std::atomic<bool>> end_now = known->second.end_now.lock();
    if (end_now != nullptr) *end_now = true;
    return end_now != nullptr;
  }

 private:
  struct Thought {
    std::uint64_t key = 0;
    std::weak_ptr<std::atomic<bool>> end_now = {};
  };

  Mutex mutex_;
  std::map<std::string, Thought> open_ GUARDED_BY(mutex_);
};

}  // namespace kvkeep::server
