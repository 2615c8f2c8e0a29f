// Whole states stored as differences from an earlier one: how much they save, and that a chain never misses a link,
// whatever leaves, is damaged or lost.

#include <map>

#include "cache/cache_test_fixture.h"
#include "format/built_state.h"
#include "format/bytes.h"

namespace kvkeep::cache {
namespace {

std::unique_ptr<World> world_of(ByteCount ram = mebibytes(1), ByteCount disk = mebibytes(64)) {
  auto world = std::make_unique<World>(ram, disk);
  world->model = kOpaqueModel;
  return world;
}

// A conversation that is kept every 16 tokens from 64 on, each turn written before the next.
Tokens keep_turns(World& world, TokenId first, std::size_t turns) {
  const Tokens tokens = conversation(first, 64 + 16 * turns);
  for (std::size_t end = 64; end <= 64 + 16 * turns; end += 16) {
    EXPECT_TRUE(world.keep(head(tokens, end)));
    world.writer.run_all();
  }
  return tokens;
}

std::vector<std::size_t> turn_ends(std::size_t turns) {
  std::vector<std::size_t> ends;
  for (std::size_t turn = 0; turn <= turns; ++turn) ends.push_back(64 + 16 * turn);
  return ends;
}

// Headers of the whole states on disk by position.
std::map<std::size_t, format::SegmentHeader> headers_of(const World& world) {
  std::map<std::size_t, format::SegmentHeader> headers;
  for (const std::string& path : world.segment_files()) {
    const auto header = format::decode_header(*world.files.contents(path));
    if (header && header->name.kind == format::PartKind::kWhole) headers[header->name.end.value()] = *header;
  }
  return headers;
}

// Damages the file of the whole state at `end`, or removes it.
void spoil(World& world, std::size_t end, bool remove) {
  for (const std::string& path : world.segment_files()) {
    auto bytes = *world.files.contents(path);
    const auto header = format::decode_header(bytes);
    if (!header || header->name.kind != format::PartKind::kWhole || header->name.end.value() != end) continue;
    bytes.back() ^= std::byte{1};
    if (remove) {
      ASSERT_TRUE(world.files.remove(path).ok());
    } else {
      world.files.plant(path, bytes);
    }
    return;
  }
  FAIL() << "no state at " << end;
}

TEST(BuiltStates, BytesOfAnEarlierStateAreNotWrittenAgain) {
  const auto world = world_of(ByteCount{0});
  ASSERT_TRUE(world->open());
  const Tokens tokens = keep_turns(*world, 10, 7);
  const auto headers = headers_of(*world);
  ASSERT_EQ(headers.size(), 8U);
  EXPECT_FALSE(headers.at(64).parts.front().built());
  for (std::size_t end = 80; end <= 176; end += 16) {
    const format::Part& part = headers.at(end).parts.front();
    EXPECT_EQ(part.base.value(), end - 16);
    EXPECT_EQ(part.state_bytes, kPointBytes + end * kStateBytesEach);
    constexpr std::size_t kFrameOverhead = 24;  // headers of the frame, its block and its matches
    EXPECT_LE(part.size_bytes, kPointBytes + 16 * kStateBytesEach + format::kBuiltStateHeadBytes + kFrameOverhead);
  }
  EXPECT_EQ(world->cache->stats().built, 7U);
  EXPECT_GT(world->cache->stats().built_saved, ByteCount{7 * 64 * kStateBytesEach});
  EXPECT_EQ(world->restorable(tokens), turn_ends(7));
  ASSERT_TRUE(world->restart());
  EXPECT_EQ(world->restorable(tokens), turn_ends(7));
}

TEST(BuiltStates, ChainsEndAtEightAndBeginAnew) {
  const auto world = world_of(ByteCount{0});
  ASSERT_TRUE(world->open());
  const Tokens tokens = keep_turns(*world, 10, 19);
  std::size_t depth = 0;
  for (const auto& [end, header] : headers_of(*world)) {
    depth = header.parts.front().built() ? depth + 1 : 1;
    EXPECT_LE(depth, kMaxBuiltStates) << end;
    EXPECT_EQ(header.parts.front().built(), (end - 64) / 16 % kMaxBuiltStates != 0) << end;
  }
  EXPECT_EQ(world->restorable(tokens), turn_ends(19));
}

TEST(BuiltStates, WithoutDiskRamHoldsThemToo) {
  const auto world = world_of();
  world->open_without_disk();
  const Tokens tokens = keep_turns(*world, 10, 7);
  EXPECT_EQ(world->cache->stats().built, 7U);
  EXPECT_EQ(world->restorable(tokens), turn_ends(7));
  const auto lease = world->cache->lease(tokens);
  for (const LeasedPoint& point : lease->points()) EXPECT_EQ(point.tier, Tier::kRam);
}

// Room for two conversations as differences, for less than one and a half of whole states.
TEST(BuiltStates, RamHoldsMoreOfThem) {
  std::size_t states = 0;
  for (const std::size_t end : turn_ends(7)) states += kPointBytes + end * kStateBytesEach;
  const auto world = world_of(ByteCount{states * 3 / 2});
  world->open_without_disk();
  const Tokens first = keep_turns(*world, 10, 7);
  const Tokens second = keep_turns(*world, 100, 7);
  EXPECT_EQ(world->restorable(first), turn_ends(7));
  EXPECT_EQ(world->restorable(second), turn_ends(7));
  EXPECT_LE(world->cache->stats().ram_used, world->cache->stats().ram_budget);
}

TEST(BuiltStates, AStateOfOtherBytesIsStoredAsItIs) {
  const auto world = world_of(ByteCount{0});
  ASSERT_TRUE(world->open());
  const Tokens tokens = conversation(10, 400);
  ASSERT_TRUE(world->keep(head(tokens, 7)));
  ASSERT_TRUE(world->keep(head(tokens, 40)));
  ASSERT_TRUE(world->keep(tokens));
  world->writer.run_all();
  EXPECT_FALSE(headers_of(*world).at(40).parts.front().built()) << "what is too short for a file is no base";
  EXPECT_FALSE(headers_of(*world).at(400).parts.front().built()) << "a tenth is not worth it";
}

TEST(BuiltStates, BranchesAreBuiltOnWhatTheyShare) {
  const auto world = world_of(ByteCount{0});
  ASSERT_TRUE(world->open());
  const Tokens trunk = conversation(10, 80);
  ASSERT_TRUE(world->keep(trunk));
  world->writer.run_all();
  for (const TokenId first : {50, 70, 90}) {
    ASSERT_TRUE(world->keep(trunk + conversation(first, 20)));
    world->writer.run_all();
  }
  EXPECT_EQ(world->cache->stats().built, 3U);
  for (const TokenId first : {50, 70, 90}) {
    EXPECT_EQ(world->restorable(trunk + conversation(first, 20)), (std::vector<std::size_t>{80, 100}));
  }
}

// ---- files of former versions ----

// Writes the file of a built state as programs before version 4 did: its differences are operations, here one literal.
void write_in_copies(World& world, format::SegmentHeader header, const Tokens& tokens, const PrefixHash& base_hash) {
  const std::vector<std::byte> state = point_of(tokens, header.name.end, true);
  format::Writer stored;
  stored.hash(base_hash);
  stored.sum(checksum(state));
  for (std::size_t left = state.size(); left > 0; left >>= 7) {
    stored.number(static_cast<std::uint8_t>((left & 127) | (left >= 128 ? 128 : 0)));
  }
  stored.raw(state);
  stored.number(std::uint8_t{0});
  format::Part& part = header.parts.front();
  part.differences = format::Differences::kCopies;
  part.size_bytes = stored.size();
  part.sum = format::part_checksum(header.fingerprint, header.name, part.kind, stored.bytes());
  std::vector<std::byte> file = format::encode_header(header);
  file.insert(file.end(), stored.bytes().begin(), stored.bytes().end());
  for (const std::string& path : world.segment_files()) {
    if (path.ends_with(format::file_name(header.name))) world.files.plant(path, file);
  }
}

TEST(BuiltStates, ChainsOfFormerVersionsAreReadAndGrow) {
  const auto world = world_of(ByteCount{0});
  world->save_index_after = SIZE_MAX;
  ASSERT_TRUE(world->open());
  const Tokens tokens = keep_turns(*world, 10, 4);
  world->die();
  auto headers = headers_of(*world);
  for (const std::size_t end : {80U, 96U, 128U}) {
    write_in_copies(*world, headers.at(end), tokens, headers.at(end - 16).name.end_hash);
  }
  ASSERT_TRUE(world->open());
  EXPECT_EQ(world->restorable(tokens), turn_ends(4)) << "both kinds of differences in one chain";
  ASSERT_EQ(keep_turns(*world, 10, 5), conversation(10, 144));
  headers = headers_of(*world);
  EXPECT_EQ(headers.at(128).parts.front().differences, format::Differences::kCopies);
  EXPECT_EQ(headers.at(144).parts.front().differences, format::Differences::kFrame);
  EXPECT_EQ(headers.at(144).parts.front().base, Position{128});
  ASSERT_TRUE(world->restart());
  EXPECT_EQ(world->restorable(conversation(10, 144)), turn_ends(5));
  EXPECT_EQ(world->cache->stats().damaged, 0U);
}

// ---- damage ----

TEST(BuiltStates, ABaseIsNotForgottenBeforeItsStates) {
  const auto world = world_of();
  ASSERT_TRUE(world->open());
  const Tokens tokens = keep_turns(*world, 10, 7);
  world->cache->forget_points(tokens, {Position{64}, Position{96}, Position{176}});
  EXPECT_EQ(world->restorable(tokens), turn_ends(6));
  world->cache->forget_points(tokens, {Position{144}, Position{160}});
  EXPECT_EQ(world->restorable(tokens), turn_ends(4));
}

class BuiltStatesDamage : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(DamagedOrRemoved, BuiltStatesDamage, testing::Bool());

TEST_P(BuiltStatesDamage, CostsWhatIsBuiltOnItAndNothingEarlier) {
  for (const bool restarted : {false, true}) {
    const auto world = world_of(ByteCount{0});
    ASSERT_TRUE(world->open());
    const Tokens tokens = keep_turns(*world, 10, 5);
    if (restarted) world->die();
    ASSERT_NO_FATAL_FAILURE(spoil(*world, 96, GetParam()));
    if (restarted) {
      ASSERT_TRUE(world->open());
      EXPECT_EQ(world->cache->lease(tokens)->points().size(), GetParam() ? 2U : 6U) << "only damage is seen later";
    }
    EXPECT_EQ(world->restorable(tokens), (std::vector<std::size_t>{64, 80})) << restarted;
    EXPECT_EQ(world->check(tokens), tokens.size());
    world->writer.run_all();
    EXPECT_EQ(headers_of(*world).size(), 2U) << "they give their room back";
    ASSERT_TRUE(world->restart());
    EXPECT_EQ(world->restorable(tokens), (std::vector<std::size_t>{64, 80}));
    ASSERT_TRUE(world->keep(head(tokens, 112)));
    world->writer.run_all();
    EXPECT_EQ(world->restorable(tokens), (std::vector<std::size_t>{64, 80, 112})) << "and can be stored again";
  }
}

// Its file is as it was written, but for another conversation's base: as if a base was stored anew with other bytes.
TEST(BuiltStates, AnotherBaseIsAMiss) {
  const auto world = world_of(ByteCount{0});
  ASSERT_TRUE(world->open());
  const Tokens tokens = keep_turns(*world, 10, 1);
  const format::SegmentHeader base = headers_of(*world).at(64);
  world->die();
  for (const std::string& path : world->segment_files()) {
    auto bytes = *world->files.contents(path);
    const auto header = format::decode_header(bytes);
    if (header->name != base.name) continue;
    std::vector<std::byte> other(base.parts.front().size_bytes, std::byte{5});
    format::SegmentHeader forged = base;
    forged.parts.front().sum =
        format::part_checksum(base.fingerprint, base.name, format::PartKind::kWhole, ByteSpan(other));
    auto file = format::encode_header(forged);
    file.insert(file.end(), other.begin(), other.end());
    world->files.plant(path, file);
  }
  ASSERT_TRUE(world->open());
  const auto lease = world->cache->lease(tokens);
  std::optional<Status> outcome;
  world->cache->load(lease, {}, [&](LoadResult result) { outcome = result.status; }, Position{80});
  world->reader.run_all();
  ASSERT_TRUE(outcome.has_value());
  ASSERT_FALSE(outcome->ok());
  EXPECT_EQ(outcome->error().kind, ErrorKind::kDamaged);
  EXPECT_EQ(world->cache->stats().damaged, 1U);
  EXPECT_EQ(world->cache->lease(tokens)->points().size(), 1U);
}

TEST(BuiltStates, ALeaseHoldsTheWholeChain) {
  const auto world = world_of(ByteCount{0});
  ASSERT_TRUE(world->open());
  const Tokens tokens = keep_turns(*world, 10, 3);
  std::shared_ptr<Lease> lease = world->cache->lease(tokens);
  const SegmentId base = lease->points().front().id;
  std::optional<Status> outcome;
  world->cache->load(lease, {}, [&](LoadResult result) { outcome = result.status; }, Position{112});
  world->cache->report_damaged(base);
  EXPECT_TRUE(world->cache->lease(tokens)->points().empty()) << "nothing of it is offered any more";
  world->writer.run_all();
  world->reader.run_all();
  ASSERT_TRUE(outcome.has_value());
  EXPECT_TRUE(outcome->ok()) << "what was leased before can be read";
  EXPECT_EQ(world->cache->stats().points, 4U);
  lease.reset();
  EXPECT_EQ(world->cache->stats().points, 0U);
  world->writer.run_all();
  EXPECT_TRUE(headers_of(*world).empty());
}

// The beginning of its chain turns out to be damaged in the middle of writing a state.
TEST(BuiltStates, AChainIsHeldWhileItsEndIsWritten) {
  const auto world = world_of(ByteCount{0});
  ASSERT_TRUE(world->open());
  const Tokens tokens = conversation(10, 112);
  ASSERT_EQ(keep_turns(*world, 10, 2), head(tokens, 96));
  const SegmentId first = world->cache->lease(tokens)->points().front().id;
  ASSERT_TRUE(world->keep(tokens));
  ASSERT_TRUE(world->writer.run_one());  // the rows
  std::vector<std::uint64_t> points;
  world->files.set_observer([&] {
    if (points.empty()) world->cache->report_damaged(first);
    points.push_back(world->cache->stats().points);
  });
  ASSERT_TRUE(world->writer.run_one());
  world->files.set_observer(nullptr);
  EXPECT_GT(points.size(), 3U);
  EXPECT_EQ(std::ranges::count(points, 4U), static_cast<std::ptrdiff_t>(points.size())) << "none left meanwhile";
  EXPECT_EQ(world->cache->stats().points, 0U);
  world->writer.run_all();
  EXPECT_TRUE(headers_of(*world).empty());
  ASSERT_TRUE(world->keep(tokens));
  world->writer.run_all();
  ASSERT_TRUE(world->restart());
  EXPECT_EQ(world->restorable(tokens), std::vector<std::size_t>{112});
}

// ---- eviction ----

// Everything that is offered gives the right bytes at every step, and a restart finds a base for each.
TEST(BuiltStates, NoChainIsEverBroken) {
  for (const bool with_disk : {true, false}) {
    const auto world = world_of(ByteCount{with_disk ? 3000U : 40'000U}, ByteCount{40 * 8192});
    world->save_index_after = SIZE_MAX;
    if (with_disk) {
      ASSERT_TRUE(world->open());
    } else {
      world->open_without_disk();
    }
    for (TokenId i = 0; i < 30; ++i) {
      world->clock.advance_ms(600'000);
      const Tokens tokens = keep_turns(*world, 10 + i * 10, 1 + static_cast<std::size_t>(i) % 5);
      EXPECT_FALSE(world->restorable(tokens).empty()) << "what was stored last is there";
      for (TokenId earlier = 0; earlier <= i; ++earlier) {
        (void)world->restorable(conversation(10 + earlier * 10, 64 + 16 * 5));  // compares every byte
      }
      EXPECT_EQ(world->cache->stats().damaged, 0U);
    }
    const CacheStats stats = world->cache->stats();
    EXPECT_GT(with_disk ? stats.from_disk.count() : stats.from_ram.count(), 0U);
    EXPECT_LE(stats.ram_used, stats.ram_budget);
    if (!with_disk) continue;
    const std::uint64_t points = stats.points;
    ASSERT_TRUE(world->restart());
    EXPECT_EQ(world->cache->stats().points, points) << "a state whose base had left";
  }
}

}  // namespace
}  // namespace kvkeep::cache
