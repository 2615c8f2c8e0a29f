#include "inspect/verify.h"

#include <algorithm>
#include <utility>

#include "format/built_state.h"
#include "inspect/sample_directory_test.h"
#include "testing/sim/sim_executor.h"

namespace kvkeep::inspect {
namespace {

using format::PartKind;

class Verify : public testing::Test {
 protected:
  void SetUp() override {
    for (std::uint32_t i = 0; i < 4; ++i) segments_.push_back(sim::sample_segment(kModel, 1, i, 3000 + i));
    segments_.push_back(sim::sample_leaf(kModel, 1, 1, PartKind::kPoint, 70));
    segments_.push_back(sim::sample_leaf(kModel, 1, 3, PartKind::kWindowRows, 80));
    directory_.store(segments_);
    directory_.store({sim::sample_segment(kOtherModel, 5, 0, 10)}, kOtherModel);
  }

  VerifyReport run() {
    return verify(directory_.files(), find_models(directory_.files(), kRoot).value(), {&executor_}).value();
  }
  RepairReport mend(const VerifyReport& report) {
    return repair(directory_.files(), directory_.clock(), find_models(directory_.files(), kRoot).value(), mebibytes(64),
                  report.findings)
        .value();
  }
  std::size_t count(const VerifyReport& report, Trouble trouble) {
    return static_cast<std::size_t>(std::ranges::count(report.findings, trouble, &Finding::trouble));
  }

