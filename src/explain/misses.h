#pragma once

// Misses: requests of whose prompts many tokens were not reused, added up by the kind of their break.
//
// Offenders (offenders.h) tell what was computed twice. Here text that came for the first time counts as well, so that
// each miss of a recording has one kind, and the counts of all kinds add up to the misses. Not thread safe.

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "explain/cache_break.h"

namespace kvkeep::explain {

class Misses {
 public:
  // Requests that missed no more are none: a turn of a conversation brings about so much text.
  static constexpr std::size_t kBeyond = 100;

  struct Kind {
    std::string kind;  // to_string(BreakKind); "none": without an explanation
    std::string what;  // to_string(VolatileText) of a volatile text, else ""
    std::uint64_t requests = 0;
    std::uint64_t tokens = 0;       // of their prompts that were not reused
    std::uint64_t lost_tokens = 0;  // of these, as far as that is known, those that were computed before
    bool operator==(const Kind&) const = default;
  };

  // A request ended, of whose prompt `tokens` were not reused.
  void count(const CacheBreak& found, std::size_t tokens);
  // The same with the names of a trace. More lost tokens than `tokens` count as `tokens`.
  void count(std::string_view kind, std::string_view what, std::uint64_t tokens, std::uint64_t lost_tokens);
  void merge(const Misses& other);

  std::uint64_t requests() const { return requests_; }  // counted, with those that missed less
  std::uint64_t misses() const;
  std::uint64_t tokens() const;       // of the misses
  std::vector<Kind> by_kind() const;  // the one with most tokens first

 private:
  std::uint64_t requests_ = 0;
  std::map<std::pair<std::string, std::string>, Kind> kinds_;
};

// "Misses beyond 100 tokens: 3 of 84 requests, 1,234 tokens", then a table of the kinds if there are any.
std::string misses_text(const Misses& misses, std::size_t most_columns);

}  // namespace kvkeep::explain
