#include "store/ram_store.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <utility>

#include "base/assert.h"
#include "os/executor.h"
#include "os/machine.h"

namespace kvkeep::store {
namespace {

constexpr std::size_t kPageBytes = 4096;
// Capacities are whole multiples of it, or of an eighth of themselves and less, so that slices of slightly different
// sizes share buffers, and so do states that grow.
constexpr std::size_t kGranuleBytes = 256 << 10;
constexpr std::size_t kGrowthShare = 8;

detail::Block allocate_block(std::size_t capacity) {
  return {std::unique_ptr<std::byte[], detail::FreeBytes>(new std::byte[capacity]), capacity};
}

// Makes the system give physical pages now.
void touch(detail::Block& block) {
  volatile std::byte* bytes = block.bytes.get();
  for (std::size_t at = 0; at < block.capacity; at += kPageBytes) bytes[at] = std::byte{0};
}

std::size_t rounded(std::size_t bytes) {
  const std::size_t granule = std::max(kGranuleBytes, std::bit_floor(bytes) / kGrowthShare);
  return (bytes + granule - 1) / granule * granule;
}

}  // namespace

namespace detail {

// Shared by the pool and what it lent, so that either may die first.
struct PoolState {
  explicit PoolState(ByteCount limit) : idle_limit(limit) {}

  mutable Mutex mutex;
  ByteCount idle_limit GUARDED_BY(mutex);
  std::vector<Block> idle GUARDED_BY(mutex);
  ByteCount idle_bytes GUARDED_BY(mutex);
  ByteCount lent_bytes GUARDED_BY(mutex);
  std::size_t fresh GUARDED_BY(mutex) = 0;

  // Another block of `capacity` may lie idle.
  bool keeps(std::size_t capacity) const EXCLUDES(mutex) {
    const MutexLock lock(mutex);
    return idle_bytes + ByteCount{capacity} <= idle_limit;
  }

  // Keeps the block, or frees it if enough lie idle.
  void keep(Block block) EXCLUDES(mutex) {
    const MutexLock lock(mutex);
    if (idle_bytes + ByteCount{block.capacity} > idle_limit) return;
    idle_bytes += ByteCount{block.capacity};
    idle.push_back(std::move(block));
  }

  void take_back(Block block) EXCLUDES(mutex) {
    {
      const MutexLock lock(mutex);
      lent_bytes -= ByteCount{block.capacity};
    }
    keep(std::move(block));
  }

  // Drops an idle block that is a little too small now: a larger one will come back in its place.
  void drop_outgrown(std::size_t capacity) REQUIRES(mutex) {
    const auto largest = std::ranges::max_element(idle, {}, &Block::capacity);
    if (largest == idle.end() || largest->capacity < capacity / 2) return;
    idle_bytes -= ByteCount{largest->capacity};
    idle.erase(largest);
  }

