// memory() must be honest: compared with what operator new hands out in this program.

#include <gtest/gtest.h>
#include <malloc.h>

#include <cstdlib>
#include <new>
#include <numeric>
#include <vector>

#include "index/prefix_index.h"

namespace {
std::size_t allocated_bytes = 0;  // live bytes as malloc rounds them; tests are single-threaded
}

// Not inlined: g++ would take malloc and delete for a mismatched pair.
[[gnu::noinline]] void* operator new(std::size_t size) {
  void* block = std::malloc(size);
  if (block == nullptr) throw std::bad_alloc();
  allocated_bytes += malloc_usable_size(block);
  return block;
}

[[gnu::noinline]] static void release(void* pointer) noexcept {
  allocated_bytes -= malloc_usable_size(pointer);
  std::free(pointer);
}

[[gnu::noinline]] void operator delete(void* pointer) noexcept { release(pointer); }
// The analyzer takes the pointer for freed before the function that frees it has run.
// NOLINTNEXTLINE(clang-analyzer-cplusplus.NewDelete)
[[gnu::noinline]] void operator delete(void* pointer, std::size_t) noexcept { release(pointer); }

// The array forms by name: under AddressSanitizer they do not come to the plain ones by themselves.
[[gnu::noinline]] void* operator new[](std::size_t size) { return operator new(size); }
[[gnu::noinline]] void operator delete[](void* pointer) noexcept { release(pointer); }
[[gnu::noinline]] void operator delete[](void* pointer, std::size_t) noexcept { release(pointer); }

namespace kvkeep::index {
namespace {

struct Measured {
  double honest_ratio = 0;     // memory() / bytes handed out
  double bytes_per_token = 0;  // beyond the token ids
};

Measured measure(std::size_t segments, std::size_t size) {
  const std::size_t before = allocated_bytes;
  PrefixIndex index;
  std::vector<TokenId> tokens(size);
  Cursor at;
  for (std::size_t i = 0; i < segments; ++i) {
    std::iota(tokens.begin(), tokens.end(), static_cast<TokenId>(i));
    const Cursor begin = i % 10 == 0 ? Cursor{} : at;
    at = {index.insert(begin, tokens, {}, {}), begin.at + size};
  }
  const double asked = static_cast<double>(allocated_bytes - before - malloc_usable_size(tokens.data()));
  const double said = static_cast<double>(index.memory().value());
  return {said / asked, said / static_cast<double>(segments * size) - sizeof(TokenId)};
}

TEST(IndexMemory, IsHonestAndWithinSixteenBytesPerToken) {
  for (const std::size_t size : {16U, 64U, 2048U}) {
    const Measured measured = measure(10000, size);
    EXPECT_GE(measured.honest_ratio, 1.0) << size;
    EXPECT_LE(measured.honest_ratio, 1.5) << size;
    EXPECT_LE(measured.bytes_per_token, 16.0) << size;
  }
}

// Twenty points a segment: more than any policy keeps.
TEST(IndexMemory, LeavesAreCounted) {
  const std::vector<TokenId> tokens(2000, 1);
  const std::size_t before = allocated_bytes;
  PrefixIndex index;
  Cursor at;
  for (int i = 0; i < 1000; ++i) {
    at = {index.insert(at, tokens, {}, {}), at.at + tokens.size()};
    for (std::uint32_t point = 0; point < 20; ++point) {
      const Position end{at.at.value() - point};
      index.insert_leaf({at.segment, end}, format::PartKind::kPoint, end, {}, {});
    }
  }
  const double asked = static_cast<double>(allocated_bytes - before);
  EXPECT_GE(static_cast<double>(index.memory().value()) / asked, 1.0);
  EXPECT_LE(static_cast<double>(index.memory().value()) / asked, 1.5);
}

TEST(IndexMemory, TenantsAreCounted) {
  const std::vector<TokenId> tokens(64, 1);
  const std::size_t before = allocated_bytes;
  PrefixIndex index;
  for (std::uint8_t i = 0; i < 100; ++i) {
    for (std::uint8_t j = 1; j <= 100; ++j) {
      const Tenant tenant{{i, 0, 0, 0, 0, 0, 0, j}};
      index.insert({kRootSegment, {}, tenant}, tokens, {}, {});
    }
  }
  const double asked = static_cast<double>(allocated_bytes - before);
  EXPECT_GE(static_cast<double>(index.memory().value()) / asked, 1.0);
  EXPECT_LE(static_cast<double>(index.memory().value()) / asked, 1.5);
}

TEST(IndexMemory, ErasedSegmentsGiveTheirTokensBack) {
  PrefixIndex index;
  const std::vector<TokenId> tokens(100000, 1);
  const std::uint64_t empty = index.memory().value();
  const SegmentId segment = index.insert({}, tokens, {}, {});
  EXPECT_GE(index.memory().value(), empty + 400000);
  index.erase(segment);
  EXPECT_LE(index.memory().value(), empty + 1000);
}

}  // namespace
}  // namespace kvkeep::index
