// Failures at run time: each damages nothing else.

#include <gtest/gtest.h>

#include <thread>

#include "testing/models/test_model.h"

namespace kvkeep::engine::llama {
namespace {

class EngineFailureTest : public ::testing::Test {
 protected:
  std::unique_ptr<LlamaEngine> engine_ = load_or_die(tiny_options());
  std::vector<TokenId> prompt_ = make_prompt(300, 1);
};

TEST_F(EngineFailureTest, DamagedRowsAreRefusedAndTheSequenceIsEmpty) {
  ASSERT_EQ(prefill(*engine_, kFirst, prompt_), DecodeStatus::kOk);
  auto rows = save(*engine_, kFirst, token_range(0, 300));
  const auto before = rows;
  rows[12] ^= std::byte{1};  // the number of cells
  const std::vector<cache::RowPiece> pieces{{token_range(0, 300), token_range(0, 300), rows}};
  const Status refused = engine_->memory().restore_rows(kSecond, pieces);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::kDamaged);
  EXPECT_EQ(engine_->memory().length(kSecond), Position{0});
  EXPECT_EQ(engine_->memory().cells_used(), 300U);
  EXPECT_EQ(save(*engine_, kFirst, token_range(0, 300)), before);
}

TEST_F(EngineFailureTest, ADamagedLaterPieceEmptiesTheSequenceToo) {
  ASSERT_EQ(prefill(*engine_, kFirst, prompt_), DecodeStatus::kOk);
  const auto head = save(*engine_, kFirst, token_range(0, 100));
  const auto tail = save(*engine_, kFirst, token_range(100, 300));
  const std::vector<cache::RowPiece> pieces{{token_range(0, 100), token_range(0, 100), head},
                                            {token_range(100, 300), token_range(100, 300), ByteSpan(tail).first(999)}};
  EXPECT_EQ(engine_->memory().restore_rows(kSecond, pieces).error().kind, ErrorKind::kDamaged);
  EXPECT_EQ(engine_->memory().length(kSecond), Position{0});
}

TEST_F(EngineFailureTest, TooFewCellsForARestore) {
  ASSERT_EQ(prefill(*engine_, kFirst, make_prompt(900, 1)), DecodeStatus::kOk);
  const auto rows = save(*engine_, kFirst, token_range(0, 900));
  const std::vector<cache::RowPiece> pieces{{token_range(0, 900), token_range(0, 900), rows}};
  EXPECT_EQ(engine_->memory().restore_rows(kSecond, pieces).error().kind, ErrorKind::kNoSpace);
  EXPECT_EQ(engine_->memory().length(kSecond), Position{0});
  EXPECT_EQ(engine_->memory().cells_used(), 900U);
  EXPECT_EQ(save(*engine_, kFirst, token_range(0, 900)), rows);
}

// Rows that are stored but not wanted must not need cells.
TEST_F(EngineFailureTest, OnlyWantedRowsNeedCells) {
  ASSERT_EQ(prefill(*engine_, kFirst, make_prompt(900, 1)), DecodeStatus::kOk);
  const auto rows = save(*engine_, kFirst, token_range(0, 900));
  const auto head = save(*engine_, kFirst, token_range(0, 124));
  const std::vector<cache::RowPiece> pieces{{token_range(0, 900), token_range(0, 124), rows}};
  ASSERT_TRUE(engine_->memory().restore_rows(kSecond, pieces).ok());
  EXPECT_EQ(engine_->memory().cells_used(), 1024U);
  EXPECT_EQ(save(*engine_, kSecond, token_range(0, 124)), head);
}

TEST_F(EngineFailureTest, NoCellsForABatchChangesNothingAndClearingHelps) {
  ASSERT_EQ(prefill(*engine_, kFirst, make_prompt(900, 1)), DecodeStatus::kOk);
  const auto rows = save(*engine_, kFirst, token_range(0, 900));
  const std::uint64_t decoded = engine_->tokens_decoded();
  EXPECT_EQ(prefill(*engine_, kSecond, prompt_), DecodeStatus::kNoCells);
  EXPECT_EQ(engine_->memory().length(kSecond), Position{0});
  EXPECT_EQ(engine_->tokens_decoded(), decoded);
  EXPECT_EQ(save(*engine_, kFirst, token_range(0, 900)), rows);
  engine_->memory().clear(kFirst);
  EXPECT_EQ(prefill(*engine_, kSecond, prompt_), DecodeStatus::kOk);
  EXPECT_EQ(engine_->memory().cells_used(), 300U);
}

TEST_F(EngineFailureTest, CancelledBeforeADecodeNothingIsDecoded) {
  engine_->cancel();
  EXPECT_EQ(prefill(*engine_, kFirst, prompt_), DecodeStatus::kAborted);
  EXPECT_EQ(engine_->tokens_decoded(), 0U);
  engine_->reset_cancel();
  EXPECT_EQ(prefill(*engine_, kFirst, prompt_), DecodeStatus::kOk);
  EXPECT_EQ(engine_->tokens_decoded(), 300U);
}

// Cancels somewhere in the middle of a long decode; repeats until it hits.
TEST_F(EngineFailureTest, CancelledInADecodeTheSequenceIsUsableAfterClear) {
  ModelOptions options = tiny_options();
  options.n_ctx = 2048;
  options.n_ubatch = 64;
  const auto engine = load_or_die(options);
  const auto prompt = make_prompt(1500, 3);
  ASSERT_EQ(prefill(*engine, kSecond, prompt_), DecodeStatus::kOk);
  const auto resident = save(*engine, kSecond, token_range(0, 300));
  DecodeStatus status = DecodeStatus::kOk;
  for (int attempt = 0; attempt < 50 && status == DecodeStatus::kOk; ++attempt) {
    engine->memory().clear(kFirst);
    engine->reset_cancel();
    std::thread canceller([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      engine->cancel();
    });
    status = prefill(*engine, kFirst, prompt, 1500);
    canceller.join();
  }
  EXPECT_EQ(status, DecodeStatus::kAborted);
  EXPECT_EQ(engine->memory().length(kFirst), Position{0});
  EXPECT_EQ(engine->memory().cells_used(), 300U);
  engine->memory().clear(kFirst);
  engine->reset_cancel();
  EXPECT_EQ(save(*engine, kSecond, token_range(0, 300)), resident);
  EXPECT_EQ(prefill(*engine, kFirst, prompt, 1500), DecodeStatus::kOk);
  EXPECT_EQ(engine->memory().length(kFirst), Position{1500});
}

}  // namespace
}  // namespace kvkeep::engine::llama
