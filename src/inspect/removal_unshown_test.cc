// Removal of files that no line shows: those of two servers that computed the same prompt, damaged and lost ones.

#include <algorithm>
#include <map>

#include "inspect/removal.h"
#include "inspect/sample_directory_test.h"
#include "inspect/verify.h"
#include "testing/sim/sim_executor.h"

namespace kvkeep::inspect {
namespace {

using format::PartKind;

// The file of tokens [begin, end) of a prompt that leaves conversation 1 at token `leaves`.
sim::SampleSegment piece(std::uint32_t conversation, std::uint32_t leaves, std::uint32_t begin, std::uint32_t end,
                         PartKind kind = PartKind::kRows) {
  sim::SampleSegment sample;
  sample.header.fingerprint = kModel;
  PrefixHasher hasher(kModel);
  for (std::uint32_t i = 0; i < end; ++i) {
    const auto id = static_cast<TokenId>((i < leaves ? 1 : conversation) * 1000 + i);
    if (i == begin) sample.header.name.begin_hash = hasher.current();
    if (i >= begin) sample.header.tokens.push_back(id);
    hasher.append(TokenSpan(std::vector{id}));
  }
  format::SegmentName& name = sample.header.name;
  name.begin = Position{begin};
  name.end = hasher.position();
  name.end_hash = hasher.current();
  if (begin == end) name.begin_hash = name.end_hash;
  name.kind = kind;
  sample.payload = sim::sample_bytes(conversation * 1000 + begin * 10 + end, 300);
  format::Part part{.kind = kind, .size_bytes = 300};
  part.sum = format::part_checksum(kModel, name, kind, sample.payload);
  sample.header.parts = {part};
  return sample;
}

class UnshownFiles : public testing::Test {
 protected:
  // Both servers stored all of conversation 1, with other cuts, with points and windows; conversation 2 leaves it at
  // token 12, and one server began anew in the middle of it; conversation 3 shares nothing.
  void two_servers() {
    segments_ = {piece(1, 0, 0, 8),    piece(1, 0, 8, 16),   piece(1, 0, 16, 24), piece(1, 0, 0, 12),
                 piece(1, 0, 12, 20),  piece(1, 0, 20, 24),  piece(1, 0, 4, 16),  piece(2, 12, 8, 16),
                 piece(2, 12, 12, 20), piece(2, 12, 16, 20), piece(3, 0, 0, 8),   piece(3, 0, 0, 4)};
    for (const std::uint32_t end : {8U, 12U, 24U}) segments_.push_back(piece(1, 0, end, end, PartKind::kPoint));
    for (const std::uint32_t end : {8U, 12U, 20U, 24U}) {
      segments_.push_back(piece(1, 0, end - 6, end, PartKind::kWindowRows));
      segments_.push_back(piece(1, 0, end - 2, end, PartKind::kWindowRows));
    }
    directory_.store(segments_);
  }

  static bool is_of(const format::SegmentHeader& header, std::uint32_t conversation) {
    const auto own = [&](TokenId id) { return static_cast<std::uint32_t>(id) / 1000 == conversation; };
    return std::ranges::any_of(header.tokens, own);
  }
  std::size_t files_of(std::uint32_t conversation) {
    return static_cast<std::size_t>(std::ranges::count_if(
        segments_, [&](const auto& segment) { return is_of(segment.header, conversation) && there(segment); }));
  }
  bool there(const sim::SampleSegment& segment) {
    return directory_.files().contents(directory_.path_of(segment)).has_value();
  }
  std::vector<Removal> removals_from(const Forest& forest, const sim::SampleSegment& named) {
    return removals_of(forest, {forest.ids.find(named.header.name.end_hash.hex()).value()});
  }
  RemovalReport remove(const sim::SampleSegment& named) {
    const Forest forest = directory_.forest();
    const std::vector<Removal> removals = removals_from(forest, named);
    RemovalReport report = remove_all(&directory_.files(), removals);
    report.left = left_files(forest, removals, true);
    return report;
  }
  std::vector<Finding> findings() {
    sim::SimExecutor executor;
    return verify(directory_.files(), find_models(directory_.files(), kRoot).value(), {&executor})->findings;
  }

