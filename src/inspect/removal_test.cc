#include "inspect/removal.h"

#include <algorithm>
#include <set>

#include "format/built_state.h"
#include "inspect/model_notes.h"
#include "inspect/sample_directory_test.h"
#include "inspect/verify.h"
#include "testing/sim/sim_executor.h"

namespace kvkeep::inspect {
namespace {

using format::PartKind;

class Removals : public testing::Test {
 protected:
  // Conversation 1 has four segments and a point; conversation 2 leaves it after two; conversation 3 shares nothing and
  // has a point.
  void SetUp() override {
    for (std::uint32_t i = 0; i < 4; ++i) segments_.push_back(sim::sample_segment(kModel, 1, i, 5000));
    segments_.push_back(branch(2, 2, 2, 1, 5000));
    segments_.push_back(sim::sample_segment(kModel, 3, 0, 5000));
    segments_.push_back(sim::sample_leaf(kModel, 1, 3, PartKind::kPoint, 70));
    segments_.push_back(sim::sample_leaf(kModel, 3, 0, PartKind::kPoint, 70));
    directory_.store(segments_);
  }

  IdTarget run_of(const Forest& forest, std::size_t segment) {
    return forest.ids.find(segments_[segment].header.name.end_hash.hex()).value();
  }
  bool there(std::size_t segment) {
    return directory_.files().contents(directory_.path_of(segments_[segment])).has_value();
  }
  bool clean() {
    sim::SimExecutor executor;
    return verify(directory_.files(), find_models(directory_.files(), kRoot).value(), {&executor})->clean();
  }
  std::vector<Removal> collected(CollectOptions options) {
    options.now_ns = directory_.clock().wall_ns() + 3600 * std::int64_t{1'000'000'000};
    return collect(directory_.forest(), options);
  }
  // Makes uses differ: conversation 3 was used last.
  void set_times() {
    for (std::size_t i = 0; i < segments_.size(); ++i) {
      const std::int64_t age_s = i == 5 || i == 7 ? 10 : 100'000;
      ASSERT_TRUE(directory_.files().set_modified(directory_.path_of(segments_[i]),
                                                  directory_.clock().wall_ns() - age_s * 1'000'000'000));
    }
  }

  SampleDirectory directory_;
  std::vector<sim::SampleSegment> segments_;
};

TEST_F(Removals, ALineGoesWithWhatHangsBelowIt) {
  const Forest forest = directory_.forest();
  const auto branch_alone = removals_of(forest, {run_of(forest, 4)});
  ASSERT_EQ(branch_alone.size(), 1U);
  const auto all = removals_of(forest, {run_of(forest, 0), run_of(forest, 4)});
  EXPECT_EQ(all.size(), 6U) << "each once";
  const RemovalReport report = remove_all(&directory_.files(), all);
  EXPECT_EQ(report.all().files, 6U);
  EXPECT_EQ(report.failed, 0U);
  EXPECT_TRUE(there(5));
  EXPECT_FALSE(there(0));
  EXPECT_TRUE(clean());
}

TEST_F(Removals, ConversationsThatLeaveALineBeforeItsEndAreCounted) {
  directory_.store({leaving_in_the_middle(5000)});
  const Forest forest = directory_.forest();
  EXPECT_EQ(other_conversations(forest, {run_of(forest, 0)}), 0U) << "both conversations below go on from its end";
  EXPECT_EQ(other_conversations(forest, {run_of(forest, 5)}), 1U);
  EXPECT_EQ(removals_of(forest, {run_of(forest, 5)}).size(), 3U);
  const IdTarget leaving = forest.ids.find(leaving_in_the_middle(5000).header.name.end_hash.hex()).value();
  EXPECT_EQ(other_conversations(forest, {run_of(forest, 5), leaving}), 0U) << "it is named";
}

TEST_F(Removals, AConversationIsCountedThoughAnotherLeavesIt) {
  const sim::SampleSegment leaving = leaving_in_the_middle(5000);
  sim::SampleSegment second = leaving;  // leaves it after its first token
  PrefixHasher hasher(kModel);
  hasher.append(TokenSpan(segments_[5].header.tokens).first(4));
  hasher.append(TokenSpan(leaving.header.tokens).first(1));
  second.header.tokens = {9};
  second.header.name.begin = hasher.position();
  second.header.name.begin_hash = hasher.current();
  hasher.append(second.header.tokens);
  second.header.name.end = hasher.position();
  second.header.name.end_hash = hasher.current();
  directory_.store({leaving, second});
  const Forest forest = directory_.forest();
  EXPECT_EQ(other_conversations(forest, {run_of(forest, 5)}), 2U);
  const IdTarget named = forest.ids.find(second.header.name.end_hash.hex()).value();
  EXPECT_EQ(other_conversations(forest, {run_of(forest, 5), named}), 1U);
}

TEST_F(Removals, NothingChangesInADryRun) {
  const Forest forest = directory_.forest();
  const RemovalReport report = remove_all(nullptr, removals_of(forest, {run_of(forest, 0)}));
  EXPECT_EQ(report.all().files, 6U);
  EXPECT_TRUE(there(0) && there(6));
}

// Wherever a removal is interrupted, the rest has no hole.
TEST_F(Removals, ChildrenGoFirstUnderFaults) {
  for (const sim::FaultKind kind : {sim::FaultKind::kCrash, sim::FaultKind::kFailOnce, sim::FaultKind::kFailForever}) {
    for (std::uint64_t at = 1;; ++at) {
      directory_.store(segments_);
      directory_.store({leaving_in_the_middle(5000)});
      const Forest forest = directory_.forest();
      directory_.files().set_plan({kind, at});
      (void)remove_all(&directory_.files(), removals_of(forest, {run_of(forest, 0), run_of(forest, 5)}));
      const bool fired = directory_.files().fault_fired();
      directory_.files().heal();
      if (directory_.files().crashed()) directory_.files().kill();
      EXPECT_TRUE(clean()) << at;
      if (!fired) break;
    }
  }
}

TEST_F(Removals, AWholeModelGoes) {
  directory_.store({sim::sample_segment(kOtherModel, 5, 0, 10)}, kOtherModel);
  const Forest forest = directory_.forest();
  const auto removals = removals_of_model(directory_.files(), forest.directory.models.front()).value();
  EXPECT_EQ(removals.back().file, "index");
  EXPECT_EQ(remove_all(&directory_.files(), removals).all().files, segments_.size() + 1);
  EXPECT_EQ(directory_.forest().directory.models.front().files.segments.size(), 0U);
  EXPECT_EQ(directory_.forest().directory.models.back().files.segments.size(), 1U);
}

TEST_F(Removals, AModelWithNothingInItGoesAsAWhole) {
  directory_.store({sim::sample_segment(kOtherModel, 5, 0, 10)}, kOtherModel);
  const Forest forest = directory_.forest();
  const ModelDirectory& first = forest.directory.models.front();
  directory_.files().plant(first.path + "/" + std::string(store::kModelNoteName), std::vector<std::byte>(10));
  std::vector<Removal> removals;
  add_empty_models(directory_.files(), forest.directory, removals);
  EXPECT_TRUE(removals.empty()) << "something is stored in both";
  const std::vector<Removal> all = removals_of_model(directory_.files(), first).value();
  for (const Removal& removal : all) {
    if (removal.file != store::kIndexName) removals.push_back(removal);
  }
  add_empty_models(directory_.files(), forest.directory, removals);
  EXPECT_EQ(removals.back().why, Why::kEmpty);
  const RemovalReport report = remove_all(&directory_.files(), removals);
  EXPECT_EQ(report.failed, 0U);
  EXPECT_EQ(report.all().files, segments_.size() + 2) << "the index and the note too; a directory is no file";
  ASSERT_EQ(directory_.forest().directory.models.size(), 1U);
  EXPECT_EQ(directory_.forest().directory.models.front().fingerprint, kOtherModel);
}

TEST_F(Removals, AModelWithSomebodysFileInItStays) {
  const Forest forest = directory_.forest();
  const ModelDirectory& model = forest.directory.models.front();
  directory_.files().plant(model.path + "/letter", std::vector<std::byte>(10));
  std::vector<Removal> removals = removals_of_model(directory_.files(), model).value();
  add_empty_models(directory_.files(), forest.directory, removals);
  EXPECT_EQ(std::ranges::count(removals, Why::kEmpty, &Removal::why), 0);
  EXPECT_EQ(remove_all(&directory_.files(), removals).failed, 0U);
  EXPECT_EQ(directory_.forest().directory.models.size(), 1U);
}

TEST_F(Removals, CollectTakesWhatNobodyCanUse) {
  EXPECT_TRUE(collected({.alone = true}).empty());
  const std::string path = directory_.path_of(segments_[0]);
  directory_.files().plant(path.substr(0, path.find_last_of('/')) + "/7.tmp", std::vector<std::byte>(10));
  directory_.remove(segments_[2]);
  const auto beside = collected({});
  EXPECT_EQ(beside.size(), 2U) << "an orphan and its point";
  EXPECT_TRUE(std::ranges::all_of(beside, [](const Removal& removal) { return removal.why == Why::kOrphan; }));
  const auto alone = collected({.alone = true});
  EXPECT_EQ(alone.size(), 3U);
  EXPECT_EQ(std::ranges::count(alone, Why::kTemporary, &Removal::why), 1);
  remove_all(&directory_.files(), alone);
  EXPECT_TRUE(clean());
}

TEST_F(Removals, YoungFilesStay) {
  directory_.remove(segments_[2]);
  CollectOptions now{.alone = true};
  now.now_ns = 0;  // all files are of a time to come
  EXPECT_TRUE(collect(directory_.forest(), now).empty());
  now.now_ns = directory_.clock().wall_ns() + kGraceNs - 1'000'000'000;
  EXPECT_TRUE(collect(directory_.forest(), now).empty());
  now.now_ns = directory_.clock().wall_ns() + kGraceNs;
  EXPECT_EQ(collect(directory_.forest(), now).size(), 2U) << "an orphan and its point";
}

TEST_F(Removals, UselessFilesCountForTheSize) {
  directory_.remove(segments_[2]);
  ByteCount left = view_of(directory_.forest(), {}).used;
  const auto useless = collected({});
  for (const Removal& removal : useless) left -= removal.bytes;
  EXPECT_EQ(collected({.most = left}).size(), useless.size());
  EXPECT_GT(collected({.most = left - ByteCount{1}}).size(), useless.size());
}

// Lines of two models have the same numbers.
TEST_F(Removals, RemovalsOfOneModelConcernNoOther) {
  std::vector<sim::SampleSegment> others;
  for (std::uint32_t i = 0; i < 4; ++i) others.push_back(sim::sample_segment(kOtherModel, i, 0, 10));
  directory_.store(others, kOtherModel);
  const Forest forest = directory_.forest();
  const std::string& path = forest.directory.models.front().path;
  const auto removals = removals_of(forest, {run_of(forest, 0), run_of(forest, 5)});
  EXPECT_FALSE(removals.empty());
  for (const Removal& removal : removals) EXPECT_EQ(removal.directory, path);

  const std::string& other = forest.directory.models.back().path;
  ASSERT_NE(other, path);
  ASSERT_TRUE(write_pins(directory_.files(), other, {segments_[3].header.name.end_hash}));
  const Forest pinned = directory_.forest();
  EXPECT_FALSE(pinned.directory.models.back().pins.empty());
  EXPECT_TRUE(pinned_runs(pinned, 1).empty()) << "that prefix is another model's";
}

TEST_F(Removals, DownToASizeByPrefillSavedAndEndsFirst) {
  set_times();
  const std::uint64_t one = os::physical_size(ByteCount{5000 + 400}).value();
  const auto some = collected({.most = ByteCount{6 * one}});
  ASSERT_FALSE(some.empty());
  for (const Removal& removal : some) EXPECT_EQ(removal.why, Why::kBudget);
  remove_all(&directory_.files(), some);
  EXPECT_TRUE(clean());
  EXPECT_TRUE(there(3) && there(6)) << "the point saves four times as much prefill as the other one";
  ViewOptions counted;
  EXPECT_LE(view_of(directory_.forest(), counted).used.value(), 6 * one);
  remove_all(&directory_.files(), collected({.most = ByteCount{0}}));
  EXPECT_EQ(directory_.forest().directory.models.front().files.segments.size(), 0U);
}

TEST_F(Removals, PinnedPathsLeaveLast) {
  set_times();
  const auto victims = [&] {
    std::set<std::string> names;
    for (const Removal& removal : collected({.most = ByteCount{6 * 12288}})) names.insert(removal.file);
    return names;
  };
  const auto is_victim = [&](std::size_t segment) {
    return victims().contains(format::file_name(segments_[segment].header.name));
  };
  EXPECT_TRUE(is_victim(4)) << "rows that lead to no point";
  EXPECT_TRUE(is_victim(5)) << "its point saves less than the other one";
  const Forest forest = directory_.forest();
  ASSERT_EQ(change_pins(directory_.files(), forest, {run_of(forest, 5)}, true).value(), 1U);
  EXPECT_EQ(directory_.forest().directory.models.front().pins.size(), 1U);
  EXPECT_EQ(change_pins(directory_.files(), directory_.forest(), {run_of(forest, 5)}, true).value(), 0U) << "it is";
  EXPECT_FALSE(is_victim(5));
  const CacheView view = view_of(directory_.forest(), {});
  EXPECT_EQ(std::ranges::count(view.models.front().runs, true, &RunView::pinned), 1);
  ASSERT_EQ(change_pins(directory_.files(), directory_.forest(), {run_of(forest, 5)}, false).value(), 1U);
  EXPECT_TRUE(directory_.forest().directory.models.front().pins.empty());
}

TEST_F(Removals, APinOfALeafProtectsItsPath) {
  const Forest forest = directory_.forest();
  ASSERT_TRUE(change_pins(directory_.files(), forest, {run_of(forest, 3)}, true));
  const CacheView view = view_of(directory_.forest(), {});
  EXPECT_EQ(std::ranges::count(view.models.front().runs, true, &RunView::pinned), 2);
}

TEST_F(Removals, EveryStepDownHasNoHole) {
  sim::SampleSegment base = sim::sample_leaf(kModel, 1, 1, PartKind::kWhole, 4000);
  sim::SampleSegment built = sim::sample_leaf(kModel, 1, 2, PartKind::kWhole, 4000);
  const std::vector<std::byte> state = base.payload;
  const auto stored = format::encode_built_state(base.header.name.end_hash, base.payload, state, 4000);
  built.header.parts.front() = {
      .kind = PartKind::kWhole, .size_bytes = stored->size(), .base = Position{16}, .state_bytes = 4000};
  built.payload = *stored;
  segments_.push_back(base);
  segments_.push_back(built);
  directory_.store(segments_);
  const auto all = collected({.most = ByteCount{0}});
  ASSERT_EQ(all.size(), segments_.size());
  for (const Removal& removal : all) {
    ASSERT_TRUE(directory_.files().remove(removal.directory + "/" + removal.file));
    EXPECT_TRUE(clean()) << removal.file;
  }
}

}  // namespace
}  // namespace kvkeep::inspect
