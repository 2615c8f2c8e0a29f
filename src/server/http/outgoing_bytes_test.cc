#include "server/http/outgoing_bytes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

namespace kvkeep::server {
namespace {

using Sent = OutgoingBytes::Sent;

// A socket that takes this many bytes until it blocks.
struct Socket {
  std::size_t room = 0;
  bool broken = false;
  std::string got = {};
  std::size_t told = 0;

  Sent take(OutgoingBytes& bytes, std::int64_t now_ns) {
    return bytes.send(
        [this](std::string_view more) -> std::optional<std::size_t> {
          if (broken) return std::nullopt;
          const std::size_t count = std::min(room, more.size());
          got += more.substr(0, count);
          room -= count;
          return count;
        },
        [this](std::size_t count) { told += count; }, now_ns);
  }
};

TEST(OutgoingBytes, GoesOnWhereTheSocketBlocked) {
  OutgoingBytes bytes;
  Socket socket{.room = 3};
  bytes.add("one ");
  bytes.add("two");
  EXPECT_EQ(socket.take(bytes, 5), Sent::kBlocked);
  EXPECT_FALSE(bytes.empty());
  EXPECT_EQ(bytes.sent_ns(), 5);
  bytes.add(" three");
  socket.room = 100;
  EXPECT_EQ(socket.take(bytes, 6), Sent::kAll);
  EXPECT_TRUE(bytes.empty());
  EXPECT_EQ(socket.got, "one two three");
  EXPECT_EQ(socket.told, socket.got.size());
  EXPECT_FALSE(bytes.stalled_ns());
}

// A client that takes a byte now and then does not put off its deadline; one that takes 64 KiB does.
TEST(OutgoingBytes, AClientOwes64KiBFromWhereItStalled) {
  OutgoingBytes bytes;
  Socket socket;
  bytes.add(std::string(1 << 20, 'x'));
  EXPECT_EQ(socket.take(bytes, 100), Sent::kBlocked);
  EXPECT_EQ(bytes.stalled_ns(), 100);
  socket.room = 1;
  EXPECT_EQ(socket.take(bytes, 200), Sent::kBlocked);
  EXPECT_EQ(bytes.stalled_ns(), 100);
  socket.room = 64 << 10;
  EXPECT_EQ(socket.take(bytes, 300), Sent::kBlocked);
  EXPECT_EQ(bytes.stalled_ns(), 300);
}

TEST(OutgoingBytes, ABrokenSocketIsReported) {
  OutgoingBytes bytes;
  Socket socket{.broken = true};
  EXPECT_EQ(socket.take(bytes, 1), Sent::kAll) << "there was nothing to send";
  bytes.add("x");
  EXPECT_EQ(socket.take(bytes, 1), Sent::kBroken);
}

TEST(OutgoingBytes, ABodyThatOthersShareIsSentAfterTheBytesAndNotCopied) {
  const auto body = std::make_shared<const std::string>("shared body");
  OutgoingBytes bytes;
  Socket socket{.room = 8};
  bytes.add("head ");
  bytes.add(body);
  EXPECT_EQ(body.use_count(), 2);
  EXPECT_EQ(socket.take(bytes, 5), Sent::kBlocked);
  EXPECT_FALSE(bytes.empty());
  bytes.add(" and more");
  EXPECT_EQ(body.use_count(), 1) << "its rest was copied";
  socket.room = 100;
  EXPECT_EQ(socket.take(bytes, 6), Sent::kAll);
  EXPECT_EQ(socket.got, "head shared body and more");
  EXPECT_EQ(socket.told, socket.got.size());
  bytes.add(body);
  EXPECT_EQ(socket.take(bytes, 7), Sent::kAll);
  EXPECT_TRUE(bytes.empty());
  EXPECT_EQ(body.use_count(), 1);
}

}  // namespace
}  // namespace kvkeep::server
