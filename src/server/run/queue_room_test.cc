// How many replies may be open, and how long their prompts may be, without an inbox.

#include "server/run/queue_room.h"

#include <gtest/gtest.h>

#include "policy/next_call.h"
#include "server/run/job.h"
#include "server/run/scheduler.h"

namespace kvkeep::server {
namespace {

// One reply to a prompt of so many tokens comes, while others wait.
Status come(QueueRoom& room, std::size_t tokens, std::uint64_t owner = policy::kNoKey, bool ahead = false) {
  Job job;
  job.owner = owner;
  const Status fits = room.check({1, tokens}, job, room.open().replies);
  if (fits) room.add({1, tokens}, owner, ahead);
  return fits;
}

TEST(QueueRoom, OneOwnerLeavesSomeTokensToOthers) {
  QueueRoom room({.places = 1, .queue = 100, .tokens = 1'000});
  for (int i = 0; i < 9; ++i) EXPECT_TRUE(come(room, 100, 7).ok());
  const Status refused = come(room, 100, 7);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, ErrorKind::kBusy);
  EXPECT_NE(refused.error().message.find("of one client"), std::string::npos) << refused.error().message;
  EXPECT_TRUE(come(room, 100, 8).ok());
  EXPECT_FALSE(come(room, 1, 8).ok()) << "all is taken";
  for (int i = 0; i < 5; ++i) room.remove({1, 100}, 7, false);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(come(room, 100, 8).ok()) << "up to half, next to another one";
  EXPECT_FALSE(come(room, 100, 8).ok());
  EXPECT_EQ(room.open().tokens, 800U);
}

TEST(QueueRoom, APrefillAheadLeavesAllTokensToOthers) {
  QueueRoom room({.places = 1, .queue = 100, .tokens = 1'000});
  ASSERT_TRUE(come(room, 900, policy::kNoKey, true).ok());
  EXPECT_TRUE(come(room, 1'000).ok());
  room.remove({1, 900}, policy::kNoKey, true);
  EXPECT_FALSE(come(room, 1).ok());
}

TEST(QueueRoom, AShareOfAShortQueueIsRoundedUp) {
  EXPECT_EQ(share_of_queue({.places = 1, .queue = 1}, 0).replies, 2U);
  EXPECT_EQ(share_of_queue({.places = 1, .queue = 0}, 0).replies, 1U);
  EXPECT_EQ(share_of_queue({.places = 2, .queue = 2}, 0).replies, 3U);
  EXPECT_EQ(share_of_queue({.places = 2, .queue = 5}, 1).replies, 4U);
  EXPECT_EQ(share_of_queue({.places = 4, .queue = 4'096}, 0).replies, 3'844U);
  EXPECT_EQ(share_of_queue({.places = 4, .queue = 4'096}, 3).replies, 964U);
  EXPECT_EQ(share_of_queue({.tokens = 1'000}, 1).tokens, 469U);
  EXPECT_EQ(share_of_queue({}, 0).tokens, SIZE_MAX - SIZE_MAX / 16 - 1);
}

TEST(QueueRoom, ByDefaultSixtyFourWholeContextsMayWait) {
  SchedulerOptions options;
  EXPECT_EQ(queue_limits(options, 4'096).tokens, 67'108'864U);
  EXPECT_EQ(queue_limits(options, 2'000'000).tokens, 128'000'000U);
  options.queue_tokens = 5;
  EXPECT_EQ(queue_limits(options, 4'096).tokens, 5U);
}

}  // namespace
}  // namespace kvkeep::server
