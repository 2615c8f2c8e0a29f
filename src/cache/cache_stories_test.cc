// Random stories over the whole cache, compared with a naive map: conversations, background work in any order, held
// paths, pressure, ends of the process, faults. A story that fails is made as short as possible and printed.

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/state.h>

#include <cstdio>
#include <cstdlib>
#include <sstream>

#include "base/test_seed.h"
#include "cache/story_fixture.h"

namespace kvkeep::cache {
namespace {

// ---- steps ----

enum class Step {
  kKeep,
  kLook,
  kWork,
  kHold,
  kRelease,
  kFlush,
  kKill,
  kPowerCut,
  kTick,
  kKeepFor,
  kBudget,
  kFault,
  kHeal,
  kDamage
};

// Tokens as runs of one id, so that prompts share beginnings and a story can be read.
struct Run {
  TokenId id = 0;
  std::size_t count = 0;
};
using Runs = std::vector<Run>;

Tokens tokens_of(const Runs& runs) {
  Tokens tokens(8, TokenId{9});  // shorter prefixes are not worth a file
  for (const Run& run : runs) tokens.insert(tokens.end(), run.count, run.id);
  return tokens;
}

std::string text_of(const Runs& runs) {
  std::ostringstream text;
  for (const Run& run : runs) text << ' ' << run.id << 'x' << run.count;
  return runs.empty() ? " (the least)" : text.str();
}

// All that matters is in the story itself.
struct Nothing {};

class Act final : public rc::state::Command<Nothing, Story> {
 public:
  Act(Step step, Runs runs, std::size_t number, std::size_t other)
      : step_(step), runs_(std::move(runs)), number_(number), other_(other) {}

  void run(const Nothing&, Story& story) const override {
    for (std::string& complaint : complaints_of([&] {
           play(story);
           story.settle();
         })) {
      story.complain(std::move(complaint));
    }
    if (!story.complaints().empty()) RC_FAIL(story.complaints().front());
  }

  void show(std::ostream& out) const override {
    switch (step_) {
      case Step::kKeep: out << "keep" << text_of(runs_) << " in pieces of " << piece(); return;
      case Step::kLook: out << "look" << text_of(runs_); return;
      case Step::kWork: out << "work " << number_; return;
      case Step::kHold: out << "hold" << text_of(runs_); return;
      case Step::kRelease: out << "release"; return;
      case Step::kFlush: out << "flush"; return;
      case Step::kKill: out << "kill"; return;
      case Step::kPowerCut: out << "power cut"; return;
      case Step::kTick: out << "tick " << number_ << " minutes"; return;
      case Step::kKeepFor: out << "keep" << text_of(runs_) << " for " << number_ << " minutes"; return;
      case Step::kBudget: out << "budget " << number_; return;
      case Step::kFault:
        out << "fault " << sim::kFaults[other_ % std::size(sim::kFaults)].name << " at " << number_;
        return;
      case Step::kHeal: out << "heal"; return;
      case Step::kDamage: out << "damage file " << number_ << " byte " << other_; return;
    }
  }

 private:
  std::size_t piece() const { return 5 + other_ % 16; }

  void play(Story& story) const {
    const Tokens tokens = tokens_of(runs_);
    switch (step_) {
      case Step::kKeep: return story.keep(tokens, piece());
      case Step::kLook: return story.look(tokens);
      case Step::kWork: return story.work(number_);
      case Step::kHold: return story.hold(tokens);
      case Step::kRelease: return story.release();
      case Step::kFlush: return story.flush();
      case Step::kKill: return story.end(false);
      case Step::kPowerCut: return story.end(true);
      case Step::kTick: return story.tick(number_);
      case Step::kKeepFor: return story.keep_for(tokens, number_);
      case Step::kBudget: return story.change_budget(number_);
      case Step::kFault: return story.fault(other_, 1 + number_);
      case Step::kHeal: return story.heal();
      case Step::kDamage: return story.damage(number_, other_);
    }
  }

