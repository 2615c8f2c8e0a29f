// How servers use an engine that is well: which uses they report, so that what is used stays, and how many bytes they
// ask for.

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace kvkeep::share
