#pragma once

// The words of the code: token ids, positions, sizes, sequence and segment handles. Each is its own type, because
// all of them are integers and a swapped pair would compile.

#include <compare>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <vector>

namespace kvkeep {

// An id of the model's vocabulary, as libllama uses it.
using TokenId = std::int32_t;
using TokenSpan = std::span<const TokenId>;
using ByteSpan = std::span<const std::byte>;
using MutableByteSpan = std::span<std::byte>;

// An integer that mixes with nothing but its own kind.
template <typename Tag, typename Rep>
class Strong {
 public:
  constexpr Strong() = default;
  constexpr explicit Strong(Rep value) : value_(value) {}
  constexpr Rep value() const { return value_; }
  constexpr auto operator<=>(const Strong&) const = default;

 private:
  Rep value_ = 0;
};

// A count of tokens from the start of a prompt; the position of the token that follows them.
class Position : public Strong<struct PositionTag, std::uint32_t> {
 public:
  using Strong::Strong;
  constexpr Position operator+(std::size_t tokens) const {
    return Position{value() + static_cast<std::uint32_t>(tokens)};
  }
  // Precondition: *this >= other. Tokens between the two.
  constexpr std::size_t operator-(Position other) const { return value() - other.value(); }
};

// A run of tokens [begin, end) of one prompt.
struct TokenRange {
  Position begin;
  Position end;
  constexpr std::size_t size() const { return end - begin; }
  constexpr bool empty() const { return begin == end; }
  constexpr auto operator<=>(const TokenRange&) const = default;
};

// A number of bytes (budgets, sizes on disk).
class ByteCount : public Strong<struct ByteCountTag, std::uint64_t> {
 public:
  using Strong::Strong;
  constexpr ByteCount operator+(ByteCount other) const { return ByteCount{value() + other.value()}; }
  constexpr ByteCount operator-(ByteCount other) const { return ByteCount{value() - other.value()}; }
  constexpr ByteCount& operator+=(ByteCount other) { return *this = *this + other; }
  constexpr ByteCount& operator-=(ByteCount other) { return *this = *this - other; }
};
constexpr ByteCount mebibytes(std::uint64_t count) { return ByteCount{count << 20}; }

// A sequence of the model's KV memory (libllama's llama_seq_id).
class SeqId : public Strong<struct SeqIdTag, std::int32_t> {
 public:
  using Strong::Strong;
};

// A handle of a segment in the prefix index of one process; 0 is the root (the empty prefix). Never on disk.
class SegmentId : public Strong<struct SegmentIdTag, std::uint32_t> {
 public:
  using Strong::Strong;
};
inline constexpr SegmentId kRootSegment{0};

// Length of the longest common prefix of two token runs.
inline std::size_t common_prefix(TokenSpan a, TokenSpan b) {
  const std::size_t limit = a.size() < b.size() ? a.size() : b.size();
  // Whole blocks by memcmp (vectorised) and then the block that differs token by token: a 100k-token prompt is
  // compared with every resident sequence on each request.
  constexpr std::size_t kBlock = 256;
  std::size_t at = 0;
  while (at + kBlock <= limit && std::memcmp(a.data() + at, b.data() + at, kBlock * sizeof(TokenId)) == 0) at += kBlock;
  while (at < limit && a[at] == b[at]) ++at;
  return at;
}

}  // namespace kvkeep

template <>
struct std::hash<kvkeep::SegmentId> {
  std::size_t operator()(kvkeep::SegmentId id) const noexcept { return id.value(); }
};
