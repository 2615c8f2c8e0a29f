#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "policy/likely_cuts.h"

namespace kvkeep::policy {
namespace {

TEST(ChangedLines, FindsTheLineByWhatBothHadOfIt) {
  ChangedLines lines;
  EXPECT_FALSE(lines.holds(1, "Open files: a.py", ""));
  lines.learn(1, "Open files: a", "");
  EXPECT_TRUE(lines.holds(1, "Open files: z.py", ""));
  EXPECT_TRUE(lines.holds(1, "Open files:", ""));
  EXPECT_FALSE(lines.holds(1, "Open file", ""));
  EXPECT_FALSE(lines.holds(1, "An Open files: z.py", ""));
  EXPECT_FALSE(lines.holds(2, "Open files: z.py", "")) << "another client";
}

TEST(ChangedLines, NumbersAreNoPartOfIt) {
  ChangedLines lines;
  lines.learn(1, "session 17 of 2", "");
  EXPECT_TRUE(lines.holds(1, "session 4", ""));
}

TEST(ChangedLines, WhereALineDiffersAtOnceTheOneBeforeTells) {
  ChangedLines lines;
  lines.learn(1, "", "Files in the project:");
  EXPECT_TRUE(lines.holds(1, "a.py", "Files in the project:"));
  EXPECT_FALSE(lines.holds(1, "Files in the project:", "text"));
  lines.learn(1, "x", "Notes");
  EXPECT_TRUE(lines.holds(1, "yes", "Notes of today")) << "one letter is nothing";
}

TEST(ChangedLines, LearnsNothingFromWhatBeginsManyLines) {
  ChangedLines lines;
  lines.learn(1, "", "");
  lines.learn(1, "12:30", "}");
  lines.learn(1, "a b", "  ");
  EXPECT_EQ(lines.heads(1), 0U);
  EXPECT_EQ(lines.clients(), 0U);
}

TEST(ChangedLines, ForgetsWhatWasUsedLeastRecently) {
  ChangedLines lines(2, 2);
  lines.learn(1, "first: a", "");
  lines.learn(1, "second: a", "");
  EXPECT_TRUE(lines.holds(1, "first: b", ""));
  lines.learn(1, "third: a", "");
  EXPECT_FALSE(lines.holds(1, "second: b", ""));
  EXPECT_TRUE(lines.holds(1, "first: b", ""));
  lines.learn(1, "first: c", "");
  EXPECT_EQ(lines.heads(1), 2U) << "one of a kind";
  lines.learn(2, "first: a", "");
  lines.learn(1, "third: a", "");
  lines.learn(3, "first: a", "");
  EXPECT_EQ(lines.clients(), 2U);
  EXPECT_EQ(lines.heads(2), 0U);
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
  bool holds(const std::string& line) {
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

TEST(ChangedLines, DoesAsATwinDoes) {
  std::mt19937 random(20261122);
  for (int round = 0; round < 200; ++round) {
    ChangedLines lines(1, 3);
    Twin twin(3);
    for (int step = 0; step < 60; ++step) {
      const std::string head = "head" + std::string(1, static_cast<char>('a' + random() % 5)) + ":";
      if (random() % 2 == 0) {
        lines.learn(7, head + " x", "");
        twin.learn(head);
      } else {
        EXPECT_EQ(lines.holds(7, head + " y", ""), twin.holds(head + " y"));
      }
    }
  }
}

}  // namespace
}  // namespace kvkeep::policy
