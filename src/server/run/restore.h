#pragma once

// The state that one request takes from the cache, unit by unit: rows on disk are read window by window, rows are put
// into the model's memory as they arrive, and the point or window comes last.
//
// A Restore decides and remembers; its owner reads, and puts into the model's memory, what next() returns. It lives as
// long as its request, which may start several times: a unit that failed is not tried again. Not thread safe: while a
// read runs, only the cache touches the lease.

#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "cache/cache_options.h"
#include "cache/lease.h"
#include "server/run/job.h"

namespace kvkeep::cache {
class Cache;
}

namespace kvkeep::server {

struct RestoreUnit {
  enum class Kind {
    kNone,   // all is restored
    kRead,   // read rows of `range` from disk, and the state wanted at `point`
    kRows,   // put rows of `range` into the model's memory
    kPoint,  // put the state at `point` into the model's memory
  } kind = Kind::kNone;
  TokenRange range = {};
  std::optional<Position> point = {};
};

// How much is taken at a time.
struct RestoreSteps {
  ByteCount most_read;
  ByteCount most_put = ByteCount{std::numeric_limits<std::uint64_t>::max()};
  // All rows are put in one unit: each one would copy those that are there (cache::ModelMemory::own_cells).
  bool rows_at_once = false;
};

class Restore {
 public:
  // Begins to take rows up to `to` from the lease, and with `point` also the state at `to`. The lease may be null if
  // nothing is taken.
  void begin(std::shared_ptr<cache::Lease> lease, Position to, bool point);
  // Lets go of the lease. A read that is under way keeps it until it is done.
  void end() { lease_.reset(); }
  // The request ended while a read is under way: the read stops soon. The lease must stay until it has.
  void abandon() { lease_->abandon(); }
  const std::shared_ptr<cache::Lease>& lease() const { return lease_; }
  Position to() const { return to_; }

  // Returns the next unit for a sequence that holds [0, from), of about the bytes of a step.
  RestoreUnit next(Position from, const RestoreSteps& steps) const;
  // Returns the bytes of a kRows or kPoint unit, valid while the lease lives.
  std::vector<cache::RowPiece> pieces(const RestoreUnit& unit) const;
  // A unit was put into memory: lets go of the payloads of its rows.
  void note_done(const RestoreUnit& unit);
  // Counts a unit by tier. `rowless`: the model's rows have no bytes, so that all tokens come with the point.
  void count(const RestoreUnit& unit, bool rowless, JobStats& stats) const;

  void note_failed_read(JobStats& stats) {
    miss_ = MissReason::kLoadFailed;
    ++stats.failed_reads;
  }
  // Call after a failed read, for a sequence that holds [0, from). Returns true if the state before the failure is
  // taken, false if another plan must be made.
  bool shorten(Position from);
  // The model's memory refused a unit: nothing more is taken from the cache. Reports damaged bytes to the cache, since
  // they would be refused next time, too.
  void give_up(const RestoreUnit& unit, const Error& error, cache::Cache& cache, JobStats& stats);
  bool gave_up() const { return gave_up_; }
  // Why less was taken than the cache knows, if a unit failed.
  const std::optional<MissReason>& miss() const { return miss_; }

 private:
  Position put_end(Position from, Position ready, ByteCount most) const;

  std::shared_ptr<cache::Lease> lease_;
  Position to_;
  bool point_ = false;
  int failed_reads_ = 0;
  bool gave_up_ = false;
  std::optional<MissReason> miss_;
};

}  // namespace kvkeep::server
