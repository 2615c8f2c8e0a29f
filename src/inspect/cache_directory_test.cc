#include "inspect/cache_directory.h"

#include <algorithm>

#include "inspect/sample_directory_test.h"

namespace kvkeep::inspect {
namespace {

// Commands first check that a directory is a cache, or may become one.
TEST(CacheDirectories, AreNotMadeAmongOtherThings) {
  sim::SimFileSystem files;
  EXPECT_TRUE(check_own(files, kRoot)) << "it is not there yet";
  ASSERT_TRUE(files.make_directories(kRoot + "/lost+found"));
  EXPECT_TRUE(check_own(files, kRoot)) << "a file system's root";
  ASSERT_TRUE(files.make_directories(kRoot + "/" + std::string(store::kServersName)));
  EXPECT_TRUE(check_own(files, kRoot));
  files.plant(kRoot + "/thesis.txt", {});
  EXPECT_EQ(check_own(files, kRoot).error().kind, ErrorKind::kInvalid);
  EXPECT_EQ(find_models(files, kRoot).error().kind, ErrorKind::kInvalid);
  files.plant(kRoot + "/" + std::string(store::kLockName), {});
  EXPECT_TRUE(check_own(files, kRoot)) << "a cache, and somebody's file in it";
  EXPECT_EQ(find_models(files, kRoot)->foreign_names, 1U);
}

TEST(CacheDirectories, CountWhoRunsOnThem) {
  sim::SimFileSystem files;
  sim::SimClock clock;
  const auto open = [&](const FingerprintHash& model) {
    return *store::DiskStore::open({.directory = kRoot, .fingerprint = model, .budget = mebibytes(1)}, files, clock);
  };
  const auto count = [&] { return find_models(files, kRoot)->servers; };
  auto first = open(kModel);
  EXPECT_EQ(count(), 1U);
  clock.advance_ms(1);
  auto second = open(kModel);
  EXPECT_EQ(count(), 2U);
  clock.advance_ms(1);
  auto third = open(kOtherModel);
  EXPECT_EQ(count(), 3U);
  first.reset();
  EXPECT_EQ(count(), 2U) << "nobody keeps it now";
  clock.advance_ms(10'000);
  (void)second->tick();
  ASSERT_TRUE(second->keeper());
  EXPECT_EQ(count(), 2U) << "one of them keeps it, and is no member beside";
  second.reset();
  third.reset();
  EXPECT_EQ(count(), 0U);
}

// The tokens of a sample are 1000 * conversation + position.
std::vector<TokenId> sample_tokens(TokenId conversation, TokenId count) {
  std::vector<TokenId> tokens;
  for (TokenId i = 0; i < count; ++i) tokens.push_back(conversation * 1000 + i);
  return tokens;
}

TEST(Beginnings, AreThoseOfOtherModels) {
  SampleDirectory directory;
  directory.store({sim::sample_segment(kModel, 3, 0, 100), sim::sample_segment(kModel, 3, 1, 100)});
  EXPECT_TRUE(beginnings_of_others(directory.files(), kRoot, kModel).empty());
  const auto found = beginnings_of_others(directory.files(), kRoot, kOtherModel);
  EXPECT_NE(std::ranges::find(found, sample_tokens(3, 16)), found.end()) << "over two files";
}

TEST(Beginnings, OfPromptsThatLeaveOthersAreWhole) {
  SampleDirectory directory;
  const sim::SampleSegment leaving = leaving_in_the_middle(100);
  directory.store({sim::sample_segment(kModel, 3, 0, 100), leaving});
  std::vector<TokenId> expected = sample_tokens(3, 4);
  expected.insert(expected.end(), leaving.header.tokens.begin(), leaving.header.tokens.end());
  auto found = beginnings_of_others(directory.files(), kRoot, kOtherModel);
  EXPECT_EQ(found.size(), 2U);
  EXPECT_NE(std::ranges::find(found, expected), found.end());
  directory.remove(sim::sample_segment(kModel, 3, 0, 100));
  EXPECT_TRUE(beginnings_of_others(directory.files(), kRoot, kOtherModel).empty()) << "its first tokens are gone";
}

}  // namespace
}  // namespace kvkeep::inspect
