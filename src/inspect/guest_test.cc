#include <algorithm>

#include "inspect/archive.h"
#include "inspect/sample_directory_test.h"

namespace kvkeep::inspect {
namespace {

constexpr ByteCount kBudget = mebibytes(1);

// A server that keeps the budget of an empty directory, and an archive of two segments.
class Guests : public testing::Test {
 protected:
  void SetUp() override {
    SampleDirectory other;
    const std::vector<sim::SampleSegment> segments{sim::sample_segment(kModel, 1, 0, 20'000),
                                                   sim::sample_segment(kModel, 1, 1, 20'000)};
    other.store(segments);
    const Forest forest = other.forest();
    ASSERT_TRUE(export_files(other.files(), forest, files_to_export(forest, {{0, 0}}).files, "/cache/archive"));
    files_.plant(kArchive, *other.files().contents("/cache/archive"));
    keeper_ = open();
  }

  std::unique_ptr<store::DiskStore> open() {
    return *store::DiskStore::open({.directory = kRoot, .fingerprint = kModel, .budget = kBudget}, files_, clock_);
  }
  store::DiskTick tick() {
    clock_.advance_ms(10'000);
    return keeper_->tick();
  }
  // While the server lives on.
  std::function<bool()> for_ticks(int most) {
    return [this, left = most]() mutable {
      (void)tick();
      return left-- > 0;
    };
  }
  Result<ImportReport> take(Guest& guest) {
    ImportOptions options{.room = kBudget, .root = kRoot, .own_mark = guest.own_mark()};
    options.reserve = [&](ByteCount bytes) { return guest.reserve(bytes, for_ticks(5)); };
    return import_files(files_, kArchive, options);
  }

  sim::SimFileSystem files_;
  sim::SimClock clock_;
  std::unique_ptr<store::DiskStore> keeper_;
};

TEST_F(Guests, AServerServesAndCountsWhatAGuestLeaves) {
  const ByteCount before = keeper_->used();
  ByteCount added;
  {
    Guest guest(kRoot, files_, clock_);
    ASSERT_TRUE(guest.join());
    const auto report = take(guest);
    ASSERT_TRUE(report) << report.error().message;
    added = report->added.bytes;
  }
  EXPECT_EQ(tick().found.size(), 2U);
  EXPECT_EQ(keeper_->used(), before + added);
  EXPECT_FALSE(keeper_->shared()) << "it is gone";
}

// Next to two servers the keeper looks through the directory at any time.
TEST_F(Guests, TemporaryFilesStayWhileItLives) {
  auto guest = std::make_unique<Guest>(kRoot, files_, clock_);
  ASSERT_TRUE(guest->join());
  const std::string own = kRoot + "/" + kModel.hex() + "/" + guest->own_mark() + ".0.tmp";
  const std::string stray = kRoot + "/" + kModel.hex() + "/import-1.0.tmp";
  files_.plant(own, std::vector<std::byte>(10));
  files_.plant(stray, std::vector<std::byte>(10));
  (void)tick();
  EXPECT_TRUE(files_.contents(own));
  EXPECT_FALSE(files_.contents(stray));
  guest.reset();
  (void)tick();
  EXPECT_FALSE(files_.contents(own));
}

TEST_F(Guests, MoreThanTheBudgetIsRefused) {
  Guest guest(kRoot, files_, clock_);
  ASSERT_TRUE(guest.join());
  EXPECT_EQ(guest.reserve(kBudget + kBudget, for_ticks(5)).error().kind, ErrorKind::kNoSpace);
}

TEST_F(Guests, WithoutAServerThatKeepsTheBudgetThereIsNoRoom) {
  keeper_.reset();
  Guest guest(kRoot, files_, clock_);
  ASSERT_TRUE(guest.join());
  EXPECT_EQ(guest.reserve(ByteCount{4096}, [left = 3]() mutable { return left-- > 0; }).error().kind,
            ErrorKind::kNoSpace);
}

// The keeper died, and a member lives on that did not take its place yet.
TEST_F(Guests, AMemberByItselfIsAServerToo) {
  const auto member = open();
  keeper_.reset();
  EXPECT_EQ(read_directory(files_, kRoot)->servers, 1U);
}

}  // namespace
}  // namespace kvkeep::inspect
