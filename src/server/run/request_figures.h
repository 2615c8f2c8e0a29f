#pragma once

// Sums over requests for monitors: where the tokens of prompts came from, why no more was reused, how requests ended,
// the state that was moved for them, and how long each step took. Part of SchedulerStats, under the inbox's lock.

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/figures.h"
#include "base/hash.h"
#include "server/run/job.h"

namespace kvkeep::explain {
struct CacheBreak;
}

namespace kvkeep::server {

// As many as explain::kBreakKinds, whose header this one need not pull in.
inline constexpr std::size_t kExplainedKinds = 21;

// Tokens of a prompt that one model call prefilled, and of these:
struct PrefilledTokens {
  MissReason why = MissReason::kNothingCached;  // no more of the prompt was reused
  std::size_t all = 0;
  std::size_t unseen = 0;  // the cache had never seen them after their prefix
  // Were computed before, after the same text or, as far as an explanation tells, after another one (found_break.h).
  std::size_t again = 0;
};

struct RequestFigures {
  // Prompts and tokens for which a reason stands.
  struct Missed {
    std::uint64_t prompts = 0;
    std::uint64_t tokens = 0;  // of these prompts, prefilled so far
  };

  // Requests with an explanation of a kind, and what they lost by it.
  struct Broken {
    std::uint64_t requests = 0;
    std::uint64_t lost_tokens = 0;
  };

  // Tokens of prompts by source, as far as requests have started. SchedulerStats::prefilled_tokens are the others.
  std::uint64_t memory_tokens = 0;
  std::uint64_t ram_tokens = 0;
  std::uint64_t disk_tokens = 0;
  std::uint64_t shared_tokens = 0;
  std::uint64_t new_tokens = 0;                  // of the prefilled ones, see PrefilledTokens::unseen
  std::uint64_t again_tokens = 0;                // of the prefilled ones, see PrefilledTokens
  std::uint64_t reused_tokens = 0;               // by requests of clients, prefills ahead left out
  double reuse_load_ms = 0;                      // that reading and restoring took for these
  std::array<Missed, kMissReasons> missed{};     // by MissReason
  std::array<Broken, kExplainedKinds> breaks{};  // by BreakKind, of requests that ended
  std::array<std::uint64_t, kFinishes> ends{};   // requests by Finish
  std::uint64_t failed_reads = 0;                // requests that state could not be read for
  std::uint64_t refused_restores = 0;            // requests whose state the model's memory did not take
  std::uint64_t failed_calls = 0;                // model calls, counted for each request in them
  Moved read;                                    // from disk, before it was restored; of ended requests
  Moved shared_read;                             // from the shared tier, before it was restored; of ended requests
  Moved restored;                                // into the model's memory; of ended requests
  Moved captured;                                // out of it

  // In seconds.
  StepTimes queue;        // until a request starts
  StepTimes load;         // reading and restoring, of requests that restored something
  StepTimes slice;        // of prefill
  StepTimes first_token;  // from the request's arrival on
  StepTimes token_gap;    // between two tokens of a reply

  // The state that is reused is in the model's memory now, and `stats` say how much it is.
  // `ahead`: it is a prefill ahead, for which no client waits.
  void note_start(const JobStats& stats, bool ahead);
  // A model call prefilled these tokens.
  void note_prefilled(const PrefilledTokens& tokens, double ms);
  // The last token of `stats`, `gap_ms` after the one before it.
  void note_token(const JobStats& stats, double gap_ms);
  void note_end(Finish how, const JobStats& stats);
  // The request that ended was explained so (found_break.h, at_end()).
  void note_break(const explain::CacheBreak& found);
};

// The same for each tenant, for people who look at a running server (GET /cache). A tenant is shown by the number in
// which it first came: its salt, or anything by which a salt could be guessed, is not shown.
struct TenantFigures {
  Tenant tenant = kNoTenant;
  std::uint64_t number = 0;    // in the order in which tenants came, from 1 on; kNoTenant is counted like others
  std::uint64_t requests = 0;  // that ended
  std::uint64_t prompt_tokens = 0;
  std::uint64_t cached_tokens = 0;
  std::uint64_t prefilled_tokens = 0;
  std::uint64_t predicted_tokens = 0;
  std::int64_t last_ns = 0;  // when the last one ended, by the wall clock
};

// Bounded: of too many tenants the one leaves whose last request ended first. Not thread safe.
class TenantSums {
 public:
  static constexpr std::size_t kMostTenants = 64;

  // A request with these statistics ended.
  void note_end(const Tenant& tenant, const JobStats& stats, std::int64_t now_ns);
  // The one whose request ended last comes first.
  const std::vector<TenantFigures>& all() const { return tenants_; }
  // Tenants that left.
  std::uint64_t forgotten() const { return numbers_ - tenants_.size(); }

 private:
  std::vector<TenantFigures> tenants_;
  std::uint64_t numbers_ = 0;
};

}  // namespace kvkeep::server
