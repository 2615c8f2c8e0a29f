#include "policy/parting_memory.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace kvkeep::policy {
namespace {

TEST(PartingMemory, FindsTheLineByWhatBothHadOfIt) {
  PartingMemory memory;
  EXPECT_FALSE(memory.parted(1, "Open files: a.py", ""));
  memory.learn(1, "Open files: a", "");
  EXPECT_TRUE(memory.parted(1, "Open files: z.py", ""));
  EXPECT_TRUE(memory.parted(1, "Open files:", ""));
  EXPECT_FALSE(memory.parted(1, "Open file", ""));
  EXPECT_FALSE(memory.parted(1, "An Open files: z.py", ""));
  EXPECT_FALSE(memory.parted(2, "Open files: z.py", "")) << "another client";
}

TEST(PartingMemory, NumbersAreNoPartOfIt) {
  PartingMemory memory;
  memory.learn(1, "session 17 of 2", "");
  EXPECT_TRUE(memory.parted(1, "session 4", ""));
}

TEST(PartingMemory, WhereALinePartsAtOnceTheOneBeforeTells) {
  PartingMemory memory;
  memory.learn(1, "", "Files in the project:");
  EXPECT_TRUE(memory.parted(1, "a.py", "Files in the project:"));
  EXPECT_FALSE(memory.parted(1, "Files in the project:", "text"));
  memory.learn(1, "x", "Notes");
  EXPECT_TRUE(memory.parted(1, "yes", "Notes of today")) << "one letter is nothing";
}

TEST(PartingMemory, LearnsNothingFromWhatBeginsManyLines) {
  PartingMemory memory;
  memory.learn(1, "", "");
  memory.learn(1, "12:30", "}");
  memory.learn(1, "a b", "  ");
  EXPECT_EQ(memory.heads(1), 0U);
  EXPECT_EQ(memory.clients(), 0U);
}

TEST(PartingMemory, ForgetsWhatWasUsedLeastRecently) {
  PartingMemory memory(2, 2);
  memory.learn(1, "first: a", "");
  memory.learn(1, "second: a", "");
  EXPECT_TRUE(memory.parted(1, "first: b", ""));
  memory.learn(1, "third: a", "");
  EXPECT_FALSE(memory.parted(1, "second: b", ""));
  EXPECT_TRUE(memory.parted(1, "first: b", ""));
  memory.learn(1, "first: c", "");
  EXPECT_EQ(memory.heads(1), 2U) << "one of a kind";
  memory.learn(2, "first: a", "");
  memory.learn(1, "third: a", "");
  memory.learn(3, "first: a", "");
  EXPECT_EQ(memory.clients(), 2U);
  EXPECT_EQ(memory.heads(2), 0U);
}

// A vector in which the first was used last.
class Twin {
 public:
  explicit Twin(std::size_t most) : most_(most) {}
  void learn(const std::string& head) {
    std::erase(heads_, head);
    heads_.insert(heads_.begin(), head);
    if (heads_.size() > most_) heads_.pop_back();
  }
  bool parted(const std::string& line) {
    for (std::size_t i = 0; i < heads_.size(); ++i) {
      if (!line.starts_with(heads_[i])) continue;
      const std::string head = heads_[i];
      heads_.erase(heads_.begin() + static_cast<std::ptrdiff_t>(i));
      heads_.insert(heads_.begin(), head);
      return true;
    }
    return false;
  }

 private:
  std::size_t most_;
  std::vector<std::string> heads_;
};

TEST(PartingMemory, DoesAsATwinDoes) {
  std::mt19937 random(20261122);
  for (int round = 0; round < 200; ++round) {
    PartingMemory memory(1, 3);
    Twin twin(3);
    for (int step = 0; step < 60; ++step) {
      const std::string head = "head" + std::string(1, static_cast<char>('a' + random() % 5)) + ":";
      if (random() % 2 == 0) {
        memory.learn(7, head + " x", "");
        twin.learn(head);
      } else {
        EXPECT_EQ(memory.parted(7, head + " y", ""), twin.parted(head + " y"));
      }
    }
  }
}

}  // namespace
}  // namespace kvkeep::policy
