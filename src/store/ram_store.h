#pragma once

// The RAM tier's buffers. The model's one thread copies rows out, so that copy must be fast: into memory that was
// touched before it runs at 5 to 14 GB/s, into fresh memory (a page fault each 4 KiB) at 0.4 GB/s. Therefore a pool of
// staging buffers is touched ahead and reused. Bytes that stay longer move into a block of their exact size.

#include <cstddef>
#include <memory>
#include <vector>

#include "base/mutex.h"
#include "base/types.h"

namespace kvkeep::os {
class Executor;
}

namespace kvkeep::store {

namespace detail {
struct PoolState;
class ReadyPages;
// Gives memory back to where it came from.
struct FreeBytes {
  std::shared_ptr<ReadyPages> pages = nullptr;  // null: it was made by new[]
  std::size_t size = 0;
  void operator()(std::byte* bytes) const;
};
// Uninitialised memory: nothing is written to it before its first use.
struct Block {
  std::unique_ptr<std::byte[], FreeBytes> bytes;
  std::size_t capacity = 0;
};
}  // namespace detail

// Immutable bytes, shared. Thread safe like any const object. A staged one lies in a staging buffer that others wait
// for.
class Payload {
 public:
  Payload(const Payload&) = delete;
  Payload& operator=(const Payload&) = delete;
  ~Payload();

  ByteSpan bytes() const { return {block_.bytes.get(), size_}; }
  std::size_t size() const { return size_; }
  bool staged() const { return pool_ != nullptr; }

 private:
  friend class StagingBuffer;
  friend class PayloadBuffer;
  Payload(detail::Block block, std::size_t size, std::shared_ptr<detail::PoolState> pool);

  detail::Block block_;
  std::size_t size_;
  std::shared_ptr<detail::PoolState> pool_;  // takes the block back; null: the block is freed
};

// A writable buffer of a pool. It goes back when it is destroyed, or when the payload made of it dies. Move-only, not
// thread safe.
class StagingBuffer {
 public:
  StagingBuffer(StagingBuffer&&) noexcept = default;
  StagingBuffer& operator=(StagingBuffer&& other) noexcept;
  ~StagingBuffer();

  // At least the bytes asked for; contents are unspecified.
  MutableByteSpan span() { return {block_.bytes.get(), block_.capacity}; }
  // The first `size` bytes become immutable. Precondition: size <= span().size().
  std::shared_ptr<const Payload> freeze(std::size_t size) &&;

 private:
  friend class BufferPool;
  StagingBuffer(detail::Block block, std::shared_ptr<detail::PoolState> pool);
  void give_back();

  detail::Block block_;
  std::shared_ptr<detail::PoolState> pool_;
};

// A writable block of an exact size, outside any pool (for bytes from disk). Move-only, not thread safe.
class PayloadBuffer {
 public:
  static PayloadBuffer allocate(std::size_t size);
  MutableByteSpan span() { return {block_.bytes.get(), block_.capacity}; }
  std::shared_ptr<const Payload> freeze() &&;

 private:
  friend class ReadyMemory;
  explicit PayloadBuffer(detail::Block block);
  detail::Block block_;
};

// Memory for payloads that come over a network. The first use of a page takes longer than to receive the bytes that
// fill it, so some pages are touched ahead, while nothing is read, and those of payloads that left are used again.
// Thread safe; payloads may outlive it.
class ReadyMemory {
 public:
  // So many bytes lie ready at most; with 0 it is PayloadBuffer::allocate().
  explicit ReadyMemory(ByteCount most);
  ~ReadyMemory();

  PayloadBuffer allocate(std::size_t size);
  // Touches as many as are missing, which takes up to a few milliseconds for each MiB.
  void prepare();
  bool lacks_some() const;
  ByteCount ready() const;

 private:
  const ByteCount most_;
  const std::shared_ptr<detail::ReadyPages> pages_;
};

// A copy in a block of exactly its size; the staging buffer is free again once the original is dropped.
std::shared_ptr<const Payload> compact(const Payload& payload);

struct BufferPoolOptions {
  // Idle buffers kept for reuse. More: fewer page faults under bursts; costs this much memory while idle.
  ByteCount idle_limit = mebibytes(256);
};

// Thread safe. Buffers and payloads may outlive the pool.
class BufferPool {
 public:
  explicit BufferPool(BufferPoolOptions options = {});
  ~BufferPool();

  // A buffer of at least `min_bytes`: the smallest idle one that fits, else fresh memory, which replaces the largest
  // idle one if that has half as much. For 0 bytes: no memory, and a payload that is not staged.
  StagingBuffer acquire(std::size_t min_bytes);
  // Makes up to `count` idle buffers of at least `min_bytes` (none for 0), as many as may lie idle, touched, on
  // `background` (or here and now if null).
  void prepare(std::size_t count, std::size_t min_bytes, os::Executor* background);

  void set_idle_limit(ByteCount limit);

  ByteCount idle_bytes() const;     // in the pool
  ByteCount lent_bytes() const;     // in staging buffers and staged payloads
  std::size_t fresh_count() const;  // acquires that found no idle buffer

 private:
  std::shared_ptr<detail::PoolState> state_;
};

}  // namespace kvkeep::store
