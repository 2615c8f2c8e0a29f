#pragma once

// What one request takes from the cache, unit by unit: rows from disk are read window by window, rows are put into the
// model's memory as they arrive, and what rows cannot give comes last.
//
// A Restore decides and remembers; its owner reads, and puts into the model's memory, what next() says. It lives as
// long as its request, which may start several times: what failed once is not tried again. Not thread safe: while a
// read runs only the cache touches the lease.

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
    kRead,   // rows of `range` from disk, and what is needed at `point`
    kRows,   // rows of `range` into the model's memory
    kPoint,  // what is needed at `point` into the model's memory
  } kind = Kind::kNone;
  TokenRange range = {};
  std::optional<Position> point = {};
};

class Restore {
 public:
  // Begins to take rows up to `to` from the lease, and with `point` what is needed there. The lease may be null if
  // nothing is taken.
  void begin(std::shared_ptr<cache::Lease> lease, Position to, bool point);
  // Lets go of the lease. A read that runs keeps it until it is done.
  void end() { lease_.reset(); }
  const std::shared_ptr<cache::Lease>& lease() const { return lease_; }
  Position to() const { return to_; }

  // What is to be done for a sequence that holds [0, from). `most_read`: about so many bytes are read at a time.
  // `most_put`: about so many are put into memory at a time.
  RestoreUnit next(Position from, ByteCount most_read,
                   ByteCount most_put = ByteCount{std::numeric_limits<std::uint64_t>::max()}) const;
  // The bytes of a kRows or kPoint unit, valid while the lease lives.
  std::vector<cache::RowPiece> pieces(const RestoreUnit& unit) const;
  // A unit was put into memory. Payloads of its rows are let go of.
  void note_done(const RestoreUnit& unit);
  // Counts a unit by tier. `rowless`: the model's rows have no bytes, so that all tokens come with the point.
  void count(const RestoreUnit& unit, bool rowless, JobStats& stats) const;

  void note_failed_read() { miss_ = MissReason::kLoadFailed; }
  // After a failed read, of a sequence that holds [0, from). True: what lies before the failure is taken. False:
  // another plan is to be made.
  bool shorten(Position from);
  // The model's memory refused a unit, and nothing more is taken from the cache. Bytes that are to blame are reported:
  // they would be refused next time too.
  void give_up(const RestoreUnit& unit, const Error& error, cache::Cache& cache);
  bool gave_up() const { return gave_up_; }
  // Why less was taken than the cache knows, if something failed.
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

// Bytes of a unit's pieces that are copied.
double bytes_of(const RestoreUnit& unit, const std::vector<cache::RowPiece>& pieces);

}  // namespace kvkeep::server
