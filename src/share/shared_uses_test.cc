// How servers use an engine that is well: which uses they report, so that what is used stays, and how many bytes they
// ask for.

#include <gtest/gtest.h>

#include "share/cipher.h"
#include "share/shared_world_fixture.h"

namespace kvkeep::share {
namespace {

using format::PartKind;

// ---- bytes of heads ----

// Where head and payload are one file, what is asked for beyond a head is read from the payload in vain.
TEST_F(SharedStoreTest, HeadsOnTheWayAreAskedForByTheirSizes) {
  ShareServer server(world_);
  const Tokens prompt = share_prompt(1, 400);
  server.publish(prompt, every(40, 400), PartKind::kPoint);
  for (const std::uint32_t guesses : {40u, 200u}) {  // all ends on the way are known, or few
    world_.head_bytes_asked = 0;
    ShareServer reader(world_);
    EXPECT_EQ(reader.restorable(prompt, every(guesses, 400), PartKind::kPoint), Position{400});
    // Ten steps, 40 ids.
    EXPECT_LE(world_.head_bytes_asked,
              format::kEnvelopeBytes + 10 * format::kPathStepBytes + format::encoded_header_size(1, 40));
    EXPECT_EQ(reader.store().counters().damaged, 0u);
  }
}

// Another server cut the prompt elsewhere, and under one end its segment was first: it has all ids from the beginning.
TEST_F(SharedStoreTest, ASegmentThatIsLongerThanItsStepIsReadWhole) {
  const Tokens prompt = share_prompt(1, 420);
  ShareServer other(world_);
  other.publish(prompt, {Position{400}});
  ShareServer server(world_);
  std::vector<Position> ends = every(100, 400);
  ends.push_back(Position{420});
  server.publish(prompt, ends);
  ShareServer reader(world_);
  EXPECT_EQ(reader.restorable(prompt, {Position{420}}), Position{420});
  EXPECT_EQ(reader.store().counters().damaged, 0u);
}

// An engine may answer with as many bytes as it is asked for.
TEST_F(SharedStoreTest, OneCallAsksForBoundedBytes) {
  ShareServer server(world_);
  std::vector<PrefixHash> keys(300);
  for (std::size_t i = 0; i < keys.size(); ++i) keys[i].bytes[i % 32] = static_cast<std::uint8_t>(1 + i / 32);
  const auto records = server.store().records(keys, clock_.monotonic_ns() + 10'000'000'000);
  for (const auto& record : records) EXPECT_EQ(record.error().kind, ErrorKind::kNotFound);
  EXPECT_LE(world_.call_bytes_asked, kMostHeadBytesAtOnce);
  EXPECT_GE(world_.call_names_asked, 60u) << "and not one by one";
}

// ---- uses ----

// Publishes two segments and returns their headers.
std::vector<format::SegmentHeader> published_segments(FrailWorld& world, const ShareOptions& options) {
  ShareServer server(world, options);
  const Tokens prompt = share_prompt(1, 40);
  server.publish(prompt, every(20, 40));
  const auto path = server.find(prompt, every(20, 40));
  EXPECT_TRUE(path.has_value());
  return {path->rows[0].segment, path->rows[1].segment};
}

// Or else what one server filled, or `kvkeep share push`, would leave while others use it.
TEST_F(SharedStoreTest, UsesAreReportedInEveryMode) {
  const auto used = published_segments(world_, {.key = "secret"});
  PrefixHash record;
  int times = 0;
  for (const ShareMode mode : {ShareMode::kRead, ShareMode::kWrite, ShareMode::kBoth}) {
    ShareServer server(world_, {.key = "secret", .mode = mode});
    server.store().touch(used);
    server.store().touch_records({record});
    server.run_all();
    ++times;
    EXPECT_EQ(world_.touches.size(), 3u);
    for (const auto& [name, touches] : world_.touches) EXPECT_EQ(touches, times) << name.text();
    server.store().distrust();
    clock_.advance_ms(601'000);
    server.store().touch(used);
    server.run_all();
    for (const auto& [name, touches] : world_.touches) EXPECT_EQ(touches, times) << "stored state is wrong";
  }
}

TEST_F(SharedStoreTest, UsesOfRecordsAreReportedEveryTenMinutes) {
  ShareServer server(world_);
  PrefixHash one, other;
  other.bytes.fill(1);
  const auto use = [&](const std::vector<PrefixHash>& keys) {
    world_.touches.clear();
    server.store().touch_records(keys);
    server.run_all();
    return world_.touches.size();
  };
  EXPECT_EQ(use({one, other}), 2u);
  for (const auto& [name, bytes] : world_.touched_bytes) {
    EXPECT_EQ(name.kind, ObjectKind::kRecord);
    EXPECT_EQ(bytes, 0u);
  }
  clock_.advance_ms(599'000);
  EXPECT_EQ(use({one}), 0u);
  clock_.advance_ms(2'000);
  EXPECT_EQ(use({one}), 1u);
}

// Pieces are counted by what is stored, which others may have encrypted.
TEST_F(SharedStoreTest, UsesOfWhatOthersEncryptedAreOfAllTheirBytes) {
  const auto used = published_segments(world_, {.key = "secret", .encrypt = true});
  ShareServer reader(world_, {.key = "secret", .mode = ShareMode::kRead});
  ASSERT_TRUE(reader.get(used[0]).ok());
  reader.store().touch(used);
  reader.run_all();
  ASSERT_EQ(world_.touched_bytes.size(), 2u);
  for (const format::SegmentHeader& segment : used) {
    EXPECT_EQ(world_.touched_bytes[reader.name_of(segment)], format::payload_bytes(segment) + kCipherTagBytes);
  }
  EXPECT_EQ(reader.store().counters().broken, 0u);
}

// Such as a user of Valkey without `+pexpire`, or keys of S3 that only read.
TEST_F(SharedStoreTest, AServerThatMayNotRenewReadsOnAndAsksOnceAnHour) {
  const auto used = published_segments(world_, {});
  world_.touch_trouble = unsupported("NOPERM");
  ShareServer reader(world_, {.mode = ShareMode::kRead});
  std::uint64_t asked = 0;
  for (int minute = 0; minute <= 125; ++minute) {
    const std::uint64_t before = world_.calls;
    reader.store().touch(used);
    reader.run_all();
    asked += world_.calls > before ? 1 : 0;
    reader.tick(60'000);
    ASSERT_EQ(reader.restorable(share_prompt(1, 40), every(20, 40)), Position{40}) << minute;
  }
  EXPECT_EQ(asked, 3u);
  EXPECT_EQ(reader.store().counters().failures, 0u);
}

// A password that was changed says nothing of rights: uses are reported again as soon as it is right.
TEST_F(SharedStoreTest, AServerThatMayNotLogInRenewsAgainOnceItMay) {
  const auto used = published_segments(world_, {});
  ShareServer server(world_);
  world_.touch_trouble = invalid("NOAUTH Authentication required");
  server.store().touch(used);
  server.run_all();
  EXPECT_GT(server.store().counters().failures, 0u);
  world_.touch_trouble.reset();
  server.tick(5'000);
  world_.touches.clear();
  server.store().touch(used);
  server.run_all();
  EXPECT_EQ(world_.touches.size(), used.size());
}

// An engine that renews slowly answers reads in time.
TEST_F(SharedStoreTest, LateRenewalsCloseNothing) {
  const auto used = published_segments(world_, {});
  ShareServer server(world_);
  for (const ErrorKind kind : {ErrorKind::kBusy, ErrorKind::kIo}) {
    world_.touch_trouble = Error{kind, "not renewed in time"};
    for (int i = 0; i < 10; ++i) {
      server.store().touch(used);
      server.run_all();
      server.tick(5'000);
      ASSERT_EQ(server.restorable(share_prompt(1, 40), every(20, 40)), Position{40}) << i;
    }
  }
  EXPECT_EQ(server.store().counters().breaker_openings, 0u);
  EXPECT_EQ(server.store().counters().failures, 40u) << "of two nodes";
}

}  // namespace
}  // namespace kvkeep::share