  SampleDirectory directory_;
  std::vector<sim::SampleSegment> segments_;
};

TEST_F(UnshownFiles, NothingOfAPromptStaysThatTwoServersStored) {
  two_servers();
  ASSERT_GE(directory_.forest().trees.front().redundant.size(), 4U);
  const RemovalReport report = remove(segments_[3]);
  EXPECT_EQ(report.all().files, segments_.size() - 2);
  EXPECT_GE(report.removed.at(Why::kRedundant).files, 4U);
  EXPECT_EQ(report.left.files(), 0U);
  EXPECT_EQ(files_of(1) + files_of(2), 0U);
  EXPECT_EQ(files_of(3), 2U) << "redundant on a line that stays";
  EXPECT_EQ(directory_.forest().directory.models.front().files.segments.size(), 2U) << "nor points";
}

TEST_F(UnshownFiles, OnlyItsOwnFilesGoWithALineThatBranchesOff) {
  two_servers();
  const Forest forest = directory_.forest();
  const std::size_t shared = files_of(1);
  const RemovalReport report = remove(segments_[8]);
  EXPECT_EQ(report.all().files, 3U);
  EXPECT_EQ(files_of(2), 0U);
  EXPECT_EQ(files_of(1), shared - 1) << "but the one that begins above where it parts";
  const Forest after = directory_.forest();
  EXPECT_EQ(path_tokens(after.trees.front(), after.directory.models.front().files.segments,
                        after.ids.find(segments_[5].header.name.end_hash.hex())->run),
            path_tokens(forest.trees.front(), forest.directory.models.front().files.segments,
                        forest.ids.find(segments_[5].header.name.end_hash.hex())->run));
}

// Wherever it stops, the remaining rows and points have their parents. (Which windows lie within one file's tokens
// depends on the other files.)
TEST_F(UnshownFiles, ChildrenGoFirstUnderFaults) {
  two_servers();
  for (const sim::FaultKind kind : {sim::FaultKind::kCrash, sim::FaultKind::kFailOnce, sim::FaultKind::kFailForever}) {
    for (std::uint64_t at = 1;; ++at) {
      directory_.store(segments_);
      const Forest forest = directory_.forest();
      const std::vector<Removal> removals = removals_from(forest, segments_[3]);
      directory_.files().set_plan({kind, at});
      (void)remove_all(&directory_.files(), removals);
      const bool fired = directory_.files().fault_fired();
      directory_.files().heal();
      if (directory_.files().crashed()) directory_.files().kill();
      for (const Finding& finding : findings()) EXPECT_NE(finding.file.find(".window."), std::string::npos) << at;
      if (!fired) break;
    }
  }
}

// The header of the second part is damaged, so everything after it is an orphan.
TEST_F(UnshownFiles, FilesThatContinueItByNameGoToo) {
  const std::vector<sim::SampleSegment> line = {piece(4, 0, 0, 8), piece(4, 0, 8, 16), piece(4, 0, 16, 24),
                                                piece(4, 0, 24, 24, PartKind::kPoint)};
  directory_.store(line);
  auto bytes = *directory_.files().contents(directory_.path_of(line[1]));
  bytes[40] ^= std::byte{1};
  directory_.files().plant(directory_.path_of(line[1]), bytes);
  ASSERT_EQ(directory_.forest().directory.models.front().files.damaged.size(), 1U);
  ASSERT_EQ(directory_.forest().trees.front().orphans.size(), 2U);
  const RemovalReport report = remove(line[0]);
  EXPECT_EQ(report.removed.at(Why::kAsked).files, 1U);
  EXPECT_EQ(report.removed.at(Why::kDamaged).files, 1U);
  EXPECT_EQ(report.removed.at(Why::kOrphan).files, 2U);
  for (const sim::SampleSegment& segment : line) EXPECT_FALSE(there(segment));
  EXPECT_EQ(report.left.files(), 0U);
}

TEST_F(UnshownFiles, FilesOfUnknownPrefixesAreCounted) {
  const std::vector<sim::SampleSegment> line = {piece(4, 0, 0, 8), piece(4, 0, 8, 16), piece(4, 0, 16, 24)};
  directory_.store(line);
  directory_.remove(line[1]);
  const std::string path = directory_.path_of(line[0]);
  directory_.files().plant(path.substr(0, path.find_last_of('/')) + "/7.tmp", std::vector<std::byte>(10));
  const Forest forest = directory_.forest();
  const std::vector<Removal> removals = removals_from(forest, line[0]);
  EXPECT_EQ(removals.size(), 1U);
  EXPECT_EQ(left_files(forest, removals, false).useless.files, 1U);
  EXPECT_EQ(left_files(forest, removals, true).useless.files, 2U) << "the unfinished one is nobody's";
  EXPECT_EQ(left_files(forest, {}, true).files(), 0U) << "of models that nothing is removed of";
}

}  // namespace
}  // namespace kvkeep::inspect
