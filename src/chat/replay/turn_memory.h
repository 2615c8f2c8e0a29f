#pragma once

// How assistant turns were sampled: their ids, found by the prompt for which they were sampled.

#include <cstddef>
#include <list>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/hash.h"
#include "base/types.h"

namespace kvkeep::chat {

// One turn of the assistant.
struct SampledTurn {
  // From the marker that opens the turn: the opening in the prompt, and the sampled ids. The last is the token that
  // ended the turn, if one did; otherwise it was cut short.
  std::vector<TokenId> ids;
  // The ids of its calls as clients received them, in order.
  std::vector<std::string> call_ids;
  bool operator==(const SampledTurn&) const = default;
};

// Bounded; the least recently used turns leave. Not thread safe.
class TurnMemory {
 public:
  using Turn = std::shared_ptr<const SampledTurn>;
  // Most turns remembered for one prompt; the oldest leaves first.
  static constexpr std::size_t kTurnsPerPrompt = 4;

  explicit TurnMemory(ByteCount limit) : limit_(limit.value()) {}

  // `before`: the hash of the prompt's ids up to the turn's opening. A known turn becomes the newest again. Returns
  // false if the turn was known, or is larger than a sixteenth of the limit: then there is nothing to write down.
  bool remember(const PrefixHash& before, SampledTurn turn);
  // Newest first.
  std::vector<Turn> find(const PrefixHash& before);

  struct Entry {
    PrefixHash before;
    Turn turn;
  };
  // All entries, least recently used first: remembered in this order they give the same memory.
  std::vector<Entry> entries() const;
  std::size_t size() const { return entries_.size(); }
  ByteCount bytes() const { return ByteCount{bytes_}; }

 private:
  using Place = std::list<Entry>::iterator;
  void forget(Place place);

  const std::size_t limit_;
  std::size_t bytes_ = 0;
  std::list<Entry> entries_;                                      // used last in front
  std::unordered_map<PrefixHash, std::vector<Place>> by_prompt_;  // oldest first
};

}  // namespace kvkeep::chat