  SampleDirectory directory_;
  sim::SimExecutor executor_;
  std::vector<sim::SampleSegment> segments_;
};

TEST_F(Verify, AWholeDirectoryIsClean) {
  const VerifyReport report = run();
  EXPECT_TRUE(report.clean());
  EXPECT_EQ(report.files, 7U);
  EXPECT_EQ(report.prefixes, 2U);
  EXPECT_EQ(report.vanished, 0U);
  EXPECT_GT(report.read.value(), 12'000U);
}

// A conversation may have gone on before its server noticed that the keeper removed its beginning.
TEST_F(Verify, NextToServersAnOrphanIsGivenTime) {
  const std::string path = directory_.path_of(segments_[1]);
  const auto bytes = directory_.files().contents(path);
  for (const bool comes_back : {true, false}) {
    directory_.remove(segments_[1]);
    int waits = 0;
    const VerifyWait wait = [&] {
      if (++waits == 3 && comes_back) directory_.files().plant(path, *bytes);
      return waits <= 5;
    };
    const VerifyReport report =
        verify(directory_.files(), find_models(directory_.files(), kRoot).value(), {&executor_}, {}, wait).value();
    EXPECT_EQ(report.clean(), comes_back);
    EXPECT_EQ(waits, comes_back ? 3 : 6);
    EXPECT_EQ(count(report, Trouble::kOrphan), comes_back ? 0U : 4U);
  }
}

TEST_F(Verify, EveryDamagedByteIsFound) {
  // Bytes of payload, tokens, part table and header; reserved bytes and padding are summed too.
  const std::size_t size = directory_.files().contents(directory_.path_of(segments_[3]))->size();
  for (std::size_t at = 1; at <= size; at += at < size - 448 ? 97 : 1) {
    directory_.damage(segments_[3], at);
    const VerifyReport report = run();
    ASSERT_EQ(count(report, Trouble::kDamaged), 1U) << at;
    EXPECT_EQ(count(report, Trouble::kOrphan), 1U);  // its window
    directory_.damage(segments_[3], at);             // the same byte again: whole
  }
  EXPECT_TRUE(run().clean());
}

TEST_F(Verify, ShortAndLongFilesAreDamaged) {
  const std::string path = directory_.path_of(segments_[4]);
  const auto whole = *directory_.files().contents(path);
  for (const std::size_t size : {std::size_t{0}, std::size_t{100}, whole.size() - 1, whole.size() + 1}) {
    auto changed = whole;
    changed.resize(size);
    directory_.files().plant(path, changed);
    EXPECT_EQ(count(run(), Trouble::kDamaged), 1U) << size;
  }
}

TEST_F(Verify, AFileUnderAnotherNameIsDamaged) {
  directory_.files().plant(directory_.path_of(segments_[0]),
                           *directory_.files().contents(directory_.path_of(segments_[1])));
  const VerifyReport report = run();
  EXPECT_EQ(count(report, Trouble::kDamaged), 1U);
  EXPECT_EQ(count(report, Trouble::kOrphan), 5U);
}

TEST_F(Verify, TokensOfAnotherHashAreMisnamed) {
  sim::SampleSegment forged = sim::sample_segment(kModel, 7, 0, 10);
  forged.header.tokens[0] += 1;
  forged.header.parts.front().sum = format::part_checksum(kModel, forged.header.name, PartKind::kRows, forged.payload);
  directory_.store({forged});
  EXPECT_EQ(count(run(), Trouble::kMisnamed), 1U);
}

TEST_F(Verify, AStateWithoutItsBaseIsAnOrphan) {
  sim::SampleSegment base = sim::sample_leaf(kModel, 1, 1, PartKind::kWhole, 4000);
  sim::SampleSegment built = sim::sample_leaf(kModel, 1, 2, PartKind::kWhole, 4000);
  const std::vector<std::byte> state = base.payload;
  const auto stored = format::encode_built_state(base.header.name.end_hash, base.payload, state, 4000);
  ASSERT_TRUE(stored);
  built.header.parts.front() = {
      .kind = PartKind::kWhole, .size_bytes = stored->size(), .base = Position{16}, .state_bytes = 4000};
  built.payload = *stored;
  directory_.store({base, built});
  EXPECT_TRUE(run().clean());
  directory_.remove(base);
  const VerifyReport report = run();
  ASSERT_EQ(report.findings.size(), 1U);
  EXPECT_EQ(report.findings.front().trouble, Trouble::kOrphan);
  EXPECT_EQ(report.findings.front().file, format::file_name(built.header.name));
}

TEST_F(Verify, RepairSetsAsideAndRemoves) {
  directory_.damage(segments_[1]);
  const VerifyReport report = run();
  EXPECT_EQ(count(report, Trouble::kDamaged), 1U);
  EXPECT_EQ(count(report, Trouble::kOrphan), 4U);
  const RepairReport repaired = mend(report);
  EXPECT_EQ(repaired.set_aside, 1U);
  EXPECT_EQ(repaired.removed, 4U);
  EXPECT_EQ(repaired.failed, 0U);
  EXPECT_TRUE(run().clean());
  EXPECT_EQ(find_models(directory_.files(), kRoot)->quarantine.size(), 1U);
  EXPECT_EQ(directory_.forest().trees.front().runs.front().range.end, Position{8});
}

// If any operation fails or dies, a second repair completes it, and no whole file below which nothing is broken goes.
TEST_F(Verify, RepairIsSafeUnderFaults) {
  for (const sim::FaultKind kind : {sim::FaultKind::kCrash, sim::FaultKind::kFailOnce}) {
    for (std::uint64_t at = 1;; ++at) {
      SampleDirectory directory;
      directory.store(segments_);
      directory.damage(segments_[1]);
      const auto look = [&] {
        return verify(directory.files(), find_models(directory.files(), kRoot).value(), {&executor_}).value();
      };
      const VerifyReport report = look();
      const CacheDirectory models = find_models(directory.files(), kRoot).value();
      directory.files().set_plan({kind, at});
      (void)repair(directory.files(), directory.clock(), models, mebibytes(64), report.findings);
      const bool fired = directory.files().fault_fired();
      directory.files().heal();
      if (directory.files().crashed()) directory.files().power_cut();
      const VerifyReport left = look();
      (void)repair(directory.files(), directory.clock(), models, mebibytes(64), left.findings);
      EXPECT_TRUE(look().clean()) << at;
      EXPECT_TRUE(directory.files().contents(directory.path_of(segments_[0]))) << at;
      if (!fired) break;
    }
  }
}

// Next to a server: what leaves while files are read is no damage, children first or not.
TEST_F(Verify, AVanishedFileIsNoDamage) {
  const CacheDirectory models = find_models(directory_.files(), kRoot).value();
  struct Removing final : os::Executor {
    void post(std::function<void()> task) override { tasks.push_back(std::move(task)); }
    void drain() override {
      if (std::exchange(first, false)) meanwhile();
      for (auto& task : std::exchange(tasks, {})) task();
    }
    std::function<void()> meanwhile;
    std::vector<std::function<void()>> tasks;
    bool first = true;
  } server;
  server.meanwhile = [&] {
    for (const std::size_t i : {5U, 3U, 2U}) directory_.remove(segments_[i]);
  };
  const VerifyReport report = verify(directory_.files(), models, {&server}).value();
  EXPECT_TRUE(report.clean()) << report.findings.front().reason;
  EXPECT_EQ(report.vanished, 3U);
}

// A listing may miss a parent that was written during it.
TEST_F(Verify, AParentThatAppearsLaterIsFound) {
  const auto parent = *directory_.files().contents(directory_.path_of(segments_[2]));
  const CacheDirectory models = find_models(directory_.files(), kRoot).value();
  directory_.remove(segments_[2]);
  struct Writing final : os::Executor {
    void post(std::function<void()> task) override { tasks.push_back(std::move(task)); }
    void drain() override {
      meanwhile();
      for (auto& task : std::exchange(tasks, {})) task();
    }
    std::function<void()> meanwhile;
    std::vector<std::function<void()>> tasks;
  } server;
  server.meanwhile = [&] { directory_.files().plant(directory_.path_of(segments_[2]), parent); };
  EXPECT_TRUE(verify(directory_.files(), models, {&server})->clean());
}

TEST_F(Verify, AnErrorOfTheDeviceIsNoDamage) {
  const CacheDirectory models = find_models(directory_.files(), kRoot).value();
  directory_.files().set_plan({sim::FaultKind::kFailForever, 4});
  const auto report = verify(directory_.files(), models, {&executor_});
  if (report) {
    EXPECT_EQ(count(*report, Trouble::kDamaged), 0U);
  }
  directory_.files().heal();
  EXPECT_TRUE(run().clean());
}

TEST(FindModels, OnlyOfACache) {
  sim::SimFileSystem files;
  EXPECT_EQ(find_models(files, "/nowhere").error().kind, ErrorKind::kNotFound);
  ASSERT_TRUE(files.make_directories("/home"));
  files.plant("/home/letter", {});
  const auto home = find_models(files, "/home");
  ASSERT_FALSE(home);
  EXPECT_EQ(home.error().kind, ErrorKind::kInvalid);
  EXPECT_NE(home.error().message.find("no cache directory"), std::string::npos);
}

}  // namespace
}  // namespace kvkeep::inspect
