#pragma once

// Where to cut a prompt because others of its client are likely to part from it: the text of its ids beside what
// policy/parting.h knows and what policy/parting_memory.h learnt. Engine thread only.

#include <cstdint>

#include "base/types.h"
#include "index/text_match.h"
#include "policy/parting.h"
#include "policy/parting_memory.h"

namespace kvkeep::server {

class Partings {
 public:
  // `texts` may be null: then nothing is found and nothing learnt. Outlives this.
  explicit Partings(const index::TokenTexts* texts) : texts_(texts) {}

  // A prompt of the client left what is known at `at`, and much before it was computed again for want of a point.
  void learn(std::uint64_t client, TokenSpan prompt, Position at);
  // Of prompt[range). Cost: O(range).
  policy::LikelyPartings find(std::uint64_t client, TokenSpan prompt, TokenRange range, Position first_answer);

 private:
  std::vector<policy::TextLine> lines(TokenSpan prompt, TokenRange range) const;

  const index::TokenTexts* texts_;
  policy::PartingMemory memory_;
};

}  // namespace kvkeep::server
