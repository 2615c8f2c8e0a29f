#pragma once

// Why each request of a recording would reuse no more of the earlier ones: what a server would explain
// (explain/cache_break.h), found without a server and without a model.
//
// A request is its canonical text (canonical.h), cut into words: prompts that continue each other share their words as
// they would share tokens. Counts are of words, about as many as tokens. Each request is compared with the earlier one
// that it shares most with, of the last kMostCompared.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "bench/sessions/session.h"
#include "explain/cache_break.h"
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
  std::vector<DiagnosedRequest> requests;
  explain::Offenders offenders;
};

// Requests without a prompt (GET, token counting) are left out.
Diagnosis diagnose(const Session& session);

// Reads a trace of kvkeep's, whose lines say already why: adds up their `cache_break`. Returns false if the text is no
// trace, or one without explanations.
bool add_trace(std::string_view text, explain::Offenders& offenders);

}  // namespace kvkeep::bench
