// Moving between tiers, without a cache: the backlog, chains of states, fetching and further copies.

#include <algorithm>

#include "cache/backlog.h"
#include "cache/disk_writer.h"
#include "cache/further_copies.h"
#include "cache/loader.h"
#include "cache/parts_fixture.h"

namespace kvkeep::cache {
namespace {

constexpr StateShape kStatesGrow{.cacheable = true, .points = true, .whole_points = true};

// ---- the backlog ----

TEST(Backlog, CountsWhatTheWriterWasGiven) {
  PartsTable world;
  const SegmentId segment = world.add(kRootSegment, 1);
  Backlog backlog(world.table, 4);
  CacheLock lock(world.mutex);
  const Backlog::Item item = backlog.enter(segment);
  EXPECT_TRUE(world.table.entry(segment).queued());
  EXPECT_EQ(backlog.queued_bytes(), ByteCount{kPayloadBytes});
  EXPECT_TRUE(backlog.leave(item));
  EXPECT_EQ(backlog.queued(), 0U);
  EXPECT_FALSE(backlog.leave({segment, item.serial + 1, ByteCount{}})) << "another one has its number";
}

TEST(Backlog, OffersTheOldestThatWaitsForAReason) {
  PartsTable world;
  const SegmentId first = world.add(kRootSegment, 1);
  const SegmentId second = world.add(kRootSegment, 2);
  const SegmentId third = world.add(kRootSegment, 3);
  Backlog backlog(world.table, 4);
  CacheLock lock(world.mutex);
  backlog.wait(first, Waits::kQueue);
  backlog.wait(second, Waits::kQueue);
  backlog.wait(third, Waits::kRoom);
  backlog.wait(first, Waits::kAllowance);  // only for that from now on
  EXPECT_EQ(backlog.next(Waits::kQueue), second);
  EXPECT_EQ(backlog.next(Waits::kQueue), std::nullopt);
  EXPECT_EQ(backlog.next(Waits::kAllowance), first);
  world.ram.let_go(third);
  EXPECT_EQ(backlog.next(Waits::kRoom), std::nullopt) << "forgotten in RAM meanwhile";
}

TEST(Backlog, RemembersAsManyAsItMay) {
  PartsTable world;
  Backlog backlog(world.table, 2);
  std::vector<SegmentId> segments;
  for (TokenId first = 1; first <= 3; ++first) segments.push_back(world.add(kRootSegment, first));
  CacheLock lock(world.mutex);
  for (const SegmentId segment : segments) backlog.wait(segment, Waits::kQueue);
  EXPECT_EQ(backlog.remembered(), 2U);
  EXPECT_EQ(world.table.entry(segments[0]).waits, Waits::kContinuation);
  EXPECT_EQ(backlog.next(Waits::kQueue), segments[1]);
}

TEST(WriteAllowance, WithoutALimitSparesAll) {
  PartsTable world;
  WriteAllowance allowance(world.mutex, world.table, nullptr, world.clock);
  const SegmentId segment = world.add(kRootSegment, 1);
  EXPECT_FALSE(allowance.limited());
  EXPECT_TRUE(allowance.spares(segment, {segment}));
  EXPECT_TRUE(allowance.left());
}

// ---- chains of states, and fetching ----

struct Fetched : PartsTable {
  explicit Fetched(const StateShape& shape = {.cacheable = true}, Promise promise = Promise::kDurable)
      : PartsTable(shape, promise) {}
  Evictor of_ram{mutex, table, forgetting, ram, kRamTier, tiers(), clock};
  RamRoom room{{}, mutex, ram, of_ram, false};
  StateChains chains{mutex, table, ram, room, forgetting, false};
  Fetcher fetcher{mutex, table, ram, room, forgetting, chains, tiers(), clock};
};

TEST(StateChains, StoreAStateAsDifferencesAndGiveItBack) {
  Fetched world(kStatesGrow);
  store::BufferPool pool;
  const SegmentId rows = world.add(kRootSegment, 1, 0);
  const SegmentId base = world.add_leaf(rows, format::PartKind::kWhole, 50'000);
  const SegmentId leaf = world.add_leaf(world.add(rows, 2, 0), format::PartKind::kWhole, 60'000);
  const TierPort::Bytes state = some_bytes(60'000);
  {
    CacheLock lock(world.mutex);  // new bytes lie in a staging buffer
    store::StagingBuffer staged = pool.acquire(state->size());
    std::ranges::copy(state->bytes(), staged.span().begin());
    world.ram.replace(leaf, std::move(staged).freeze(state->size()));
  }
  const auto build = world.chains.begin_build(leaf);
  ASSERT_TRUE(build.has_value());
  EXPECT_EQ(build->base, base);
  const auto base_state = world.fetcher.fetch(base);
  ASSERT_TRUE(base_state.ok());
  world.chains.finish_build(*build, *base_state);
  {
    CacheLock lock(world.mutex);
    EXPECT_EQ(world.table.entry(leaf).base, base);
    EXPECT_LT(world.ram.find(leaf)->size(), state->size() / 10);
    EXPECT_EQ(world.table.entry(base).pins, 0U) << "let go again";
    world.ram.drop_decoded(ByteCount{});
  }
  const auto decoded = world.fetcher.fetch(leaf);
  ASSERT_TRUE(decoded.ok());
  EXPECT_TRUE(std::ranges::equal((*decoded)->bytes(), state->bytes()));
}

TEST(Fetcher, ReadsWhatRamLacksAndKeepsItThere) {
  Fetched world;
  const SegmentId segment = world.add(kRootSegment, 1);
  world.put_below(segment);
  world.drop_from_ram(segment);
  const auto bytes = world.fetcher.fetch(segment);
  ASSERT_TRUE(bytes.ok());
  EXPECT_TRUE(std::ranges::equal((*bytes)->bytes(), some_bytes()->bytes()));
  EXPECT_TRUE(world.entry(segment).in_ram());
}

TEST(Fetcher, ForgetsWhatATierThatPromisesNothingHasLost) {
  Fetched world({.cacheable = true}, Promise::kNone);
  const SegmentId segment = world.add(kRootSegment, 1);
  world.put_below(segment);
  world.drop_from_ram(segment);
  world.lower.held.clear();
  EXPECT_EQ(world.fetcher.fetch(segment).error().kind, ErrorKind::kNotFound);
  EXPECT_FALSE(world.there(segment));
  CacheLock lock(world.mutex);
  EXPECT_EQ(world.forgetting.damaged(), 0U) << "that was to be expected";
}

TEST(Loader, GoesToTheReaderOfTheTierThatHasIt) {
  Fetched world;
  sim::SimExecutor first_reader;
  std::vector<format::SegmentName> gone;
  Loader loader(world.fetcher, first_reader, world.clock,
                [&](const format::SegmentName& name) { gone.push_back(name); });
  const SegmentId segment = world.add(kRootSegment, 1);
  world.put_below(segment);
  world.drop_from_ram(segment);
  const TokenRange all{Position{}, Position{16}};
  std::optional<LoadResult> result;
  {
    CacheLock lock(world.mutex);
    world.table.pin(segment);
  }
  auto lease = std::make_shared<Lease>(
      world.forgetting, world.table.shape(), segment,
      std::vector<LeasedStep>{{segment, all, all, Tier::kDisk, ByteCount{kPayloadBytes}, nullptr}});
  loader.load(lease, all, [&](LoadResult told) { result = std::move(told); }, std::nullopt);
  first_reader.run_all();
  EXPECT_FALSE(result.has_value()) << "another reader reads that tier";
  EXPECT_TRUE(loader.busy());
  world.reader.run_all();
  ASSERT_TRUE(result.has_value());
  EXPECT_TRUE(result->status.ok());
  EXPECT_EQ(result->bytes_read, ByteCount{kPayloadBytes});
  EXPECT_TRUE(lease->loaded(all));
  EXPECT_FALSE(loader.busy());
  EXPECT_TRUE(gone.empty());
}

// ---- further copies ----

struct Copied : PartsTable {
  Copied() : PartsTable({.cacheable = true}, Promise::kNone) {}
  std::vector<LowerTier> far() { return {{kFirstFurtherTier, &lower, &writer, &reader}}; }
  FurtherCopies copies{mutex, table, ram, forgetting, far(), clock};
};

TEST(FurtherCopies, AreMadeInTheirOwnTime) {
  Copied world;
  const SegmentId segment = world.add(kRootSegment, 1);
  world.copies.offer(segment);
  world.drop_from_ram(segment);  // the copy needs nothing of the cache any more
  EXPECT_FALSE(world.entry(segment).available());
  world.copies.drain();
  EXPECT_TRUE(world.entry(segment).available());
  EXPECT_EQ(world.lower.held.size(), 1U);
}

TEST(FurtherCopies, MayBeRefusedAndAreOfferedAgain) {
  Copied world;
  const SegmentId segment = world.add(kRootSegment, 1);
  world.lower.refuses = true;
  world.copies.offer(segment);
  world.copies.drain();
  EXPECT_EQ(world.entry(segment).in(kFirstFurtherTier), CopyState::kAbsent);
  world.lower.refuses = false;
  world.copies.offer(segment);
  world.copies.drain();
  EXPECT_EQ(world.entry(segment).in(kFirstFurtherTier), CopyState::kHere);
}

TEST(FurtherCopies, ForgottenSegmentsAreNotCopied) {
  Copied world;
  const SegmentId segment = world.add(kRootSegment, 1);
  world.copies.offer(segment);
  {
    CacheLock lock(world.mutex);
    world.forgetting.erase(segment, std::nullopt);
  }
  world.copies.drain();
  EXPECT_TRUE(world.lower.held.empty());
}

}  // namespace
}  // namespace kvkeep::cache
