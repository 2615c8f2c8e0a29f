// The memory of sampled turns: which turns it keeps, and which leave.

#include "chat/replay/turn_memory.h"

#include <gtest/gtest.h>

namespace kvkeep::chat {
namespace {

TEST(TurnMemory, TheLeastRecentlyUsedLeaveAndItStaysWithinItsLimit) {
  TurnMemory memory(ByteCount{8000});
  const auto name = [](int number) {
    PrefixHash hash;
    hash.bytes[0] = static_cast<std::uint8_t>(number);
    return hash;
  };
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(memory.remember(name(i), {{1, 2, i}, {}}));
    EXPECT_FALSE(memory.find(name(0)).empty()) << "used every time";
    EXPECT_LE(memory.bytes().value(), 8000U);
  }
  EXPECT_TRUE(memory.find(name(1)).empty());
  EXPECT_FALSE(memory.find(name(99)).empty());
  EXPECT_FALSE(memory.remember(name(99), {{1, 2, 99}, {}})) << "known";
  EXPECT_FALSE(memory.remember(name(100), {std::vector<TokenId>(1000), {}})) << "too large";
}

TEST(TurnMemory, TheNewestTurnsOfOnePromptAreKept) {
  TurnMemory memory(mebibytes(1));
  const PrefixHash name;
  for (TokenId i = 0; i < 10; ++i) memory.remember(name, {{i}, {}});
  memory.remember(name, {{7}, {}});
  std::vector<TokenId> found;
  for (const auto& turn : memory.find(name)) found.push_back(turn->ids[0]);
  EXPECT_EQ(found, (std::vector<TokenId>{7, 9, 8, 6}));
}

TEST(TurnMemory, ItsEntriesMakeTheSameMemoryAgain) {
  TurnMemory memory(mebibytes(1));
  for (TokenId i = 0; i < 20; ++i) {
    PrefixHash hash;
    hash.bytes[0] = static_cast<std::uint8_t>(i % 8);
    memory.remember(hash, {{i}, {std::to_string(i)}});
  }
  TurnMemory again(mebibytes(1));
  for (const auto& entry : memory.entries()) again.remember(entry.before, *entry.turn);
  EXPECT_EQ(again.size(), memory.size());
  EXPECT_EQ(again.bytes(), memory.bytes());
  for (const auto& entry : memory.entries()) {
    const auto a = memory.find(entry.before);
    const auto b = again.find(entry.before);
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t i = 0; i < a.size(); ++i) EXPECT_EQ(*a[i], *b[i]);
  }
}

}  // namespace
}  // namespace kvkeep::chat
