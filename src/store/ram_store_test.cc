#include "store/ram_store.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "testing/sim/sim_executor.h"

namespace kvkeep::store {
namespace {

TEST(BufferPool, ABufferComesBackWhenItsPayloadDies) {
  BufferPool pool;
  StagingBuffer buffer = pool.acquire(1000);
  ASSERT_GE(buffer.span().size(), 1000u);
  std::memset(buffer.span().data(), 7, 1000);
  const std::byte* where = buffer.span().data();
  auto payload = std::move(buffer).freeze(900);
  EXPECT_TRUE(payload->staged());
  EXPECT_EQ(payload->size(), 900u);
  EXPECT_EQ(payload->bytes()[899], std::byte{7});
  EXPECT_GT(pool.lent_bytes(), ByteCount{0});
  payload = nullptr;
  EXPECT_EQ(pool.lent_bytes(), ByteCount{0});
  EXPECT_EQ(pool.acquire(1000).span().data(), where);
  EXPECT_EQ(pool.fresh_count(), 1u);
}

TEST(BufferPool, AnUnusedBufferComesBackToo) {
  BufferPool pool;
  { const StagingBuffer unused = pool.acquire(1); }
  EXPECT_EQ(pool.lent_bytes(), ByteCount{0});
  EXPECT_GT(pool.idle_bytes(), ByteCount{0});
}

TEST(BufferPool, MovingABufferOverAnotherGivesTheOtherBack) {
  BufferPool pool;
  StagingBuffer first = pool.acquire(1);
  first = pool.acquire(1);
  EXPECT_EQ(pool.idle_bytes(), pool.lent_bytes());
}

TEST(BufferPool, NoBytesTakeNoMemory) {
  BufferPool pool;
  pool.prepare(4, 0, nullptr);
  const auto payload = pool.acquire(0).freeze(0);
  EXPECT_FALSE(payload->staged());
  EXPECT_EQ(payload->size(), 0u);
  EXPECT_EQ(compact(*payload)->size(), 0u);
  EXPECT_EQ(pool.lent_bytes() + pool.idle_bytes(), ByteCount{0});
  EXPECT_EQ(pool.fresh_count(), 0u);
}

TEST(BufferPool, TheSmallestIdleBufferThatFitsIsTaken) {
  BufferPool pool;
  pool.prepare(1, 4 << 20, nullptr);
  pool.prepare(1, 1 << 20, nullptr);
  EXPECT_EQ(pool.acquire(1 << 20).span().size(), 1u << 20);
  EXPECT_EQ(pool.acquire(2 << 20).span().size(), 4u << 20);
  EXPECT_EQ(pool.fresh_count(), 0u);
}

TEST(BufferPool, IdleBuffersStayUnderTheirLimit) {
  BufferPool pool({.idle_limit = mebibytes(3)});
  pool.prepare(10, 1 << 20, nullptr);
  EXPECT_EQ(pool.idle_bytes(), mebibytes(3));
}

TEST(BufferPool, TheLimitOfIdleBuffersCanMove) {
  BufferPool pool({.idle_limit = mebibytes(1)});
  pool.set_idle_limit(mebibytes(2));
  pool.prepare(10, 1 << 20, nullptr);
  EXPECT_EQ(pool.idle_bytes(), mebibytes(2));
}

// Each is a little larger than the one before it; page faults are paid for some, and old buffers do not pile up.
TEST(BufferPool, GrowingStatesAreMostlyCopiedIntoUsedMemory) {
  BufferPool pool({.idle_limit = mebibytes(64)});
  std::size_t count = 0;
  std::size_t size = 4 << 20;
  for (; size < (32U << 20); size += size / 50) {
    StagingBuffer state = pool.acquire(size);
    ASSERT_LE(state.span().size(), size + size / 8);
    ++count;
  }
  EXPECT_GT(count, 100U);
  EXPECT_LE(pool.fresh_count(), 3 * 8 + 1U);
  EXPECT_LE(pool.idle_bytes(), mebibytes(36));
}

TEST(BufferPool, PreparingCanWaitForTheBackground) {
  BufferPool pool;
  sim::SimExecutor background;
  pool.prepare(2, 1 << 20, &background);
  EXPECT_EQ(pool.idle_bytes(), ByteCount{0});
  background.run_all();
  EXPECT_EQ(pool.idle_bytes(), mebibytes(2));
}

TEST(BufferPool, PayloadsOutliveTheirPool) {
  auto pool = std::make_unique<BufferPool>();
  const auto payload = pool->acquire(10).span().empty() ? nullptr : pool->acquire(10).freeze(10);
  pool = nullptr;
  EXPECT_EQ(payload->bytes().size(), 10u);
}

TEST(Payload, ACompactCopyIsExactAndUnstaged) {
  BufferPool pool;
  StagingBuffer buffer = pool.acquire(100);
  std::memset(buffer.span().data(), 5, 100);
  const auto staged = std::move(buffer).freeze(100);
  const auto exact = compact(*staged);
  EXPECT_FALSE(exact->staged());
  EXPECT_TRUE(std::ranges::equal(exact->bytes(), staged->bytes()));
}

TEST(PayloadBuffer, FreezesWhatWasWritten) {
  PayloadBuffer buffer = PayloadBuffer::allocate(3);
  std::memcpy(buffer.span().data(), "abc", 3);
  const auto payload = std::move(buffer).freeze();
  EXPECT_EQ(std::memcmp(payload->bytes().data(), "abc", 3), 0);
  EXPECT_FALSE(payload->staged());
}

TEST(ReadyMemory, PagesThatLieReadyAreGivenOutAndComeBack) {
  ReadyMemory memory(mebibytes(4));
  EXPECT_EQ(memory.ready(), ByteCount{0});
  EXPECT_TRUE(memory.lacks_some());
  memory.prepare();
  EXPECT_EQ(memory.ready(), mebibytes(4));
  EXPECT_FALSE(memory.lacks_some());
  const auto made = [&](std::size_t size, int value) {
    PayloadBuffer buffer = memory.allocate(size);
    EXPECT_EQ(buffer.span().size(), size);
    std::memset(buffer.span().data(), value, size);
    return std::move(buffer).freeze();
  };
  auto one = made((1 << 20) + 5, 1);
  EXPECT_EQ(memory.ready(), ByteCount{(3 << 20) - (64 << 10)}) << "whole units";
  auto other = made(1 << 20, 2);
  const auto large = made(8 << 20, 3);
  EXPECT_EQ(memory.ready(), ByteCount{(2 << 20) - (64 << 10)}) << "the large one lies in new memory";
  for (const std::byte byte : one->bytes()) ASSERT_EQ(byte, std::byte{1});
  for (const std::byte byte : other->bytes()) ASSERT_EQ(byte, std::byte{2});
  one.reset();
  other.reset();
  EXPECT_EQ(memory.ready(), mebibytes(4));
  const auto all = made(4 << 20, 4);
  EXPECT_EQ(memory.ready(), ByteCount{0}) << "neighbours are one range again";
}

TEST(ReadyMemory, NoMoreLieReadyThanShall) {
  ReadyMemory memory(mebibytes(2));
  {
    PayloadBuffer buffer = memory.allocate(std::size_t{8} << 20);
    buffer.span().back() = std::byte{1};
  }
  EXPECT_EQ(memory.ready(), ByteCount{0}) << "the system has it";
  { PayloadBuffer buffer = memory.allocate(std::size_t{1} << 20); }
  EXPECT_EQ(memory.ready(), mebibytes(1));
}

TEST(ReadyMemory, PayloadsOutliveIt) {
  std::shared_ptr<const Payload> payload;
  {
    ReadyMemory memory(mebibytes(4));
    memory.prepare();
    PayloadBuffer buffer = memory.allocate(std::size_t{1} << 20);
    std::memset(buffer.span().data(), 7, buffer.span().size());
    payload = std::move(buffer).freeze();
  }
  EXPECT_EQ(payload->bytes().back(), std::byte{7});
}

TEST(ReadyMemory, SmallPayloadsAndThoseWithoutItLieElsewhere) {
  ReadyMemory memory(mebibytes(4));
  memory.prepare();
  const PayloadBuffer small = memory.allocate(1000);
  EXPECT_EQ(memory.ready(), mebibytes(4));
  ReadyMemory none(ByteCount{0});
  none.prepare();
  EXPECT_FALSE(none.lacks_some());
  EXPECT_EQ(none.allocate(std::size_t{4} << 20).span().size(), std::size_t{4} << 20);
  EXPECT_EQ(none.ready(), ByteCount{0});
}

TEST(BufferPool, ManyThreadsShareIt) {
  BufferPool pool;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&pool, thread] {
      for (int i = 0; i < 200; ++i) {
        StagingBuffer buffer = pool.acquire(4096);
        std::memset(buffer.span().data(), thread, 4096);
        const auto payload = std::move(buffer).freeze(4096);
        const bool own = std::ranges::all_of(payload->bytes(),
                                             [&](std::byte byte) { return byte == static_cast<std::byte>(thread); });
        ASSERT_TRUE(own);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(pool.lent_bytes(), ByteCount{0});
  EXPECT_LE(pool.fresh_count(), 4u);
}

}  // namespace
}  // namespace kvkeep::store