  Block lend(std::size_t capacity) EXCLUDES(mutex) {
    const MutexLock lock(mutex);
    auto best = idle.end();
    for (auto it = idle.begin(); it != idle.end(); ++it) {
      if (it->capacity >= capacity && (best == idle.end() || it->capacity < best->capacity)) best = it;
    }
    Block block;
    if (best == idle.end()) {
      drop_outgrown(capacity);
      block = allocate_block(capacity);
      ++fresh;
    } else {
      block = std::move(*best);
      idle.erase(best);
      idle_bytes -= ByteCount{block.capacity};
    }
    lent_bytes += ByteCount{block.capacity};
    return block;
  }
};

}  // namespace detail

Payload::Payload(detail::Block block, std::size_t size, std::shared_ptr<detail::PoolState> pool)
    : block_(std::move(block)), size_(size), pool_(std::move(pool)) {}

Payload::~Payload() {
  if (pool_ != nullptr) pool_->take_back(std::move(block_));
}

StagingBuffer::StagingBuffer(detail::Block block, std::shared_ptr<detail::PoolState> pool)
    : block_(std::move(block)), pool_(std::move(pool)) {}

StagingBuffer& StagingBuffer::operator=(StagingBuffer&& other) noexcept {
  if (this != &other) {
    give_back();
    block_ = std::move(other.block_);
    pool_ = std::move(other.pool_);
  }
  return *this;
}

StagingBuffer::~StagingBuffer() { give_back(); }

void StagingBuffer::give_back() {
  if (pool_ != nullptr) std::exchange(pool_, nullptr)->take_back(std::move(block_));
}

std::shared_ptr<const Payload> StagingBuffer::freeze(std::size_t size) && {
  KVKEEP_ASSERT(size <= block_.capacity, "a payload fits its buffer");
  return std::shared_ptr<const Payload>(new Payload(std::move(block_), size, std::exchange(pool_, nullptr)));
}

PayloadBuffer::PayloadBuffer(detail::Block block) : block_(std::move(block)) {}

// What is loaded stays, so that most of it lies in new memory.
PayloadBuffer PayloadBuffer::allocate(std::size_t size) {
  PayloadBuffer buffer(allocate_block(size));
  os::prefer_large_pages(buffer.span());
  return buffer;
}

std::shared_ptr<const Payload> PayloadBuffer::freeze() && {
  const std::size_t size = block_.capacity;
  return std::shared_ptr<const Payload>(new Payload(std::move(block_), size, nullptr));
}

// ---- memory that lies ready ----

namespace {

constexpr std::size_t kReadyUnitBytes = std::size_t{64} << 10;    // whole pages everywhere
constexpr std::size_t kLeastReadyBytes = std::size_t{256} << 10;  // smaller payloads would leave holes everywhere
constexpr std::size_t kPreparedAtOnceBytes = std::size_t{8} << 20;

}  // namespace

namespace detail {

// Pages that were touched, by address; neighbours are one range.
class ReadyPages {
 public:
  explicit ReadyPages(ByteCount most) : most_(most) {}
  ~ReadyPages() {
    for (const auto& [begin, size] : ranges_) os::unmap_memory({begin, size});
  }
  ReadyPages(const ReadyPages&) = delete;
  ReadyPages& operator=(const ReadyPages&) = delete;

  std::size_t lacking() const EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return (most_ - std::min(most_, bytes_)).value() / kReadyUnitBytes * kReadyUnitBytes;
  }
  ByteCount bytes() const EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    return bytes_;
  }
  // Returns null if there is no memory, or so many pieces are lent that each could be a mapping of its own, of which
  // the system grants some ten thousand.
  std::byte* lend(std::size_t size) EXCLUDES(mutex_) {
    {
      const MutexLock lock(mutex_);
      if (lent_ == kMostLent) return nullptr;
      ++lent_;
      if (std::byte* ready = take(size)) return ready;
    }
    std::byte* fresh = os::map_memory(size).data();
    const MutexLock lock(mutex_);
    if (fresh == nullptr) --lent_;
    return fresh;
  }
  void take_back(std::byte* begin, std::size_t size) EXCLUDES(mutex_) {
    keep(begin, size);
    const MutexLock lock(mutex_);
    --lent_;
  }
  // Keeps the pages, or gives them to the system if enough lie ready.
  void keep(std::byte* begin, std::size_t size) EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    if (bytes_ + ByteCount{size} > most_) return os::unmap_memory({begin, size});
    bytes_ += ByteCount{size};
    const auto next = ranges_.lower_bound(begin);
    if (next != ranges_.end() && next->first == begin + size) {
      size += next->second;
      ranges_.erase(next);
    }
    const auto after = ranges_.lower_bound(begin);
    if (after != ranges_.begin()) {
      const auto before = std::prev(after);
      if (before->first + before->second == begin) {
        before->second += size;
        return;
      }
    }
    ranges_.emplace(begin, size);
  }

 private:
  static constexpr std::size_t kMostLent = 16'384;

  // Returns null if no range is so large.
  std::byte* take(std::size_t size) REQUIRES(mutex_) {
    const auto found = std::ranges::find_if(ranges_, [size](const auto& range) { return range.second >= size; });
    if (found == ranges_.end()) return nullptr;
    const auto [begin, had] = *found;
    ranges_.erase(found);
    if (had > size) ranges_.emplace(begin + size, had - size);
    bytes_ -= ByteCount{size};
    return begin;
  }

  const ByteCount most_;
  mutable Mutex mutex_;
  std::map<std::byte*, std::size_t> ranges_ GUARDED_BY(mutex_);
  ByteCount bytes_ GUARDED_BY(mutex_);
  std::size_t lent_ GUARDED_BY(mutex_) = 0;
};

