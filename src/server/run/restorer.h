#pragma once

// Carries out restores (restore.h): reads what lies on disk, and puts rows and points that lie in RAM into the model's
// memory. While others decode, it does so in turns, between two of their tokens: a turn lasts about as long as a slice
// of prefill. Engine thread only.

#include <functional>
#include <limits>

#include "base/types.h"
#include "os/clock.h"
#include "policy/restore.h"
#include "server/run/request.h"

namespace kvkeep::cache {
class Cache;
class ModelMemory;
}  // namespace kvkeep::cache

namespace kvkeep::server {

class Inbox;
class Sequences;

struct RestorerOptions {
  ByteCount load_window;  // bytes that are read from disk at a time
  double slice_ms = 0;    // of a turn; 0: a turn puts `load_window` bytes
};

// The time in which units are put into the model's memory. A unit that began is put whole.
struct RestoreTurn {
  static constexpr double kNoLimit = std::numeric_limits<double>::infinity();

  double most_ms = kNoLimit;
  double spent_ms = 0;
  std::size_t units = 0;  // that were put
  bool over = false;      // nothing more is put

  bool limited() const { return most_ms < kNoLimit; }
};

class Restorer {
 public:
  enum class Outcome {
    kDone,     // all is restored
    kReads,    // a read is under way, which ends in Inbox::deliver
    kPaused,   // it goes on in a later turn
    kNoCells,  // for the next unit
    kRefused,  // the model's memory refused a unit
  };

  // All arguments must outlive this. `find_cells` makes so many cells free for a request, or returns false.
  Restorer(const RestorerOptions& options, cache::ModelMemory& memory, Sequences& sequences, cache::Cache& cache,
           os::Clock& clock, Inbox& inbox, policy::RateMeter& rates,
           std::function<bool(const Request&, std::size_t count)> find_cells);

  // `shared`: others decode, and wait for the end of the turn.
  RestoreTurn begin_turn(bool shared) const;
  // Carries out the units of the request's restore until a read begins, or the turn is over.
  Outcome go_on(Request& request, RestoreTurn& turn);

 private:
  RestoreSteps steps(const RestoreTurn& turn) const;
  bool has_time(const RestoreTurn& turn, double bytes) const;
  void begin_read(Request& request, const RestoreUnit& unit);
  Outcome pause(Request& request, RestoreTurn& turn);
  bool put(Request& request, const RestoreUnit& unit);

  double ms_since(std::int64_t from_ns) const { return os::elapsed_ms(from_ns, clock_.monotonic_ns()); }

  const RestorerOptions options_;
  cache::ModelMemory& memory_;
  Sequences& sequences_;
  cache::Cache& cache_;
  os::Clock& clock_;
  Inbox& inbox_;
  policy::RateMeter& rates_;
  const std::function<bool(const Request&, std::size_t count)> find_cells_;
};

}  // namespace kvkeep::server
