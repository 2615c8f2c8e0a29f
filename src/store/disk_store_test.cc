// The disk tier on the machine's own file system, where only the files' contents fail.

#include "store/disk_store.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <thread>

#include "testing/sim/sample_segments.h"
#include "testing/sim/temporary_directory.h"

namespace kvkeep::store {
namespace {

namespace fs = std::filesystem;
using format::PartKind;
using sim::sample_segment;
using sim::SampleSegment;

const FingerprintHash kModel = sim::sample_fingerprint(0xab);
const FingerprintHash kOtherModel = sim::sample_fingerprint(0xcd);

class DiskStoreTest : public testing::Test {
 protected:
  std::unique_ptr<DiskStore> open(const FingerprintHash& fingerprint = kModel, ByteCount budget = mebibytes(64)) {
    DiskOptions options{.directory = root(), .fingerprint = fingerprint, .budget = budget};
    auto store = DiskStore::open(options, os::real_file_system(), os::real_clock());
    EXPECT_TRUE(store.ok()) << (store.ok() ? "" : store.error().message);
    return store.ok() ? std::move(*store) : nullptr;
  }
  std::string root() const { return directory_.path() + "/cache"; }
  std::string path_of(const SampleSegment& segment) const {
    return root() + "/" + segment.header.fingerprint.hex() + "/" + format::file_name(segment.header.name);
  }
  static Status put(DiskStore& store, const SampleSegment& segment) {
    return store.put(segment.header, {{segment.header.name.kind, segment.payload}});
  }
  // The bytes, or nothing if get failed.
  static std::vector<std::byte> get(DiskStore& store, const SampleSegment& segment) {
    std::vector<std::byte> out(segment.payload.size());
    return store.get(segment.header, segment.header.name.kind, out) ? out : std::vector<std::byte>();
  }
  static ErrorKind get_error(DiskStore& store, const SampleSegment& segment) {
    std::vector<std::byte> out(segment.payload.size());
    const Status status = store.get(segment.header, segment.header.name.kind, out);
    EXPECT_FALSE(status.ok());
    return status.ok() ? ErrorKind::kInvalid : status.error().kind;
  }
  std::uint64_t bytes_on_disk() const {
    std::uint64_t total = 0;
    for (const auto& entry : fs::recursive_directory_iterator(root())) {
      if (entry.is_regular_file()) total += os::physical_size(ByteCount{entry.file_size()}).value();
    }
    return total;
  }
  std::size_t quarantined() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(root() + "/quarantine"), {}));
  }
  void flip_byte(const std::string& path, std::int64_t offset_from_end) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(-offset_from_end, std::ios::end);
    const int byte = file.get();
    file.seekp(-offset_from_end, std::ios::end);
    file.put(static_cast<char>(byte ^ 1));
  }

  const sim::TemporaryDirectory directory_;
  const SampleSegment first_ = sample_segment(kModel, 1, 0, 10'000);
  const SampleSegment second_ = sample_segment(kModel, 1, 1, 20'000);
};

TEST_F(DiskStoreTest, StoredSegmentsComeBackAlsoAfterARestart) {
  {
    const auto store = open();
    ASSERT_TRUE(put(*store, second_).ok());
    ASSERT_TRUE(put(*store, first_).ok());
    EXPECT_EQ(get(*store, first_), first_.payload);
    EXPECT_EQ(store->used().value(), bytes_on_disk());
    EXPECT_EQ(store->counters().puts, 2u);
    EXPECT_EQ(store->counters().payload_bytes_written, 30'000u);
  }
  const auto store = open();
  const auto recovered = store->take_recovered();
  ASSERT_EQ(recovered.size(), 2u);
  EXPECT_EQ(recovered[0].header, first_.header);  // by ascending begin
  EXPECT_EQ(recovered[1].header, second_.header);
  EXPECT_TRUE(store->take_recovered().empty());
  EXPECT_EQ(get(*store, second_), second_.payload);
  EXPECT_EQ(store->used().value(), bytes_on_disk());
}

// Rows, window rows and points of one place: files of their own, whichever of them are there.
TEST_F(DiskStoreTest, KindsOfOnePlaceAreFilesOfTheirOwn) {
  std::vector<SampleSegment> all{first_};
  for (const PartKind kind : {PartKind::kWindowRows, PartKind::kPoint, PartKind::kWhole}) {
    all.push_back(sim::sample_leaf(kModel, 1, 0, kind, 3'000));
  }
  const auto expect_all_but = [&](DiskStore& store, std::size_t missing) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      EXPECT_EQ(get(store, all[i]), i == missing ? std::vector<std::byte>() : all[i].payload) << i;
    }
    EXPECT_EQ(store.used().value(), bytes_on_disk());
  };
  for (std::size_t missing = 0; missing < all.size(); ++missing) {
    const auto store = open();
    for (const SampleSegment& segment : all) ASSERT_TRUE(put(*store, segment).ok());
    expect_all_but(*store, all.size());
    ASSERT_TRUE(store->remove(all[missing].header.name).ok());
    expect_all_but(*store, missing);
    store->save_index();
  }
  const auto store = open();
  EXPECT_EQ(store->counters().headers_read, 0u);
  for (const StoredSegment& found : store->take_recovered()) {
    const auto same = [&](const SampleSegment& segment) { return segment.header == found.header; };
    EXPECT_TRUE(std::ranges::any_of(all, same)) << format::file_name(found.header.name);
  }
  expect_all_but(*store, 3);
}

TEST_F(DiskStoreTest, AKindIsNotServedAsAnother) {
  const SampleSegment window = sim::sample_leaf(kModel, 1, 0, PartKind::kWindowRows, 10'000);
  {
    const auto store = open();
    const Status misnamed = store->put(first_.header, {{PartKind::kWindowRows, window.payload}});
    ASSERT_FALSE(misnamed.ok());
    EXPECT_EQ(misnamed.error().kind, ErrorKind::kInvalid);
    ASSERT_TRUE(put(*store, first_).ok());
    EXPECT_EQ(get_error(*store, window), ErrorKind::kNotFound);
  }
  fs::rename(path_of(first_), path_of(window));
  const auto store = open();
  EXPECT_EQ(store->counters().damaged, 1u);
  EXPECT_EQ(get_error(*store, window), ErrorKind::kNotFound);
}

TEST_F(DiskStoreTest, RowsOfNoBytesKeepTheirTokens) {
  const SampleSegment bare = sample_segment(kModel, 1, 0, 0);
  {
    const auto store = open();
    ASSERT_TRUE(put(*store, bare).ok());
    EXPECT_TRUE(store->get(bare.header, PartKind::kRows, {}).ok());
    EXPECT_EQ(store->used().value(), bytes_on_disk());
  }
  const auto store = open();
  const auto recovered = store->take_recovered();
  ASSERT_EQ(recovered.size(), 1u);
  EXPECT_EQ(recovered[0].header, bare.header);
  flip_byte(path_of(bare), 100);  // a token id
  EXPECT_EQ(store->get(bare.header, PartKind::kRows, {}).error().kind, ErrorKind::kDamaged);
}

TEST_F(DiskStoreTest, FilesAndDirectoriesArePrivate) {
  const auto store = open();
  ASSERT_TRUE(put(*store, first_).ok());
  store->save_index();
  for (const auto& entry : fs::recursive_directory_iterator(root())) {
    const auto permissions = static_cast<unsigned>(entry.status().permissions());
    EXPECT_EQ(permissions, entry.is_directory() ? 0700u : 0600u) << entry.path();
  }
}

TEST_F(DiskStoreTest, AStoredNameIsNotWrittenAgain) {
  const auto store = open();
  ASSERT_TRUE(put(*store, first_).ok());
  ASSERT_TRUE(put(*store, first_).ok());
  EXPECT_EQ(store->counters().payload_bytes_written, 10'000u);
}

TEST_F(DiskStoreTest, DamagedFilesAreSetAsideAndCanBeStoredAgain) {
  const auto store = open();
  ASSERT_TRUE(put(*store, first_).ok());
  flip_byte(path_of(first_), 1);
  EXPECT_EQ(get_error(*store, first_), ErrorKind::kDamaged);
  EXPECT_EQ(get_error(*store, first_), ErrorKind::kNotFound);
  EXPECT_EQ(store->counters().damaged, 1u);
  EXPECT_EQ(quarantined(), 1u);
  EXPECT_EQ(store->used().value(), bytes_on_disk());
  ASSERT_TRUE(put(*store, first_).ok());
  EXPECT_EQ(get(*store, first_), first_.payload);
}

TEST_F(DiskStoreTest, OpeningSetsAsideWhatIsNoSegment) {
  {
    const auto store = open();
    ASSERT_TRUE(put(*store, first_).ok());
    ASSERT_TRUE(put(*store, second_).ok());
  }
  fs::resize_file(path_of(first_), 5'000);
  const SampleSegment zeros = sample_segment(kModel, 9, 0, 1);
  std::ofstream(path_of(zeros)) << std::string(3'000'000, '\0');
  const SampleSegment renamed = sample_segment(kModel, 9, 1, 1);
  fs::copy_file(path_of(second_), path_of(renamed));
  const auto store = open();
  EXPECT_EQ(store->counters().damaged, 3u);
  EXPECT_EQ(store->take_recovered().size(), 1u);
  EXPECT_EQ(store->used().value(), bytes_on_disk());
  EXPECT_EQ(get(*store, second_), second_.payload);
}

TEST_F(DiskStoreTest, TemporaryFilesAreSweptAndStrangersLeftAlone) {
  fs::create_directories(root() + "/" + kModel.hex());
  fs::create_directories(root() + "/" + kOtherModel.hex());
  std::ofstream(root() + "/" + kModel.hex() + "/1-1.tmp") << "half";
  std::ofstream(root() + "/" + kOtherModel.hex() + "/1-1.tmp") << "half";
  std::ofstream(root() + "/notes.txt") << "mine";
  std::ofstream(root() + "/" + kModel.hex() + "/notes.txt") << "mine";
  const auto store = open();
  EXPECT_EQ(store->counters().temporaries, 2u);
  EXPECT_EQ(store->counters().foreign, 2u);
  EXPECT_FALSE(fs::exists(root() + "/" + kModel.hex() + "/1-1.tmp"));
  EXPECT_FALSE(fs::exists(root() + "/" + kOtherModel.hex() + "/1-1.tmp"));
  EXPECT_TRUE(fs::exists(root() + "/notes.txt"));
  EXPECT_EQ(store->used(), os::physical_size(ByteCount{0}));  // the lock
}

TEST_F(DiskStoreTest, TheBudgetRefusesAndRemovingMakesRoom) {
  const auto store = open(kModel, ByteCount{60'000});
  ASSERT_TRUE(put(*store, first_).ok());
  ASSERT_TRUE(put(*store, second_).ok());
  const SampleSegment third = sample_segment(kModel, 1, 2, 20'000);
  const Status refused = put(*store, third);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::kNoSpace);
  ASSERT_TRUE(store->remove(second_.header.name).ok());
  EXPECT_EQ(store->used().value(), bytes_on_disk());
  EXPECT_TRUE(put(*store, third).ok());
  EXPECT_EQ(get_error(*store, second_), ErrorKind::kNotFound);
  EXPECT_LE(store->used(), store->budget());
}

TEST_F(DiskStoreTest, OtherModelsFilesCountAndCanBeGivenUpOldestFirst) {
  const SampleSegment foreign_old = sample_segment(kOtherModel, 1, 0, 30'000);
  const SampleSegment foreign_new = sample_segment(kOtherModel, 2, 0, 30'000);
  {
    const auto store = open(kOtherModel);
    ASSERT_TRUE(put(*store, foreign_old).ok());
    ASSERT_TRUE(put(*store, foreign_new).ok());
    store->touch(foreign_new.header.name, os::real_clock().wall_ns());
  }
  const auto store = open(kModel, ByteCount{100'000});
  EXPECT_EQ(store->foreign_bytes(), ByteCount{2 * (32'768 + 4'096)});
  EXPECT_EQ(store->remove_foreign(ByteCount{1}), ByteCount{32'768 + 4'096});
  EXPECT_FALSE(fs::exists(path_of(foreign_old)));
  EXPECT_TRUE(fs::exists(path_of(foreign_new)));
  EXPECT_EQ(store->used().value(), bytes_on_disk());
}

TEST_F(DiskStoreTest, TheSavedIndexSparesReadingHeadersButNeverDecides) {
  {
    const auto store = open();
    ASSERT_TRUE(put(*store, first_).ok());
    ASSERT_TRUE(put(*store, second_).ok());
    store->touch(second_.header.name, os::real_clock().wall_ns());
    store->save_index();
  }
  {
    const auto store = open();
    EXPECT_EQ(store->counters().headers_read, 0u);
    EXPECT_EQ(store->take_recovered().size(), 2u);
    EXPECT_EQ(get(*store, first_), first_.payload);
    EXPECT_EQ(store->used().value(), bytes_on_disk());
  }
  fs::remove(path_of(first_));
  flip_byte(path_of(second_), 20'000 + 8);  // in the header; changes the time, too
  const auto store = open();
  EXPECT_EQ(store->take_recovered().size(), 0u);
  EXPECT_EQ(store->counters().damaged, 1u);
  EXPECT_EQ(store->used().value(), bytes_on_disk());
}

TEST_F(DiskStoreTest, ADamagedSavedIndexIsDropped) {
  {
    const auto store = open();
    ASSERT_TRUE(put(*store, first_).ok());
    store->save_index();
  }
  const std::string index = root() + "/" + kModel.hex() + "/index";
  flip_byte(index, 40);
  const auto store = open();
  EXPECT_EQ(store->counters().headers_read, 1u);
  EXPECT_EQ(store->counters().damaged, 1u);
  EXPECT_FALSE(fs::exists(index));
  EXPECT_EQ(get(*store, first_), first_.payload);
}

TEST_F(DiskStoreTest, LinksAreNotFollowed) {
  {
    const auto store = open();
    ASSERT_TRUE(put(*store, first_).ok());
  }
  const std::string elsewhere = directory_.path() + "/elsewhere";
  fs::rename(path_of(first_), elsewhere);
  fs::create_symlink(elsewhere, path_of(first_));
  {
    const auto store = open();
    EXPECT_EQ(store->take_recovered().size(), 0u);
    EXPECT_EQ(get_error(*store, first_), ErrorKind::kNotFound);
    ASSERT_TRUE(put(*store, first_).ok());  // replaces the link, not its target
    EXPECT_EQ(get(*store, first_), first_.payload);
  }
  EXPECT_FALSE(fs::is_symlink(path_of(first_)));
  EXPECT_TRUE(fs::exists(elsewhere));
}

TEST_F(DiskStoreTest, OnlyAFewDamagedFilesAreKept) {
  const auto store = open();
  for (std::uint32_t i = 0; i < 20; ++i) {
    const SampleSegment segment = sample_segment(kModel, 3, i, 100);
    ASSERT_TRUE(put(*store, segment).ok());
    flip_byte(path_of(segment), 1);
    EXPECT_EQ(get_error(*store, segment), ErrorKind::kDamaged);
  }
  EXPECT_EQ(quarantined(), 8u);
  EXPECT_EQ(store->used().value(), bytes_on_disk());
}

TEST_F(DiskStoreTest, DamagedFilesAreATwentiethOfTheBudgetAtMost) {
  const auto store = open(kModel, mebibytes(1));
  for (std::uint32_t i = 0; i < 20; ++i) {
    const SampleSegment segment = sample_segment(kModel, 3, i, 10'000);  // 16 KiB on disk, of 51
    ASSERT_TRUE(put(*store, segment).ok());
    flip_byte(path_of(segment), 1);
    EXPECT_EQ(get_error(*store, segment), ErrorKind::kDamaged);
    EXPECT_EQ(quarantined(), std::min(i + 1, 3U));
  }
  EXPECT_EQ(store->used().value(), bytes_on_disk());
}

TEST_F(DiskStoreTest, WrongArgumentsAreRefusedWithoutHarm) {
  const auto store = open();
  ASSERT_TRUE(put(*store, first_).ok());
  std::vector<std::byte> wrong_size(first_.payload.size() - 1);
  const Status read = store->get(first_.header, PartKind::kRows, wrong_size);
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().kind, ErrorKind::kInvalid);
  EXPECT_EQ(get(*store, first_), first_.payload);
  const Status foreign = put(*store, sample_segment(kOtherModel, 1, 0, 10));
  ASSERT_FALSE(foreign.ok());
  EXPECT_EQ(foreign.error().kind, ErrorKind::kInvalid);
  const Status no_parts = store->put(second_.header, {});
  ASSERT_FALSE(no_parts.ok());
  EXPECT_EQ(no_parts.error().kind, ErrorKind::kInvalid);
}

TEST_F(DiskStoreTest, ThreadsShareAStore) {
  const auto store = open(kModel, mebibytes(4));
  std::vector<std::thread> threads;
  for (std::uint32_t thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      for (std::uint32_t round = 0; round < 12; ++round) {
        // Two threads share each conversation, so that they meet on the same names.
        const SampleSegment segment = sample_segment(kModel, thread / 2, round % 4, 3000);
        const bool stored = put(*store, segment).ok();
        store->touch(segment.header.name, 1'000 + round);
        const auto bytes = get(*store, segment);
        if (!bytes.empty()) {
          EXPECT_EQ(bytes, segment.payload);
        }
        if (round % 3 == 0) {
          EXPECT_TRUE(store->remove(segment.header.name).ok());
        }
        if (round % 5 == 0) store->save_index();
        EXPECT_TRUE(stored);
        EXPECT_LE(store->used(), store->budget());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(store->used().value(), bytes_on_disk());
  EXPECT_EQ(store->counters().damaged, 0u);
}

}  // namespace
}  // namespace kvkeep::store
