// The two forms of a sequence's state, byte by byte, against forms that are written out here. stream_memory_test.cc
// compares with libllama's own.

#include "engine/llama/stream_form.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace kvkeep::engine::llama {
namespace {

using Words = std::vector<std::uint32_t>;

constexpr std::uint32_t kMagic = 0xAF143CD8;

std::vector<std::byte> bytes_of(const Words& words) {
  std::vector<std::byte> bytes(words.size() * sizeof(std::uint32_t));
  std::memcpy(bytes.data(), words.data(), bytes.size());
  return bytes;
}

std::vector<std::byte> copy_of(ByteSpan bytes) { return {bytes.begin(), bytes.end()}; }

// A sequence with `count` cells; rows are one word per cell.
Words unified(std::uint32_t sequence, std::uint32_t count) {
  Words words{kMagic, sequence, 1, count};
  for (std::uint32_t i = 0; i < count; ++i) words.push_back(100 + i);
  return words;
}

Words in_streams(std::uint32_t sequence, std::uint32_t count, std::uint32_t streams, std::uint32_t stream) {
  Words words{kMagic, sequence, streams};
  for (std::uint32_t i = 0; i < streams; ++i) {
    words.push_back(i == stream ? count : 0);
    for (std::uint32_t cell = 0; i == stream && cell < count; ++cell) words.push_back(100 + cell);
  }
  return words;
}

TEST(StreamForm, EachStreamOfEachNumberOfThemHasTheSameUnifiedForm) {
  for (std::uint32_t streams = 1; streams <= 6; ++streams) {
    for (std::uint32_t stream = 0; stream < streams; ++stream) {
      for (const std::uint32_t count : {0U, 1U, 5U}) {
        auto given = bytes_of(in_streams(7, count, streams, stream));
        const auto form = to_unified_form(given, streams, stream);
        ASSERT_TRUE(form.ok());
        EXPECT_EQ(copy_of(*form), bytes_of(unified(7, count))) << stream << " of " << streams;
      }
    }
  }
}

TEST(StreamForm, AMemoryOfStreamsTakesWhatComesFirst) {
  for (std::uint32_t streams = 1; streams <= 6; ++streams) {
    auto bytes = bytes_of(unified(7, 3));
    const std::size_t size = bytes.size();
    bytes.resize(size + stream_form_extra(streams) + 8, std::byte{0xAB});
    EXPECT_EQ(to_stream_form(bytes, size, streams), size + stream_form_extra(streams));
    const auto rest = copy_of(ByteSpan(bytes).last(8));
    EXPECT_EQ(rest, std::vector<std::byte>(8, std::byte{0xAB})) << "what lies after the section stays";
    bytes.resize(bytes.size() - 8);
    EXPECT_EQ(bytes, bytes_of(in_streams(7, 3, streams, 0)));
  }
}

TEST(StreamForm, StateOfAnotherSequenceOrMemoryIsRefused) {
  for (std::uint32_t stream = 0; stream < 4; ++stream) {
    for (std::uint32_t other = 0; other < 4; ++other) {
      auto given = bytes_of(in_streams(0, 2, 4, stream));
      EXPECT_EQ(to_unified_form(given, 4, other).ok(), stream == other) << stream << " taken for " << other;
    }
  }
  auto of_three = bytes_of(in_streams(0, 2, 3, 1));
  EXPECT_FALSE(to_unified_form(of_three, 4, 1).ok());
  auto pooled = bytes_of(unified(0, 8));
  EXPECT_FALSE(to_unified_form(pooled, 4, 0).ok());
}

TEST(StreamForm, BytesThatEndEarlyAreRefused) {
  const auto whole = bytes_of(in_streams(0, 0, 4, 2));
  for (std::size_t size = 0; size < whole.size(); ++size) {
    std::vector<std::byte> part(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
    EXPECT_FALSE(to_unified_form(part, 4, 2).ok()) << size;
  }
}

TEST(StreamFormDeathTest, ABufferWithoutRoomIsABug) {
  auto bytes = bytes_of(unified(0, 2));
  EXPECT_DEATH(to_stream_form(bytes, bytes.size(), 2), "room");
  EXPECT_DEATH((void)to_unified_form(bytes, 2, 2), "exists");
}

}  // namespace
}  // namespace kvkeep::engine::llama
