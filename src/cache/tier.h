#pragma once

// A tier as the cache sees it: a port. RAM and disk are two of them; where they are listed (Cache's constructor,
// FurtherTier) another one is added as one class and one line: asynchronous, fallible, on another machine.
//
// A tier keeps bytes under names and knows nothing of prefixes, of who uses what, or of why it is asked. Which segments
// have a copy where is the cache's to know (segment_table.h), and what leaves a tier is chosen by an Evictor of its
// own.

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
inline constexpr std::size_t kMostTiers = 4;

// How long a tier has what it took, unless it is asked to drop it.
enum class Promise : std::uint8_t {
  kNone,     // it may be gone at any moment, without a word
  kProcess,  // it is there until the process ends
  kDurable,  // it is there in the next process, where a path is found from its beginning: what continues it leaves
             // first
};

// A segment or leaf as a tier is asked for it. Its number is one of this process. To be dropped, its name is enough.
struct TierItem {
  SegmentId segment;
  format::SegmentHeader header;
};

// Thread safe.
class TierPort {
 public:
  using Bytes = std::shared_ptr<const store::Payload>;
  virtual ~TierPort() = default;

  virtual std::string_view name() const = 0;
  virtual Promise promise() const = 0;
  // True if others drop things there as well: what is not found then is no damage.
  virtual bool others_drop() const { return false; }
  // Neither waits. More than the budget may be used: after a start with a smaller one, or (RAM) while a disk is behind.
  virtual ByteCount used() const = 0;
  virtual ByteCount budget() const = 0;

  // These may wait, and are never called with the cache's lock. A refusal is an error of kNoSpace or kIo; what was
  // refused is not there.
  virtual Status put(const TierItem& item, const Bytes& bytes) = 0;
  // Exactly what was put, or: kNotFound: it is not there (any more); kDamaged: nor will it be; kIo: this time.
  virtual Result<Bytes> get(const TierItem& item) = 0;
  // Succeeds if it is not there.
  virtual Status drop(const TierItem& item) = 0;
};

// A tier below RAM, and where its work is done: puts and drops on `writer`, in their order, gets on `reader`.
struct LowerTier {
  TierId id;
  TierPort* port;
  os::Executor* writer;
  os::Executor* reader;
};

// One below RAM and disk that a cache is given. The executors must outlive the cache.
struct FurtherTier {
  std::unique_ptr<TierPort> port;
  os::Executor& writer;
  os::Executor& reader;
};

}  // namespace kvkeep::cache
