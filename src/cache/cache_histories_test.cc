// Random histories in every class of models. With faults, restarts and full budgets: only right bytes. Without: what
// can be reached is exactly what a naive twin says, which remembers every token ever captured.

#include <cstdio>
#include <cstdlib>
#include <random>
#include <set>
#include <sstream>

#include "cache/cache_test_fixture.h"

namespace kvkeep::cache {
namespace {

std::uint32_t history_seed() {
  const char* given = std::getenv("KVKEEP_TEST_SEED");
  const auto seed = given != nullptr ? static_cast<std::uint32_t>(std::atoi(given)) : 20261120U;
  std::printf("seed %u (KVKEEP_TEST_SEED)\n", seed);
  return seed;
}

// Conversations over three tokens, so that they share beginnings and branch.
class Conversations {
 public:
  explicit Conversations(std::mt19937& random) : random_(random) {}
  Tokens next() {
    Tokens tokens = any();
    if (random_() % 3 == 0) tokens.resize(random_() % (tokens.size() + 1));
    for (auto more = random_() % 24; more > 0; --more) tokens.push_back(static_cast<TokenId>(random_() % 3));
    if (tokens.size() > 120) tokens.resize(40);
    known_.push_back(tokens);
    return tokens;
  }
  Tokens any() { return known_[random_() % known_.size()]; }
  // A part of one of them, not empty.
  Tokens any_head() {
    const Tokens tokens = any();
    return tokens.empty() ? known_.front() : head(tokens, 1 + random_() % tokens.size());
  }

 private:
  std::mt19937& random_;
  std::vector<Tokens> known_{{1, 2, 3}};
};

class CacheHistories : public testing::TestWithParam<ModelClass> {};

INSTANTIATE_TEST_SUITE_P(Classes, CacheHistories,
                         testing::Values(kRowsModel, kWindowedModel, kHybridModel, kRecurrentModel, kOpaqueModel),
                         [](const auto& model) { return std::string(model.param.name); });

TEST_P(CacheHistories, GiveOnlyRightBytes) {
  std::mt19937 random(history_seed());
  for (int round = 0; round < 30; ++round) {
    World world(ByteCount{random() % 3 == 0 ? 0U : 4000U}, ByteCount{(10 + random() % 60) * 8192}, random());
    world.model = GetParam();
    if (round % 2 == 1) world.shaky = std::make_unique<ShakyTier>(random());
    ASSERT_TRUE(world.open());
    Conversations conversations(random);
    for (int step = 0; step < 120; ++step) {
      if (random() % 3 == 0) world.far_writer.run_one();
      const Tokens tokens = conversations.next();
      switch (random() % 8) {
        case 0: world.writer.run_all(); break;
        case 1: world.writer.run_one(); break;
        case 2:
          world.die();
          if (random() % 2 == 0) {
            world.files.power_cut();
          } else {
            world.files.kill();
          }
          world.files.heal();
          ASSERT_TRUE(world.open());
          break;
        case 3: world.files.set_plan({FaultKind::kFailOnce, 1 + random() % 20}); break;
        case 4: (void)world.capture_leaf(conversations.any_head()); break;
        default: world.keep(tokens, 1 + random() % 20); break;
      }
      const Tokens prompt = conversations.any();
      ASSERT_LE(world.check(prompt), 120U);
      if (GetParam().shape.needs_points()) (void)world.restorable(prompt);
      ASSERT_LE(world.store->used(), world.store->budget());
    }
  }
}

// ---- the twin ----

// A mutant of the twin or of the captures goes wrong here: the comparison must see each of them.
enum class Mutant {
  kNone,
  kShortWindow,      // takes a position to be restorable one token before its window is whole
  kLongWindow,       // or one after
  kForgetsOlder,     // a later point replaces an earlier one on its path
  kForgetsSiblings,  // a point in a branch replaces those of the others
  kWrongPlace,       // the point of the token before
};

// Every prefix that ever had a point, or window rows of its last token.
class Twin {
 public:
  Twin(const StateShape& shape, Mutant mutant) : shape_(shape), mutant_(mutant) {}

