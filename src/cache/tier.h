#pragma once

// A tier as the cache sees it: a port. RAM and disk implement it. A further tier, asynchronous, fallible, on another
// machine, is one class and one line where tiers are listed (Cache's constructor, FurtherTier).
//
// A tier keeps bytes under names and knows nothing of prefixes, of their users, or of the reason for a call. The cache
// knows which segments have a copy where (segment_table.h), and an Evictor for each tier chooses what leaves it.

#include <cstdint>
#include <memory>
#include <string_view>

#include "base/result.h"
#include "base/types.h"
#include "format/segment_file.h"
#include "os/executor.h"
#include "store/ram_store.h"

namespace kvkeep::cache {

// A tier's place in the list, the fastest first.
class TierId : public Strong<struct TierIdTag, std::uint8_t> {
 public:
  using Strong::Strong;
};
inline constexpr TierId kRamTier{0};
inline constexpr TierId kDiskTier{1};
inline constexpr TierId kFirstFurtherTier{2};
inline constexpr TierId kSharedTier{3};  // see SharedTier (tiers.h)
inline constexpr std::size_t kMostTiers = 4;

// How long a tier keeps what it took, unless it is asked to drop it.
enum class Promise : std::uint8_t {
  kNone,     // it may be gone at any moment, without an error
  kProcess,  // it is there until the process ends
  kDurable,  // it is there in the next process, which finds a path from its beginning: so what continues it leaves
             // first
};

// A segment or leaf, as a tier is asked for it. Its number is valid in this process. drop() needs only its name.
struct TierItem {
  SegmentId segment;
  format::SegmentHeader header;
};

// The time of a load at a tier from which reading may take longer than prefilling.
struct LoadTime {
  double allowed_ms = 0;  // for all that it reads there, by patience_ms()
  double asked_ms = 0;    // the same for what it read so far
  double spent_ms = 0;    // by its reads so far, and by waiting for others' loads
};

// Thread safe.
class TierPort {
 public:
  using Bytes = std::shared_ptr<const store::Payload>;
  virtual ~TierPort() = default;

  virtual std::string_view name() const = 0;
  virtual Promise promise() const = 0;
  // Returns true if other servers drop things there as well: a missing copy is no damage then.
  virtual bool others_drop() const { return false; }
  // Neither waits. used() may exceed the budget: after a start with a smaller one, or (RAM) while a disk lags.
  virtual ByteCount used() const = 0;
  virtual ByteCount budget() const = 0;

  // These may wait, and are never called with the cache's lock. A refusal is an error of kNoSpace or kIo; refused bytes
  // are not there.
  virtual Status put(const TierItem& item, const Bytes& bytes) = 0;
  // Returns exactly the bytes that were put. Fails with kNotFound if they are not there (any more), kDamaged if they
  // are lost for good, kIo if the caller may try again.
  virtual Result<Bytes> get(const TierItem& item) = 0;
  // The same as a part of a load: fails with kIo if its time is spent. Counts what is asked, the caller what is spent.
  virtual Result<Bytes> get_in_time(const TierItem& item, LoadTime& /*time*/) { return get(item); }
  // How long a read of this may take, because prefilling is faster then; 0: as long as it takes.
  virtual double patience_ms(const TierItem& /*item*/) const { return 0; }
  // Succeeds if it is not there.
  virtual Status drop(const TierItem& item) = 0;

  // Returns true if expect() is of use: each read takes long, and several may go on at once.
  virtual bool reads_ahead() const { return false; }
  // These will be asked for next, in this order, and nothing else that was expected before. Does not wait.
  virtual void expect(const std::vector<TierItem>& /*items*/) {}
  // The least milliseconds that so many bytes took to come, also if they were read before get() was called.
  virtual double least_read_ms(ByteCount) const { return 0; }
};

// A tier below RAM, and the executors of its work: puts and drops on `writer`, in order, gets on `reader`, which may
// run several side by side.
struct LowerTier {
  TierId id;
  TierPort* port;
  os::Executor* writer;
  os::Executor* reader;
};

// A tier below RAM and disk, as a cache is given it. The executors must outlive the cache.
struct FurtherTier {
  std::unique_ptr<TierPort> port;
  os::Executor& writer;
  os::Executor& reader;
};

}  // namespace kvkeep::cache