void FreeBytes::operator()(std::byte* bytes) const {
  if (pages == nullptr) {
    delete[] bytes;
  } else {
    pages->take_back(bytes, size);
  }
}

}  // namespace detail

ReadyMemory::ReadyMemory(ByteCount most) : most_(most), pages_(std::make_shared<detail::ReadyPages>(most)) {}

ReadyMemory::~ReadyMemory() = default;

PayloadBuffer ReadyMemory::allocate(std::size_t size) {
  if (most_ == ByteCount{} || size < kLeastReadyBytes) return PayloadBuffer::allocate(size);
  const std::size_t taken = (size + kReadyUnitBytes - 1) / kReadyUnitBytes * kReadyUnitBytes;
  std::byte* bytes = pages_->lend(taken);
  if (bytes == nullptr) return PayloadBuffer::allocate(size);
  return PayloadBuffer({std::unique_ptr<std::byte[], detail::FreeBytes>(bytes, {pages_, taken}), size});
}

void ReadyMemory::prepare() {
  while (const std::size_t lacking = pages_->lacking()) {
    const MutableByteSpan pages = os::map_memory(std::min(lacking, kPreparedAtOnceBytes));
    if (pages.empty()) return;
    os::touch_memory(pages);
    pages_->keep(pages.data(), pages.size());
  }
}

bool ReadyMemory::lacks_some() const { return pages_->lacking() > 0; }
ByteCount ReadyMemory::ready() const { return pages_->bytes(); }

std::shared_ptr<const Payload> compact(const Payload& payload) {
  PayloadBuffer copy = PayloadBuffer::allocate(payload.size());
  if (payload.size() > 0) std::memcpy(copy.span().data(), payload.bytes().data(), payload.size());
  return std::move(copy).freeze();
}

BufferPool::BufferPool(BufferPoolOptions options) : state_(std::make_shared<detail::PoolState>(options.idle_limit)) {}

BufferPool::~BufferPool() = default;

// Models without rows have many segments that stay: each would hold a granule until it is compacted.
StagingBuffer BufferPool::acquire(std::size_t min_bytes) {
  if (min_bytes == 0) return {{}, nullptr};
  return {state_->lend(rounded(min_bytes)), state_};
}

void BufferPool::prepare(std::size_t count, std::size_t min_bytes, os::Executor* background) {
  if (min_bytes == 0) return;
  const auto make = [state = state_, count, capacity = rounded(min_bytes)] {
    for (std::size_t i = 0; i < count && state->keeps(capacity); ++i) {
      detail::Block block = allocate_block(capacity);
      touch(block);
      state->keep(std::move(block));
    }
  };
  if (background == nullptr) {
    make();
  } else {
    background->post(make);
  }
}

void BufferPool::set_idle_limit(ByteCount limit) {
  const MutexLock lock(state_->mutex);
  state_->idle_limit = limit;
}

ByteCount BufferPool::idle_bytes() const {
  const MutexLock lock(state_->mutex);
  return state_->idle_bytes;
}

ByteCount BufferPool::lent_bytes() const {
  const MutexLock lock(state_->mutex);
  return state_->lent_bytes;
}

std::size_t BufferPool::fresh_count() const {
  const MutexLock lock(state_->mutex);
  return state_->fresh;
}

}  // namespace kvkeep::store
