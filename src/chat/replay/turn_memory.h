#pragma once

// How assistant turns were really sampled: their ids, found by the prompt they were sampled after.

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
  // From the marker that opens the turn: what the prompt opened it with, and what was sampled. The token that ended it
  // is the last, if one did; otherwise it was cut short.
  std::vector<TokenId> ids;
  // The names under which clients were told its calls, in order.
  std::vector<std::string> call_ids;
  bool operator==(const SampledTurn&) const = default;
};

// Bounded; the least recently used turns leave. Not thread safe.
class TurnMemory {
 public:
  using Turn = std::shared_ptr<const SampledTurn>;
  // Turns sampled after the same prompt that are remembered; of more the oldest leaves.
  static constexpr std::size_t kTurnsPerPrompt = 4;

  explicit TurnMemory(ByteCount limit) : limit_(limit.value()) {}

  // `before`: the hash of the prompt's ids up to the turn's opening. A turn that is known becomes the newest again.
  // False: it was known, or is larger than a sixteenth of the limit; there is nothing to be written down.
  bool remember(const PrefixHash& before, SampledTurn turn);
  // Newest first.
  std::vector<Turn> find(const PrefixHash& before);

  struct Entry {
    PrefixHash before;
    Turn turn;
  };
  // All, least recently used first: remembered in this order they give the same memory.
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