  void capture(const Tokens& tokens) {
    if (shape_.window_tokens == 0) {
      std::erase_if(kept_, [&](const Tokens& old) { return replaces(tokens, old); });
      kept_.insert(mutant_ == Mutant::kWrongPlace ? head(tokens, tokens.size() - 1) : tokens);
      return;
    }
    for (std::size_t end = tokens.size() - std::min(tokens.size(), window()) + 1; end <= tokens.size(); ++end) {
      kept_.insert(head(tokens, end));
    }
  }

  std::vector<std::size_t> restorable(const Tokens& prompt) const {
    std::vector<std::size_t> found;
    for (std::size_t at = 1; at <= prompt.size(); ++at) {
      if (shape_.window_tokens > 0 ? covered(prompt, at) : kept_.contains(head(prompt, at))) found.push_back(at);
    }
    return found;
  }

 private:
  std::size_t window() const {
    const int change = mutant_ == Mutant::kShortWindow ? -1 : mutant_ == Mutant::kLongWindow ? 1 : 0;
    return static_cast<std::size_t>(static_cast<int>(shape_.window_tokens) + change);
  }
  bool covered(const Tokens& prompt, std::size_t at) const {
    for (std::size_t end = at - std::min(at, window()) + 1; end <= at; ++end) {
      if (!kept_.contains(head(prompt, end))) return false;
    }
    return true;
  }
  bool replaces(const Tokens& tokens, const Tokens& old) const {
    const std::size_t common = common_prefix(tokens, old);
    if (mutant_ == Mutant::kForgetsOlder) return common == old.size() && old.size() < tokens.size();
    return mutant_ == Mutant::kForgetsSiblings && common > 0 && common < old.size() && common < tokens.size();
  }

  const StateShape shape_;
  const Mutant mutant_;
  std::set<Tokens> kept_;
};

// The first difference between the cache and the twin over random histories; empty: none.
std::string compare(const ModelClass& model, Mutant mutant, std::uint32_t seed, int rounds) {
  std::mt19937 random(seed);
  for (int round = 0; round < rounds; ++round) {
    World world(ByteCount{1U << (10 + random() % 14)}, mebibytes(64), random());
    world.model = model;
    if (!world.open()) return "the cache does not open";
    Conversations conversations(random);
    Twin twin(model.shape, mutant);
    for (int step = 0; step < 60; ++step) {
      if (random() % 6 == 0) {
        world.writer.run_all();
        // Prefixes too short for a file are gone: keep something that writes them too.
        if (random() % 2 == 0 && !world.restart()) return "the cache does not open again";
      }
      Tokens tokens = conversations.next();
      if (random() % 3 == 0) tokens = conversations.any_head();
      if (tokens.size() < 8) continue;
      if (!world.keep(tokens, 1 + random() % 20)) return "refused although there is room";
      twin.capture(tokens);
      const Tokens prompt = conversations.any();
      const auto expected = twin.restorable(prompt);
      const auto found = world.restorable(prompt);
      if (found == expected) continue;
      std::ostringstream difference;
      difference << "seed " << seed << " round " << round << " step " << step << ": the cache can be restored at "
                 << testing::PrintToString(found) << ", the twin at " << testing::PrintToString(expected);
      return difference.str();
    }
  }
  return "";
}

class CacheComparedWithATwin : public testing::TestWithParam<ModelClass> {};

INSTANTIATE_TEST_SUITE_P(Classes, CacheComparedWithATwin, testing::ValuesIn(kPointModels),
                         [](const auto& model) { return std::string(model.param.name); });

TEST_P(CacheComparedWithATwin, ReachesExactlyWhatItSays) {
  EXPECT_EQ(compare(GetParam(), Mutant::kNone, history_seed(), 20), "");
}

TEST(CacheHistoriesMutants, AreCaught) {
  for (const Mutant mutant : {Mutant::kShortWindow, Mutant::kLongWindow}) {
    EXPECT_NE(compare(kWindowedModel, mutant, 1, 40), "") << static_cast<int>(mutant);
  }
  for (const Mutant mutant : {Mutant::kForgetsOlder, Mutant::kForgetsSiblings, Mutant::kWrongPlace}) {
    EXPECT_NE(compare(kHybridModel, mutant, 1, 40), "") << static_cast<int>(mutant);
  }
}

}  // namespace
}  // namespace kvkeep::cache
