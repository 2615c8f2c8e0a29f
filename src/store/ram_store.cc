#include "store/ram_store.h"

#include <algorithm>
#include <bit>
#include <cstring>
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
  return {std::make_unique_for_overwrite<std::byte[]>(capacity), capacity};
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
