#include "server/routes/held_files.h"

#include <gtest/gtest.h>

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

TEST(HeldFiles, PointersMayOutliveIt) {
  auto files = std::make_unique<HeldFiles>(ByteCount{1'000});
  const auto held = files->hold(hash_of(1), file_of(5)).value();
  files.reset();
  EXPECT_EQ(*held, "xxxxx");
}

TEST(HeldFiles, AreHeldFromManyThreads) {
  HeldFiles files(ByteCount{8'000});  // three files, and one for each thread that is about to give it back
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&] {
      for (int i = 0; i < 2'000; ++i) {
        const auto held = files.hold(hash_of(static_cast<std::uint8_t>(i % 3)), file_of(1'000));
        EXPECT_TRUE(held.ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(files.hold(hash_of(9), file_of(8'000)).ok()) << "all room came back";
}

}  // namespace
}  // namespace kvkeep::server
