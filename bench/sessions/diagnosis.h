#pragma once

// Why each request of a recording would reuse no more of the earlier ones: what a server would explain
// (explain/cache_break.h), found without a server and without a model.
//
// A request is its canonical text (canonical.h), cut into words: prompts that continue each other share their words as
// they would share tokens. JSON counts as it was sent: an argument in another place is a difference. Counts are of
// words, about as many as tokens. Each request is compared with the earlier one that it shares most with, of the last
// kMostCompared.

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "bench/sessions/session.h"
#include "explain/cache_break.h"
#include "explain/misses.h"
#include "explain/offenders.h"

namespace kvkeep::bench {

inline constexpr std::size_t kMostCompared = 64;

struct DiagnosedRequest {
  std::string label = {};
  std::size_t words = 0;
  std::size_t known = 0;  // of them, those that the nearest earlier request begins with
  explain::CacheBreak found = {};
  std::string before = {};  // the line that differs, up to the difference
  std::string here = {};    // a few words from the difference on, on both sides
  std::string there = {};
};

struct Diagnosis {
  std::vector<DiagnosedRequest> requests = {};
  explain::Misses misses = {};
  explain::Offenders offenders = {};
};

// Remembers the requests of the recordings that it has seen, as a server would that all of them are played on.
class Diagnoser {
 public:
  // `keeps_billing_line`: of a server without --stabilize billing-line, Claude Code's line is a part of prompts.
  explicit Diagnoser(bool keeps_billing_line = false);
  ~Diagnoser();
  Diagnoser(const Diagnoser&) = delete;
  Diagnoser& operator=(const Diagnoser&) = delete;

  // Requests without a prompt (GET, token counting) are left out.
  Diagnosis diagnose(const Session& session);

 private:
  class Memory;
  const std::unique_ptr<Memory> memory_;
};

// A trace of kvkeep's, whose lines say already why. Returns its requests as sums of their `cache_break`, without
// `requests`; nullopt if the text is no trace, or one without explanations.
std::optional<Diagnosis> read_trace(std::string_view text);

}  // namespace kvkeep::bench
