#include "server/http/outbox.h"

#include <gtest/gtest.h>

namespace kvkeep::server {
namespace {

UnreadReplies& no_others() {
  static UnreadReplies all(SIZE_MAX);
  return all;
}

TEST(Outbox, WakesItsWriterOnceUntilItTakes) {
  int wakes = 0;
  Outbox outbox(100, no_others(), [&] { ++wakes; });
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
  Outbox outbox(10, no_others(), [] {});
  EXPECT_TRUE(outbox.append(std::string(50, 'x'))) << "one piece always fits";
  EXPECT_EQ(outbox.take().bytes.size(), 50U);
  outbox.sent(45);
  EXPECT_TRUE(outbox.append(std::string(5, 'x')));
  EXPECT_FALSE(outbox.append("x")) << "what was taken counts until it is sent";
  EXPECT_TRUE(outbox.gone());
}

TEST(Outbox, CountsItsBytesAmongThoseOfAllUntilTheyAreSentOrDropped) {
  UnreadReplies all(100);
  {
    Outbox read(1'000, all, [] {});
    Outbox unread(80, all, [] {});
    EXPECT_TRUE(read.append(std::string(50, 'x')));
    EXPECT_TRUE(unread.append(std::string(90, 'x')));
    EXPECT_TRUE(read.append_body(std::make_shared<const std::string>(1'000, 'x'))) << "others have it, too";
    EXPECT_EQ(all.counts().bytes, 140U);
    EXPECT_TRUE(all.are_too_many());
    (void)read.take();
    EXPECT_EQ(all.counts().bytes, 140U) << "taken, and not sent";
    read.sent(20);
    EXPECT_EQ(read.unsent_bytes(), 30U);
    read.sent(1'030);
    EXPECT_EQ(all.counts().bytes, 90U);
    EXPECT_FALSE(unread.append("x"));
    EXPECT_EQ(unread.take().bytes, "") << "the memory is free although its maker is still at work";
    EXPECT_EQ(all.counts().bytes, 0U);
    EXPECT_EQ(all.counts().ended[static_cast<std::size_t>(UnreadCause::kBytes)], 1U);
    unread.leave();
    EXPECT_TRUE(read.append(std::string(70, 'x')));
  }
  EXPECT_EQ(all.counts().bytes, 0U);
}

TEST(Outbox, NothingIsAppendedForAClientThatIsGone) {
  Outbox outbox(10, no_others(), [] {});
  outbox.leave();
  EXPECT_FALSE(outbox.append("x"));
  EXPECT_EQ(outbox.take().bytes, "");
}

TEST(Outbox, ASilenceIsTakenOnce) {
  int wakes = 0;
  Outbox outbox(10, no_others(), [&] { ++wakes; });
  outbox.set_silence({7, [] {}});
  EXPECT_EQ(wakes, 1);
  const Outbox::Silence taken = outbox.take_silence();
  EXPECT_EQ(taken.ms, 7);
  EXPECT_TRUE(taken.task);
  EXPECT_FALSE(outbox.take_silence().task);
}

TEST(Outbox, CountsBytesThatItsMakerKeeps) {
  UnreadReplies all(1'000);
  {
    Outbox outbox(100, all, [] {});
    outbox.note_kept(60);
    EXPECT_EQ(outbox.unsent_bytes(), 60U);
    EXPECT_EQ(all.counts().bytes, 60U);
    EXPECT_TRUE(outbox.append(std::string(90, 'x'))) << "the text of what is kept comes on top";
    outbox.sent(90);
    EXPECT_EQ(outbox.unsent_bytes(), 60U) << "until the reply is over";
    EXPECT_FALSE(outbox.gone());
    outbox.note_kept(41);
    EXPECT_TRUE(outbox.gone());
    EXPECT_EQ(all.counts().bytes, 0U);
    EXPECT_EQ(all.counts().ended[static_cast<std::size_t>(UnreadCause::kBytes)], 1U);
    Outbox other(100, all, [] {});
    other.note_kept(7);
  }
  EXPECT_EQ(all.counts().bytes, 0U);
}

TEST(Outbox, AsksForMoreOnceAllIsSent) {
  int wakes = 0;
  Outbox outbox(100, no_others(), [&] { ++wakes; });
  EXPECT_TRUE(outbox.append("one"));
  outbox.when_sent([] {});
  EXPECT_FALSE(outbox.take_when_sent());
  (void)outbox.take();
  EXPECT_FALSE(outbox.take_when_sent()) << "taken, and not sent";
  outbox.sent(3);
  EXPECT_TRUE(outbox.take_when_sent());
  EXPECT_FALSE(outbox.take_when_sent()) << "once";
  wakes = 0;
  outbox.when_sent([] {});
  EXPECT_EQ(wakes, 1) << "all may be sent already";
}

TEST(Outbox, DropsTheTaskOfAClientThatLeaves) {
  const auto owned = std::make_shared<int>(0);
  Outbox outbox(100, no_others(), [] {});
  outbox.when_sent([owned] {});
  outbox.leave();
  EXPECT_EQ(owned.use_count(), 1);
  outbox.when_sent([owned] {});
  EXPECT_EQ(owned.use_count(), 1);
}

}  // namespace
}  // namespace kvkeep::server
