#pragma once

// Restore or prefill in random histories: what a reply may report about loads that would be too slow.

#include <fmt/format.h>

#include <string>

#include "policy/restore.h"
#include "server/run/job.h"

namespace kvkeep::server {

// How the server decides, and how long its clock says loads take, next to prefill at a millisecond per token.
enum class Loads {
  kAlways,    // loads are made however long they take
  kAutoFast,  // by rates at which no load is slow
  kAutoSlow,  // by rates at which every load is slow
};
inline constexpr std::int64_t kPrefillMsPerToken = 1;
inline constexpr std::int64_t kSlowLoadMsPerByte = 60;

// Promises: with fast loads, none is left out; with slow loads that were measured, a load is made only as a trial,
// after four that were not. Models without rows load too little to be measured.
class LoadWatch {
 public:
  LoadWatch(Loads loads, bool has_rows, bool has_cuts) : loads_(loads), has_rows_(has_rows), has_cuts_(has_cuts) {}

  // Of the requests that come next, which were sent together, so many had a load refused: in any order, while looks at
  // them have one.
  void begin_requests(std::size_t refused) { uncounted_ = refused; }
  // Returns a fault, or "". `undisturbed`: the request was carried out without an interruption.
  std::string look(const JobStats& stats, bool undisturbed, std::size_t known_tokens) {
    const bool is_refused = stats.miss == MissReason::kLoadTooSlow;
    if (is_refused && loads_ != Loads::kAutoSlow) return "a load is called too slow where none is";
    if (is_refused && known_tokens <= stats.cached_tokens) return "a load is called too slow where nothing was there";
    const std::size_t loaded = stats.ram_tokens + stats.disk_tokens;
    std::string wrong;
    if (loads_ == Loads::kAutoSlow && undisturbed && measured() && loaded > 0 && refused_ + uncounted_ < kFirstTrial)
      wrong = fmt::format("{} tokens loaded, though loads are slow; {} were refused since the last", loaded, refused_);
    if (loaded > 0) refused_ = 0;
    if (is_refused) ++refused_, --uncounted_;
    // Two calls at most, and few enough cuts that one slice is long enough.
    next_.load |= has_rows_ && loaded >= kMeasuredLoad;
    next_.prefill |= stats.prefilled_tokens >= (has_cuts_ ? kMeasuredWithCuts : policy::kLeastMeasuredTokens);
    if (!undisturbed) forget();
    return wrong;
  }
  // Requests that are sent together may be planned before the first of them is carried out.
  void end_of_requests() { now_ = next_; }
  // A new process has measured nothing, and loads that the test did not see do not count.
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
  std::size_t uncounted_ = 0;  // refused among those sent together, and not looked at yet
};

}  // namespace kvkeep::server
