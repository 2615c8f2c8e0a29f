#include "bench/run/replay_counts.h"

#include <gtest/gtest.h>

namespace kvkeep::bench {
namespace {

Exchange answered(std::optional<std::uint64_t> prefilled, std::optional<std::uint64_t> reply_tokens) {
  Exchange exchange;
  exchange.sent = true;
  exchange.status = 200;
  exchange.dialect = Dialect::kOpenAiChat;
  exchange.facts.prompt_tokens = 100;
  exchange.facts.prefilled_tokens = prefilled;
  exchange.facts.reply_tokens = reply_tokens;
  return exchange;
}

Exchange failed(int status) {
  Exchange exchange = answered({}, {});
  exchange.status = status;
  exchange.facts.error = "no";
  return exchange;
}

std::string problem_of(const std::vector<Exchange>& exchanges, std::uint64_t decoded) {
  return check_claims(exchanges, decoded).problem;
}

TEST(ReplayClaims, HoldWhereTheEngineSawAsMuch) {
  EXPECT_EQ(problem_of({answered(90, 11), answered(20, 1), answered(3, 0)}, 123), "");
  EXPECT_EQ(problem_of({}, 0), "");
}

TEST(ReplayClaims, DifferEitherWay) {
  EXPECT_EQ(problem_of({answered(90, 11)}, 101),
            "the replies say that 100 ids were computed (prefilled, or sampled and fed back), the engine saw 101");
  EXPECT_NE(problem_of({answered(90, 11)}, 99), "");
}

TEST(ReplayClaims, RefusedRequestsCostNothingAndBrokenOnesAnything) {
  EXPECT_EQ(problem_of({answered(90, 11), failed(400)}, 100), "");
  EXPECT_NE(problem_of({answered(90, 11), failed(400)}, 130), "");
  for (const int status : {0, 200, 500}) {
    EXPECT_EQ(problem_of({answered(90, 11), failed(status)}, 130), "");
    EXPECT_NE(problem_of({answered(90, 11), failed(status)}, 99), "") << "less than was claimed";
  }
}

TEST(ReplayClaims, OtherRequestsAndThoseThatWereNotSentDoNotMatter) {
  Exchange models = answered({}, {});
  models.dialect = Dialect::kOther;
  Exchange unsent = answered({}, {});
  unsent.sent = false;
  EXPECT_EQ(problem_of({answered(90, 11), models, unsent}, 100), "");
}

TEST(ReplayClaims, ThatAreMissingAreReplacedByTheCount) {
  EXPECT_EQ(problem_of({answered({}, 11), answered(20, 1)}, 110),
            "100 ids were prefilled in all, counted at the engine");
}

TEST(ReplayClaims, CannotBeCheckedWhereNothingIsSeen) {
  EXPECT_TRUE(problem_of({answered(90, 11)}, 0).starts_with("nothing was counted at the engine"));
  EXPECT_TRUE(problem_of({answered({}, 11)}, 0).starts_with("nothing was counted at the engine"));
}

TEST(ReplayClaims, AreConfirmedOrContradictedOrNeither) {
  using enum ClaimsCheck::Verdict;
  const auto verdict = [](const std::vector<Exchange>& exchanges, std::uint64_t decoded) {
    return check_claims(exchanges, decoded).verdict;
  };
  EXPECT_EQ(verdict({answered(90, 11), failed(400)}, 100), kHold);
  EXPECT_EQ(verdict({answered(90, 11)}, 101), kDiffer);
  EXPECT_EQ(verdict({answered(90, 11), failed(0)}, 99), kDiffer);
  EXPECT_EQ(verdict({answered(90, 11), failed(0)}, 130), kUnknown) << "the broken one may have cost anything";
  EXPECT_EQ(verdict({answered({}, 11)}, 100), kUnknown);
  EXPECT_EQ(verdict({answered(90, 11)}, 0), kUnknown);
}

}  // namespace
}  // namespace kvkeep::bench
