// When the log names a faster layout of cells, without a scheduler.

#include "server/run/layout_hint.h"

#include <gtest/gtest.h>

namespace kvkeep::server {
namespace {

class LayoutHintTest : public testing::Test {
 protected:
  LayoutHintTest() {
    model.may_have_own_cells = true;
    model.context_tokens = 8'000;
    model.row_bytes_per_token = 1'000;
    model.model_bytes = 40'000'000;
    decode(4, 500);
  }
  void decode(std::size_t requests, std::size_t tokens) {
    running.clear();
    for (std::size_t i = 0; i < requests; ++i) {
      running.push_back(std::make_unique<Request>());
      running.back()->phase = Request::Phase::kDecode;
      running.back()->effective.tokens = std::vector<TokenId>(tokens, 1);
    }
  }
  // So many seconds pass, in each of which the cells are counted once and the hint looks twice. Returns how often it
  // told.
  std::size_t pass(LayoutHint& hint, std::size_t seconds, CellCounts cells = {.total = 8'000, .used = 4'000}) {
    std::size_t told = 0;
    for (std::size_t i = 0; i < seconds; ++i) {
      cells.counted = ++counted;
      for (int round = 0; round < 2; ++round) told += hint.look(running, cells) ? 1 : 0;
    }
    return told;
  }

  engine::Description model;
  std::vector<std::unique_ptr<Request>> running;
  std::uint64_t counted = 0;
};

TEST_F(LayoutHintTest, IsToldOnceAfterSomeSeconds) {
  LayoutHint hint(model, 4);
  EXPECT_EQ(pass(hint, 3), 0U);
  CellCounts cells{.total = 8'000, .used = 4'000, .shared = 400, .counted = ++counted};
  const auto line = hint.look(running, cells);
  ASSERT_TRUE(line);
  for (const char* part :
       {"4 requests", "400 of 4000", "-no-kvu", "2000 cells", "500 tokens", "docs/scheduling.md#cells"}) {
    EXPECT_NE(line->find(part), std::string::npos) << *line;
  }
  EXPECT_EQ(pass(hint, 100), 0U);
}

TEST_F(LayoutHintTest, IsNotToldWhereItWouldBeWrong) {
  const CellCounts shares{.total = 8'000, .used = 4'000, .shared = 501};
  const CellCounts few{.total = 8'000, .used = 2'000};
  LayoutHint sharing(model, 4);
  EXPECT_EQ(pass(sharing, 20, shares), 0U) << "what is shared would be there once for each";
  LayoutHint light(model, 4);
  EXPECT_EQ(pass(light, 20, few), 0U) << "6 MB of rows of others, next to 42 MB";
  decode(3, 500);
  LayoutHint three(model, 4);
  EXPECT_EQ(pass(three, 20), 0U);
  decode(8, 1'001);
  LayoutHint longer(model, 8);
  EXPECT_EQ(pass(longer, 20), 0U) << "it would be refused";
  decode(8, 900);
  EXPECT_EQ(pass(longer, 20), 0U) << "such prompts come here";
  EXPECT_EQ(LayoutHint(model, 0).look(running, few), std::nullopt);
}

TEST_F(LayoutHintTest, IsNotToldWhereCellsOfTheirOwnAreOrCannotBe) {
  model.own_cells = true;
  LayoutHint own(model, 4);
  EXPECT_EQ(pass(own, 20), 0U);
  model.own_cells = model.may_have_own_cells = false;
  LayoutHint never(model, 4);
  EXPECT_EQ(pass(never, 20), 0U);
}

TEST_F(LayoutHintTest, IsNotToldOfRequestsThatComeAndGo) {
  LayoutHint hint(model, 4);
  for (int i = 0; i < 10; ++i) {
    decode(4, 500);
    EXPECT_EQ(pass(hint, 3), 0U);
    running.front()->phase = Request::Phase::kPrefill;
    EXPECT_EQ(pass(hint, 1), 0U);
  }
  decode(4, 500);
  EXPECT_EQ(pass(hint, 4), 1U);
}

}  // namespace
}  // namespace kvkeep::server
