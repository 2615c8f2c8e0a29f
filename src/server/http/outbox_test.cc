#include "server/http/outbox.h"

#include <gtest/gtest.h>

namespace kvkeep::server {
namespace {

TEST(Outbox, WakesItsWriterOnceUntilItTakes) {
  int wakes = 0;
  Outbox outbox(100, [&] { ++wakes; });
  EXPECT_FALSE(outbox.started());
  EXPECT_TRUE(outbox.append("one "));
  EXPECT_TRUE(outbox.append("two"));
  EXPECT_TRUE(outbox.started());
  EXPECT_EQ(wakes, 1);
  EXPECT_EQ(outbox.take().bytes, "one two");
  outbox.end(Outbox::End::kComplete, true);
  EXPECT_EQ(wakes, 2);
  const Outbox::Taken last = outbox.take();
  EXPECT_EQ(last.bytes, "");
  EXPECT_EQ(last.end, Outbox::End::kComplete);
  EXPECT_TRUE(last.close_after);
}

TEST(Outbox, AClientThatLetsTooMuchPileUpIsAbandoned) {
  Outbox outbox(10, [] {});
  EXPECT_TRUE(outbox.append(std::string(50, 'x'))) << "one piece always fits";
  EXPECT_EQ(outbox.take().bytes.size(), 50U);
  outbox.sent(45);
  EXPECT_TRUE(outbox.append(std::string(5, 'x')));
  EXPECT_FALSE(outbox.append("x")) << "what was taken counts until it is sent";
  EXPECT_TRUE(outbox.gone());
}

TEST(Outbox, NothingIsAppendedForAClientThatIsGone) {
  Outbox outbox(10, [] {});
  outbox.leave();
  EXPECT_FALSE(outbox.append("x"));
  EXPECT_EQ(outbox.take().bytes, "");
}

TEST(Outbox, ASilenceIsTakenOnce) {
  int wakes = 0;
  Outbox outbox(10, [&] { ++wakes; });
  outbox.set_silence({7, [] {}});
  EXPECT_EQ(wakes, 1);
  const Outbox::Silence taken = outbox.take_silence();
  EXPECT_EQ(taken.ms, 7);
  EXPECT_TRUE(taken.task);
  EXPECT_FALSE(outbox.take_silence().task);
}

}  // namespace
}  // namespace kvkeep::server
