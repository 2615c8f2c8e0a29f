// Points that stay in RAM until a request uses them: never written before, written like others after.

#include "cache/cache_test_fixture.h"

namespace kvkeep::cache {
namespace {

class CacheKeeping : public testing::TestWithParam<ModelClass> {
 protected:
  CacheKeeping() {
    one_.model = GetParam();
    EXPECT_TRUE(one_.open());
  }
  bool capture_leaf(const Tokens& tokens, Keeping keeping) {
    OneSequence memory(tokens, GetParam());
    return capture_point(*one_.cache, memory, SeqId{0}, tokens, one_.cache->track(tokens), keeping).complete;
  }
  // A path with a point only in RAM at 50 and one at 100 that is written.
  Tokens conversation_with_both() {
    Tokens tokens = conversation(10, 100);
    EXPECT_EQ(one_.grow(head(tokens, 50)), 50U);
    EXPECT_TRUE(capture_leaf(head(tokens, 50), Keeping::kInRamUntilUsed));
    EXPECT_EQ(one_.grow(tokens), 100U);
    EXPECT_TRUE(capture_leaf(tokens, Keeping::kOnDisk));
    one_.writer.run_all();
    return tokens;
  }
  using Places = std::vector<std::size_t>;
  World one_;
};

INSTANTIATE_TEST_SUITE_P(Classes, CacheKeeping, testing::Values(kHybridModel, kRecurrentModel, kOpaqueModel),
                         [](const auto& model) { return std::string(model.param.name); });

TEST_P(CacheKeeping, ARestartForgetsAnUnusedPoint) {
  const Tokens tokens = conversation_with_both();
  EXPECT_EQ(one_.restorable(tokens), (Places{50, 100}));
  EXPECT_EQ(one_.cache->lease(tokens)->points().front().tier, Tier::kRam);
  ASSERT_TRUE(one_.restart());
  EXPECT_EQ(one_.restorable(tokens), Places{100}) << "what continued it did not take it along";
}

TEST_P(CacheKeeping, OnceUsedItIsWritten) {
  const Tokens tokens = conversation_with_both();
  one_.cache->note_use(*one_.cache->lease(tokens), Position{50});
  one_.writer.run_all();
  ASSERT_TRUE(one_.restart());
  EXPECT_EQ(one_.restorable(tokens), (Places{50, 100}));
}

TEST_P(CacheKeeping, UsingAnotherPointOfThePathIsNoUseOfIt) {
  const Tokens tokens = conversation_with_both();
  one_.cache->note_use(*one_.cache->lease(tokens), Position{100});
  one_.writer.run_all();
  ASSERT_TRUE(one_.restart());
  EXPECT_EQ(one_.restorable(tokens), Places{100});
}

TEST_P(CacheKeeping, ALaterCaptureToKeepWritesThePoint) {
  const Tokens tokens = conversation_with_both();
  EXPECT_TRUE(capture_leaf(head(tokens, 50), Keeping::kInRamUntilUsed));
  EXPECT_TRUE(capture_leaf(head(tokens, 50), Keeping::kOnDisk));
  one_.writer.run_all();
  ASSERT_TRUE(one_.restart());
  EXPECT_EQ(one_.restorable(tokens), (Places{50, 100}));
}

TEST_P(CacheKeeping, ItIsForgottenLikeOthers) {
  const Tokens tokens = conversation_with_both();
  one_.cache->forget_points(tokens, {Position{50}});
  EXPECT_EQ(one_.restorable(tokens), Places{100});
}

TEST_P(CacheKeeping, ItLeavesTheStagingBufferThatOthersWaitFor) {
  conversation_with_both();
  EXPECT_GT(one_.cache->stats().staging_idle, ByteCount{});
}

}  // namespace
}  // namespace kvkeep::cache
