#pragma once

// How much prefill the cache has spared: since this server started, and since its directory exists.
//
// The sums of earlier servers lie in a small file next to the cache. It is replaced now and then and at the end; if the
// process is killed, the work of the last minute is not counted; a damaged file is begun anew. While another server
// writes the file of this model, this one's work is counted only in its memory; once it may write, it adds its work to
// what that server left there.

#include <cstdint>
#include <functional>
#include <string>

#include "base/mutex.h"
#include "format/notes.h"
#include "os/file_system.h"

namespace kvkeep::server {

struct SchedulerStats;

// Prefill that was done and prefill that was spared. Plain data.
struct Work {
  std::uint64_t reused_tokens = 0;     // by requests of clients
  double load_ms = 0;                  // that took the reading and restoring for them
  std::uint64_t prefilled_tokens = 0;  // by all model calls, those of prefills ahead included
  double prefill_ms = 0;               // that took these calls
  double saved_ms = 0;                 // of prefill that the reused tokens spared, by Savings

  void add(const Work& more);
  void subtract(const Work& part);
};

// Without the time that was saved.
Work work_of(const SchedulerStats& stats);

// The time that prefilling the reused tokens of `part` would have taken at the mean rate of all prefill, less the time
// of loading them, in milliseconds; at most 0 if loading took longer, or the rate is not known. An estimate: a token
// costs more the more tokens are before it, and reused ones are before prefilled ones.
double estimate_saved_ms(const Work& part, const Work& all);

// Of a file that servers keep; all zeros if there is none, or it cannot be read.
Work read_kept_work(os::FileSystem& files, const std::string& path);

struct SavingsOptions {
  std::string path = {};  // of the file; "": there is none
  // Returns false while another server writes the file. Null: no other server does. Must outlive the savings.
  std::function<bool()> may_write = {};
  std::int64_t now_ns = 0;  // by the wall clock
};

// The time that a request saved is estimated once, at the rate that is known when it is looked at first, so that the
// sum never shrinks: a later prefill may be faster, but it is too late then. If loading took longer than prefilling,
// the difference is taken from the next time that something is saved. Thread safe.
class Savings {
 public:
  Savings(SavingsOptions options, os::FileSystem& files);

  struct Sums {
    Work own;   // of this server
    Work ever;  // of earlier servers and of this one
  };
  // `now`: this server's work so far, by work_of().
  Sums sums(const Work& now);
  // When the first of these servers started, in nanoseconds by the wall clock.
  std::int64_t since_ns() const;
  // Writes the file, unless nothing was done since it was written. May wait for the disk.
  void keep(const Work& now);

 private:
  // What the file holds is the sum to which this server's work is added.
  void begin_with(const format::WorkRecord& record, const Work& own) EXCLUDES(base_mutex_);
  Work all(const Work& now) const REQUIRES(base_mutex_);

  const SavingsOptions options_;
  os::FileSystem& files_;

  mutable Mutex base_mutex_;
  Work before_ GUARDED_BY(base_mutex_);  // by the file when it was read last
  Work own_ GUARDED_BY(base_mutex_);     // of that, this server's
  std::int64_t since_ns_ GUARDED_BY(base_mutex_);
  Work estimated_ GUARDED_BY(base_mutex_);       // this server's work whose saved time is known
  double saved_ms_ GUARDED_BY(base_mutex_) = 0;  // that it saved

  Mutex mutex_;                                     // held while the file is written
  bool waits_for_file_ GUARDED_BY(mutex_) = false;  // another server may have written it since it was read
  Work kept_ GUARDED_BY(mutex_);                    // this server's work that is in the file
  format::WorkRecord written_ GUARDED_BY(mutex_);
  bool reported_failure_ GUARDED_BY(mutex_) = false;
};

}  // namespace kvkeep::server
