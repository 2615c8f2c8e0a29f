// Random histories in every class of models. With faults, restarts and full budgets: only right bytes. Without: what
// can be reached is exactly what a naive twin says, which remembers every token ever captured.

#include <cstdio>
#include <cstdlib>
#include <random>
#include <set>
#include <sstream>

#include "cache/cache_test_fixture.h"
#include "explain/comparison.h"

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

// ---- the known text that is nearest to a prompt ----

std::size_t shared_beginning(const Tokens& a, const Tokens& b) { return common_prefix(a, b); }

// The twin: how many stretches of the prompt a known text has, both from where they differ on.
std::size_t shared_stretches_after(const Tokens& prompt, const Tokens& known, std::size_t at) {
  const auto stretches = [at](const Tokens& tokens) {
    std::set<Tokens> found;
    for (std::size_t i = at; i + explain::kLeastRun <= tokens.size(); ++i) {
      const auto begin = tokens.begin() + static_cast<std::ptrdiff_t>(i);
      found.emplace(begin, begin + static_cast<std::ptrdiff_t>(explain::kLeastRun));
    }
    return found;
  };
  const std::set<Tokens> mine = stretches(prompt);
  return static_cast<std::size_t>(
      std::ranges::count_if(stretches(known), [&](const Tokens& each) { return mine.contains(each); }));
}

// Texts of a few phrases that leave each other anywhere.
Tokens phrases(std::mt19937_64& random) {
  Tokens made;
  for (std::size_t count = 1 + random() % 5; count > 0; --count) {
    const TokenId first = 100 + 40 * static_cast<TokenId>(random() % 3);
    for (TokenId i = 0; i < static_cast<TokenId>(9 + random() % 9); ++i) made.push_back(first + i);
  }
  return made;
}

std::string check_nearest(World& world, const std::vector<Tokens>& texts, const Tokens& prompt) {
  const Branch found = world.cache->branch(prompt, SIZE_MAX);
  std::size_t at = 0;
  for (const Tokens& text : texts) at = std::max(at, shared_beginning(text, prompt));
  if (found.at.value() != at) return "the wrong place";
  std::size_t most = 0;
  bool any = false;
  for (const Tokens& text : texts) {
    if (shared_beginning(text, prompt) < at || text.size() == at) continue;
    any = true;
    most = std::max(most, shared_stretches_after(prompt, text, at));
  }
  if (found.next.empty()) return any ? "no known text where there is some" : "";
  const Tokens whole = head(prompt, at) + found.next;
  if (std::ranges::find(texts, whole) == texts.end()) return "a text that nobody stored";
  const std::size_t shared = prompt.size() - at < explain::kLeastRun ? most : shared_stretches_after(prompt, whole, at);
  return shared == most ? "" : "another text has more in common";
}

TEST(NearestKnownText, HasMostInCommon) {
  const std::uint64_t seed = history_seed();
  for (std::uint64_t round = 0; round < 300; ++round) {
    std::mt19937_64 random(seed + round);
    World world;
    world.open_without_disk();
    std::vector<Tokens> texts;
    for (std::size_t i = 0; i < explain::kMostAlike; ++i) {
      texts.push_back(phrases(random));
      world.clock.advance_ms(1);
      ASSERT_TRUE(world.keep(texts.back(), 1 + random() % 30));
      const Tokens prompt = phrases(random);
      ASSERT_EQ(check_nearest(world, texts, prompt), "") << "seed " << seed << " round " << round << " text " << i;
    }
  }
}

TEST(NearestKnownText, OfEqualOnesIsTheNewest) {
  World world;
  world.open_without_disk();
  const Tokens begin = conversation(100, 40);
  const Tokens end = conversation(300, 40);
  for (const TokenId value : {1, 2, 3}) {
    world.clock.advance_ms(1);
    ASSERT_TRUE(world.keep(begin + Tokens{value} + end));
  }
  EXPECT_EQ(world.cache->branch(begin + Tokens{9} + end, SIZE_MAX).next, Tokens{3} + end);
  world.clock.advance_ms(1);
  world.use(begin + Tokens{2} + end);
  EXPECT_EQ(world.cache->branch(begin + Tokens{9} + end, SIZE_MAX).next, Tokens{2} + end);
  EXPECT_EQ(world.cache->branch(begin + Tokens{9} + end, 3).next, head(Tokens{2} + end, 3));
}

// Many new texts that leave one text late hide no older one that differs early.
TEST(NearestKnownText, IsFoundAmongManyForms) {
  World world;
  world.open_without_disk();
  const Tokens begin = conversation(100, 40);
  const Tokens end = conversation(300, 60);
  ASSERT_TRUE(world.keep(begin + Tokens{1} + end));
  for (TokenId value = 0; value < 40; ++value) {
    world.clock.advance_ms(1);
    ASSERT_TRUE(world.keep(begin + Tokens{2} + conversation(500, 50) + Tokens{1000 + value} + conversation(700, 20)));
  }
  EXPECT_EQ(world.cache->branch(begin + Tokens{9} + end, SIZE_MAX).next, Tokens{1} + end);
}

}  // namespace
}  // namespace kvkeep::cache