  const Step step_;
  const Runs runs_;
  const std::size_t number_;
  const std::size_t other_;
};

using Command = rc::state::Command<Nothing, Story>;

rc::Gen<std::shared_ptr<const Command>> any_act(const Nothing&) {
  const auto step = rc::gen::weightedElement<Step>({{8, Step::kKeep},
                                                    {6, Step::kLook},
                                                    {5, Step::kWork},
                                                    {2, Step::kHold},
                                                    {2, Step::kRelease},
                                                    {2, Step::kFlush},
                                                    {1, Step::kKill},
                                                    {1, Step::kPowerCut},
                                                    {1, Step::kTick},
                                                    {1, Step::kKeepFor},
                                                    {1, Step::kBudget},
                                                    {2, Step::kFault},
                                                    {1, Step::kHeal},
                                                    {1, Step::kDamage}});
  const auto run = rc::gen::map(
      rc::gen::tuple(rc::gen::inRange<TokenId>(0, 3), rc::gen::element<std::size_t>(3, 9, 17, 30)),
      [](const std::tuple<TokenId, std::size_t>& parts) { return Run{std::get<0>(parts), std::get<1>(parts)}; });
  const auto runs = rc::gen::mapcat(rc::gen::inRange<std::size_t>(0, 5),
                                    [run](std::size_t count) { return rc::gen::container<Runs>(count, run); });
  const auto number = rc::gen::resize(100, rc::gen::inRange<std::size_t>(0, 30));
  const auto other = rc::gen::resize(100, rc::gen::inRange<std::size_t>(0, 1000));
  return rc::gen::map(rc::gen::tuple(step, runs, number, other),
                      [](const std::tuple<Step, Runs, std::size_t, std::size_t>& parts) {
                        const auto& [chosen, chosen_runs, chosen_number, chosen_other] = parts;
                        return std::shared_ptr<const Command>(
                            std::make_shared<const Act>(chosen, chosen_runs, chosen_number, chosen_other));
                      });
}

// ---- stories ----

constexpr int kMostSteps = 200;

bool is_long_run() { return std::getenv("KVKEEP_STORIES") != nullptr; }
int stories() { return is_long_run() ? std::atoi(std::getenv("KVKEEP_STORIES")) : 150; }
// The everyday run plays the same stories each time.
std::uint64_t seed_of_this_run() {
  return is_long_run() || std::getenv("KVKEEP_TEST_SEED") != nullptr ? test_seed() : 20261121;
}

// The third tier's work in all stories.
struct FarWork {
  std::size_t puts = 0;
  std::size_t gets = 0;
};

// The failure, with its story; empty: none.
std::string tell(const ModelClass& model, const StoryKind& kind, int count, std::uint64_t seed, bool shrink,
                 FarWork* far = nullptr, bool lies = false) {
  const Quiet quiet;
  rc::detail::TestParams params;
  params.seed = seed;
  params.maxSuccess = count;
  params.maxSize = kMostSteps;
  params.disableShrinking = !shrink;
  const auto result = rc::detail::checkTestable(
      [&] {
        const auto story_seed = *rc::gen::resize(100, rc::gen::inRange<std::uint64_t>(0, 1'000'000));
        const auto acts = *rc::state::gen::commands(Nothing{}, any_act);
        Story story(model, kind, story_seed);
        if (lies) story.shaky()->lies = true;
        rc::state::runAll(acts, Nothing{}, story);
        for (std::string& complaint : complaints_of([&] { story.finish(); })) story.complain(std::move(complaint));
        if (far != nullptr && story.shaky() != nullptr) {
          far->puts += story.shaky()->puts;
          far->gets += story.shaky()->gets;
        }
        if (!story.complaints().empty()) RC_FAIL(story.complaints().front());
      },
      rc::detail::TestMetadata{}, params);
  if (result.template is<rc::detail::SuccessResult>()) return "";
  std::ostringstream out;
  out << model.name << ", " << kind.name << ", KVKEEP_TEST_SEED=" << seed << "\n";
  rc::detail::printResultMessage(result, out);
  return out.str();
}

using Told = std::tuple<ModelClass, StoryKind>;
class CacheStories : public testing::TestWithParam<Told> {};

INSTANTIATE_TEST_SUITE_P(All, CacheStories,
                         testing::Combine(testing::ValuesIn(kClasses),
                                          testing::Values(kAmple, kTight, kFaulty, kAmpleShaky, kTightShaky,
                                                          kFaultyShaky)),
                         [](const testing::TestParamInfo<Told>& told) {
                           return std::string(std::get<0>(told.param).name) + std::get<1>(told.param).name;
                         });

TEST_P(CacheStories, AgreeWithTheNaiveMap) {
  const auto& [model, kind] = GetParam();
  FarWork far;
  EXPECT_EQ(tell(model, kind, stories(), seed_of_this_run(), true, &far), "");
  if (!kind.shaky) return;
  std::printf("the third tier took %zu and gave back %zu\n", far.puts, far.gets);
  EXPECT_GT(far.puts, 0U);
  // With only points the rows have no bytes, and the points may all be in RAM.
  if (kind.tight && model.row_bytes > 0) {
    EXPECT_GT(far.gets, 0U) << "nothing was ever read from it";
  }
}

// ---- a mistake ----

// A third tier that gives other bytes than it took breaks the port's word, which the stories must notice.
TEST(CacheStoriesWithAThirdTier, NoticeThatItLies) {
  const std::string story = tell(kRowsModel, kTightShaky, 150, 2, true, nullptr, true);
  std::printf("%s\n", story.c_str());
  EXPECT_NE(story.find("keep"), std::string::npos) << "no story shows it";
  EXPECT_LT(std::ranges::count(story, '\n'), 20) << "the story was not made short";
}

}  // namespace
}  // namespace kvkeep::cache
