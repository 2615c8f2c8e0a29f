// The ledger against a naive twin: each sequence a list of globally numbered cells, everything counted from scratch.

#include "engine/cell_ledger.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/test_seed.h"

namespace kvkeep::engine {
namespace {

constexpr std::uint32_t kCells = 6;
constexpr std::uint32_t kSequences = 3;

// Names cells by a counter and never reuses one: sharing is equality of names.
struct Twin {
  std::uint32_t total;  // of all sequences together, or of each
  std::map<int, std::vector<int>> sequences;
  int next = 0;
  bool own_cells = false;

  std::set<int> in_use() const {
    std::set<int> all;
    for (const auto& [seq, cells] : sequences) all.insert(cells.begin(), cells.end());
    return all;
  }
  bool append(int seq, std::size_t count) {
    if ((own_cells ? sequences[seq].size() : in_use().size()) + count > total) return false;
    for (std::size_t i = 0; i < count; ++i) sequences[seq].push_back(next++);
    return true;
  }
  void fork(int from, int to, std::size_t end) {
    sequences[to].assign(sequences[from].begin(), sequences[from].begin() + static_cast<std::ptrdiff_t>(end));
    if (!own_cells) return;
    for (int& cell : sequences[to]) cell = next++;
  }
  void truncate(int seq, std::size_t end) { sequences[seq].resize(end); }
  void drop(int seq, std::size_t begin, std::size_t end) {
    auto& cells = sequences[seq];
    cells.erase(cells.begin() + static_cast<std::ptrdiff_t>(begin), cells.begin() + static_cast<std::ptrdiff_t>(end));
  }
  std::size_t owned(int seq) {
    Twin without = *this;
    without.sequences.erase(seq);
    return in_use().size() - without.in_use().size();
  }
};

enum class Kind { kAppend, kFork, kTruncate, kDrop };
struct Step {
  Kind kind;
  int seq;
  int from;
  std::size_t count;      // append: cells; fork, truncate, drop: the end
  std::size_t begin = 0;  // drop
};

// Returns false if the step violates a precondition in this state.
bool apply(const Step& step, CellLedger& ledger, Twin& twin) {
  const SeqId seq{step.seq};
  const Position end{static_cast<std::uint32_t>(step.count)};
  switch (step.kind) {
    case Kind::kAppend: EXPECT_EQ(ledger.append(seq, step.count), twin.append(step.seq, step.count)); return true;
    case Kind::kFork:
      if (step.from == step.seq || !twin.sequences[step.seq].empty()) return false;
      if (step.count > twin.sequences[step.from].size()) return false;
      ledger.fork(SeqId{step.from}, seq, end);
      twin.fork(step.from, step.seq, step.count);
      return true;
    case Kind::kTruncate:
      if (step.count > twin.sequences[step.seq].size()) return false;
      ledger.truncate(seq, end);
      twin.truncate(step.seq, step.count);
      return true;
    case Kind::kDrop: {
      const std::size_t length = twin.sequences[step.seq].size();
      if (step.begin > step.count || step.count > length) return false;
      if (twin.owned(step.seq) < length - step.count) return false;  // forks share prefixes
      ledger.drop(seq, {Position{static_cast<std::uint32_t>(step.begin)}, end});
      twin.drop(step.seq, step.begin, step.count);
      return true;
    }
  }
  return false;
}

// Returns "" if both agree. Cells correspond one to one, so that sharing agrees, too.
std::string difference(const CellLedger& ledger, Twin& twin) {
  if (ledger.used() != twin.in_use().size()) return "used";
  if (ledger.available() + ledger.used() != ledger.total()) return "available";
  std::map<std::uint32_t, int> names;
  std::set<int> named;
  for (int seq = 0; seq < static_cast<int>(ledger.sequence_count()); ++seq) {
    const auto& expected = twin.sequences[seq];
    const auto cells = ledger.cells(SeqId{seq});
    if (ledger.length(SeqId{seq}).value() != expected.size() || cells.size() != expected.size()) return "length";
    if (ledger.owned(SeqId{seq}) != twin.owned(seq)) return "owned";
    const std::size_t taken = twin.own_cells ? expected.size() : twin.in_use().size();
    if (ledger.available(SeqId{seq}) + taken != twin.total) return "available to a sequence";
    for (std::size_t i = 0; i < cells.size(); ++i) {
      const auto [entry, fresh] = names.try_emplace(cells[i], expected[i]);
      if (entry->second != expected[i] || (fresh && !named.insert(expected[i]).second)) return "sharing";
    }
  }
  return "";
}

std::vector<Step> all_steps(std::size_t max_count) {
  std::vector<Step> steps;
  for (int seq = 0; seq < static_cast<int>(kSequences); ++seq) {
    for (std::size_t count = 1; count <= max_count; ++count) steps.push_back({Kind::kAppend, seq, 0, count});
    for (std::size_t end = 0; end < max_count; ++end) steps.push_back({Kind::kTruncate, seq, 0, end});
    for (std::size_t end = 1; end <= max_count; ++end) {
      for (std::size_t begin = 0; begin < end; ++begin) steps.push_back({Kind::kDrop, seq, 0, end, begin});
    }
    for (int from = 0; from < static_cast<int>(kSequences); ++from) {
      for (std::size_t end = 0; end <= max_count; ++end) steps.push_back({Kind::kFork, seq, from, end});
    }
  }
  return steps;
}

// Each pair of a ledger and its twin: one pool, and a pool for each sequence.
std::vector<std::pair<CellLedger, Twin>> both_kinds(std::uint32_t cells, std::uint32_t each, std::uint32_t sequences) {
  std::vector<std::pair<CellLedger, Twin>> kinds;
  kinds.push_back({CellLedger(cells, sequences), Twin{.total = cells, .sequences = {}}});
  kinds.push_back({CellLedger::with_own_cells(each, sequences),
                   Twin{.total = each, .sequences = {}, .next = 0, .own_cells = true}});
  return kinds;
}

TEST(CellLedger, AgreesWithTheTwinOnEveryShortHistory) {
  const auto steps = all_steps(3);
  std::function<void(const CellLedger&, const Twin&, int)> explore = [&](const CellLedger& ledger, const Twin& twin,
                                                                         int depth) {
    if (depth == 0) return;
    for (const Step& step : steps) {
      CellLedger next = ledger;
      Twin next_twin = twin;
      if (!apply(step, next, next_twin)) continue;
      ASSERT_EQ(difference(next, next_twin), "");
      explore(next, next_twin, depth - 1);
    }
  };
  for (const auto& [ledger, twin] : both_kinds(kCells, 4, kSequences)) explore(ledger, twin, 4);
}

TEST(CellLedger, AgreesWithTheTwinOnLongRandomHistories) {
  std::mt19937_64 random(test_seed());
  for (int history = 0; history < 30; ++history) {
    for (auto& [ledger, twin] : both_kinds(40, 20, 5)) {
      for (int i = 0; i < 300; ++i) {
        const Step step{static_cast<Kind>(random() % 4), static_cast<int>(random() % 5), static_cast<int>(random() % 5),
                        random() % 16, random() % 8};
        apply(step, ledger, twin);
        ASSERT_EQ(difference(ledger, twin), "") << "history " << history << " step " << i;
      }
    }
  }
}

TEST(CellLedger, AForkedPrefixIsCountedOnce) {
  CellLedger ledger(10, 2);
  ASSERT_TRUE(ledger.append(SeqId{0}, 6));
  ledger.fork(SeqId{0}, SeqId{1}, Position{4});
  EXPECT_EQ(ledger.used(), 6U);
  EXPECT_EQ(ledger.owned(SeqId{0}), 2U);
  EXPECT_EQ(ledger.owned(SeqId{1}), 0U);
  ledger.clear(SeqId{0});
  EXPECT_EQ(ledger.used(), 4U);
  EXPECT_EQ(ledger.owned(SeqId{1}), 4U);
}

TEST(CellLedger, AForkInAPoolOfItsOwnIsACopy) {
  CellLedger ledger = CellLedger::with_own_cells(6, 2);
  EXPECT_EQ(ledger.total(), 12U);
  ASSERT_TRUE(ledger.append(SeqId{0}, 6));
  EXPECT_FALSE(ledger.append(SeqId{0}, 1)) << "the other sequence's cells are not for it";
  ledger.fork(SeqId{0}, SeqId{1}, Position{4});
  EXPECT_EQ(ledger.used(), 10U);
  EXPECT_EQ(ledger.owned(SeqId{0}), 6U);
  EXPECT_EQ(ledger.available(SeqId{0}), 0U);
  EXPECT_EQ(ledger.available(SeqId{1}), 2U);
}

TEST(CellLedger, ARefusedAppendChangesNothing) {
  CellLedger ledger(4, 1);
  ASSERT_TRUE(ledger.append(SeqId{0}, 3));
  EXPECT_FALSE(ledger.append(SeqId{0}, 2));
  EXPECT_EQ(ledger.length(SeqId{0}), Position{3});
  EXPECT_EQ(ledger.available(), 1U);
}

// Checks the comparison: a ledger that forgot a share must differ from the twin.
TEST(CellLedger, TheComparisonCatchesLostSharing) {
  CellLedger ledger(8, 2);
  Twin twin{.total = 8, .sequences = {}};
  apply({Kind::kAppend, 0, 0, 2}, ledger, twin);
  twin.fork(0, 1, 2);
  ASSERT_TRUE(ledger.append(SeqId{1}, 2));  // copies instead of sharing
  EXPECT_NE(difference(ledger, twin), "");
}

TEST(CellLedgerDeathTest, BugsEndTheProcess) {
  CellLedger ledger(4, 2);
  ASSERT_TRUE(ledger.append(SeqId{0}, 2));
  EXPECT_DEATH(ledger.fork(SeqId{0}, SeqId{0}, Position{1}), "empty sequence");
  EXPECT_DEATH(ledger.fork(SeqId{0}, SeqId{1}, Position{3}), "positions that exist");
  EXPECT_DEATH(ledger.truncate(SeqId{0}, Position{3}), "lengthen");
  EXPECT_DEATH(ledger.clear(SeqId{2}), "sequence exists");
}

}  // namespace
}  // namespace kvkeep::engine
