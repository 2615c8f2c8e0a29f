#pragma once

// Restore or prefill in random histories: what a reply may say of loads that would be too slow.

#include <fmt/format.h>

#include <string>

#include "policy/restore.h"
#include "server/run/job.h"

namespace kvkeep::server {

// How the server decides, and what its clock says of loads beside prefill (a millisecond per token).
enum class Loads {
  kAlways,    // whatever they take
  kAutoFast,  // by rates, under which no load is slow
  kAutoSlow,  // by rates, under which every load is
};
inline constexpr std::int64_t kPrefillMsPerToken = 1;
inline constexpr std::int64_t kSlowLoadMsPerByte = 60;

// Promises: nothing is left aside where loads are fast; where they are slow and that was measured, a load is made only
// as a trial, after four that were not. Models without rows load too little to be measured.
class LoadWatch {
 public:
  LoadWatch(Loads loads, bool has_rows, bool has_cuts) : loads_(loads), has_rows_(has_rows), has_cuts_(has_cuts) {}

  // Empty, or what is wrong. `undisturbed`: the request was carried out in one go.
  std::string look(const JobStats& stats, bool undisturbed, std::size_t known_tokens) {
    const bool is_refused = stats.miss == MissReason::kLoadTooSlow;
    if (is_refused && loads_ != Loads::kAutoSlow) return "a load is called too slow where none is";
    if (is_refused && known_tokens <= stats.cached_tokens) return "a load is called too slow where nothing was there";
    const std::size_t loaded = stats.ram_tokens + stats.disk_tokens;
    std::string wrong;
    if (loads_ == Loads::kAutoSlow && undisturbed && measured() && loaded > 0 && refused_ < kFirstTrial)
      wrong = fmt::format("{} tokens loaded, though loads are slow; {} were refused since the last", loaded, refused_);
    if (loaded > 0) refused_ = 0;
    if (is_refused) ++refused_;
    // Two calls at most; and at most so many cuts that one slice is long enough.
    next_.load |= has_rows_ && loaded >= kMeasuredLoad;
    next_.prefill |= stats.prefilled_tokens >= (has_cuts_ ? kMeasuredWithCuts : policy::kLeastMeasuredTokens);
    if (!undisturbed) forget();
    return wrong;
  }
  // Requests that are asked together may be planned before the first of them is carried out.
  void end_of_requests() { now_ = next_; }
  // A new process has measured nothing; and what happened unseen counts for nothing.
  void forget() {
    now_ = next_ = {};
    refused_ = 0;
  }

 private:
  static constexpr std::size_t kFirstTrial = 4;
  static constexpr std::size_t kMeasuredLoad = 80;
  static constexpr std::size_t kMeasuredWithCuts = 250;

  struct Measured {
    bool load = false;
    bool prefill = false;
  };
  bool measured() const { return now_.load && now_.prefill; }

  const Loads loads_;
  const bool has_rows_;
  const bool has_cuts_;
  Measured now_;
  Measured next_;
  std::size_t refused_ = 0;
};

}  // namespace kvkeep::server
