#include "server/routes/held_files.h"

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <thread>
#include <vector>

namespace kvkeep::server {
namespace {

HeldFiles::Bytes file_of(std::size_t bytes, char fill = 'x') {
  return std::make_shared<const std::string>(std::string(bytes, fill));
}

MediaHash hash_of(std::uint8_t number) {
  MediaHash hash;
  hash.bytes[0] = number;
  return hash;
}

TEST(HeldFiles, AllTogetherHaveABound) {
  HeldFiles files(ByteCount{1'000});
  const auto first = files.hold(hash_of(1), file_of(600));
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(**first, std::string(600, 'x'));
  const auto second = files.hold(hash_of(2), file_of(401));
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().kind, ErrorKind::kBusy);
  EXPECT_TRUE(files.hold(hash_of(2), file_of(400)).ok());
}

TEST(HeldFiles, RoomComesBackWithTheLastPointer) {
  HeldFiles files(ByteCount{1'000});
  auto held = files.hold(hash_of(1), file_of(1'000)).value();
  auto copy = held;
  held.reset();
  EXPECT_FALSE(files.hold(hash_of(2), file_of(1)).ok());
  copy.reset();
  EXPECT_TRUE(files.hold(hash_of(2), file_of(1'000)).ok());
}

TEST(HeldFiles, RequestsWithTheSameFileShareOneCopy) {
  HeldFiles files(ByteCount{1'000});
  const auto first = files.hold(hash_of(1), file_of(600)).value();
  const auto again = files.hold(hash_of(1), file_of(600)).value();
  EXPECT_EQ(first.get(), again.get());
  EXPECT_TRUE(files.hold(hash_of(2), file_of(400)).ok()) << "it counts once";
}

TEST(HeldFiles, LargeOnesLeaveRoomToSmallOnes) {
  HeldFiles files(mebibytes(32));
  EXPECT_EQ(files.most_of_request(), mebibytes(30));
  const auto large = files.hold(hash_of(1), file_of(std::size_t{30} << 20)).value();
  EXPECT_FALSE(files.hold(hash_of(2), file_of((1 << 20) + 1)).ok());
  EXPECT_TRUE(files.hold(hash_of(2), file_of(1 << 20)).ok());
}

TEST(HeldFiles, ASpareFileComesBackWhileThereIsRoom) {
  HeldFiles files(ByteCount{1'000});
  auto held = files.hold(hash_of(1), file_of(600, 'y')).value();
  const auto spare = files.keep_spare(hash_of(1));
  held.reset();
  EXPECT_TRUE(files.hold(hash_of(2), file_of(400)).ok()) << "there is room for both";
  held = spare();
  ASSERT_NE(held, nullptr);
  EXPECT_EQ(*held, std::string(600, 'y'));
  EXPECT_EQ(held, files.hold(hash_of(1), file_of(600)).value()) << "requests share it";
  EXPECT_FALSE(files.hold(hash_of(2), file_of(401)).ok()) << "it is in use again";
  EXPECT_NE(spare(), nullptr);
}

TEST(HeldFiles, ASpareFileGoesWhenOthersNeedTheRoom) {
  HeldFiles files(ByteCount{1'000});
  auto used = files.hold(hash_of(1), file_of(300)).value();
  auto held = files.hold(hash_of(2), file_of(300)).value();
  const auto spare = files.keep_spare(hash_of(2));
  const auto spare_of_used = files.keep_spare(hash_of(1));
  held.reset();
  auto other = files.hold(hash_of(3), file_of(600));
  ASSERT_TRUE(other.ok());
  EXPECT_EQ(spare(), nullptr);
  EXPECT_EQ(*spare_of_used(), std::string(300, 'x')) << "it was in use";
  EXPECT_FALSE(files.hold(hash_of(2), file_of(300)).ok()) << "files in use have their room";
  other = io_error("its request ended");
  EXPECT_EQ(*files.hold(hash_of(2), file_of(300, 'z')).value(), std::string(300, 'z')) << "a request has it anew";
  EXPECT_EQ(*spare(), std::string(300, 'z'));
}

TEST(HeldFiles, ASpareFileGoesWithItsLastRequest) {
  HeldFiles files(ByteCount{1'000});
  auto held = files.hold(hash_of(1), file_of(600)).value();
  const std::weak_ptr<const std::string> watch = held;
  auto spare = files.keep_spare(hash_of(1));
  auto same = files.keep_spare(hash_of(1));
  held.reset();
  spare = {};
  EXPECT_NE(same(), nullptr);
  same = {};
  EXPECT_TRUE(watch.expired());
  EXPECT_TRUE(files.hold(hash_of(2), file_of(1'000)).ok());
  EXPECT_FALSE(files.keep_spare(hash_of(1))) << "nobody holds it";
}

TEST(HeldFiles, PointersMayOutliveIt) {
  auto files = std::make_unique<HeldFiles>(ByteCount{1'000});
  const auto held = files->hold(hash_of(1), file_of(5)).value();
  files.reset();
  EXPECT_EQ(*held, "xxxxx");
}

// Three files that all use, nine that soon are spare, and more than all have room for.
TEST(HeldFiles, AreHeldFromManyThreads) {
  HeldFiles files(ByteCount{11'000});  // three files, one for each thread, and one that it is about to give back
  const auto use = [&files](int thread) {
    std::array<std::function<HeldFiles::Bytes()>, 4> others;
    for (int i = 0; i < 2'000; ++i) {
      const MediaHash hash = hash_of(static_cast<std::uint8_t>(i % 3));
      auto held = files.hold(hash, file_of(1'000));
      ASSERT_TRUE(held.ok());
      const auto spare = files.keep_spare(hash);
      held = io_error("its use is over");
      const HeldFiles::Bytes again = spare();
      EXPECT_TRUE(again == nullptr || *again == std::string(1'000, 'x'));
      const MediaHash other = hash_of(static_cast<std::uint8_t>(3 + (i + thread) % 9));
      if (files.hold(other, file_of(1'000))) others[i % others.size()] = files.keep_spare(other);
    }
  };
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) threads.emplace_back(use, thread);
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(files.hold(hash_of(99), file_of(11'000)).ok()) << "all room came back";
}

}  // namespace
}  // namespace kvkeep::server
