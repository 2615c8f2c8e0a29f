// State that is carried from a directory to an engine, and from there to another directory, is the same there, whatever
// its shape, and whatever ends a run in the middle.

#include <gtest/gtest.h>

#include "base/media_ids.h"
#include "carry/carry_fixture.h"
#include "format/built_state.h"
#include "format/notes.h"
#include "share/shared_world_fixture.h"
#include "store/small_files.h"

namespace kvkeep::carry {
namespace {

using format::PartKind;

// Returns the ids up to the end of each run.
std::vector<std::vector<TokenId>> prefixes_of(const inspect::Forest& forest) {
  std::vector<std::vector<TokenId>> prefixes;
  const inspect::PrefixTree& tree = forest.trees.front();
  for (std::size_t run = 0; run < tree.runs.size(); ++run) {
    prefixes.push_back(inspect::path_tokens(tree, forest.directory.models.front().files.segments, run));
  }
  return prefixes;
}

// A conversation of four segments with points, one that leaves it after two, one in the middle of a segment, one by
// itself.
class Carried : public Carrying {
 protected:
  void SetUp() override {
    for (std::uint32_t i = 0; i < 4; ++i) segments_.push_back(sim::sample_segment(kModel, 1, i, 1700));
    segments_.push_back(inspect::branch(2, 2, 2, 1, 700));
    segments_.push_back(sim::sample_segment(kModel, 3, 0, 700));
    segments_.push_back(inspect::leaving_in_the_middle(0));
    segments_.push_back(sim::sample_leaf(kModel, 1, 1, PartKind::kPoint, 70));
    segments_.push_back(sim::sample_leaf(kModel, 1, 3, PartKind::kPoint, 70));
    segments_.push_back(sim::sample_leaf(kModel, 1, 3, PartKind::kWindowRows, 90));
    sim::SampleSegment& middle = segments_[6];
    middle.payload.clear();
    middle.header.parts.front().sum = format::part_checksum(kModel, middle.header.name, PartKind::kRows, {});
    directory_.store(segments_);
    note_device(files(), kDevice);
  }
  sim::SimFileSystem& files() { return directory_.files(); }
  // An empty cache directory.
  static void make_root(sim::SimFileSystem& target) { EXPECT_TRUE(target.make_directories(inspect::kRoot)); }

  SampleDirectory directory_;
  std::vector<sim::SampleSegment> segments_;
};

TEST_F(Carried, ADirectoryComesBackFromAnEngine) {
  const CarryReport pushed = push_from(files()).value();
  EXPECT_EQ(pushed.carried.items, segments_.size());
  EXPECT_EQ(pushed.unusable + pushed.left.items + pushed.lost.items + pushed.present.items, 0U);
  sim::SimFileSystem target;
  make_root(target);
  const CarryReport pulled = pull_into(target).value();
  EXPECT_EQ(pulled.carried.items, segments_.size());
  EXPECT_EQ(contents_of(target), contents_of(files()));
  EXPECT_TRUE(is_clean(target));
  EXPECT_EQ(inspect::read_model_note(target, kFolder)->name, "tiny");
  EXPECT_EQ(inspect::read_model_note(target, kFolder)->devices, std::vector{kDevice});
}

TEST_F(Carried, ASecondRunCarriesNothing) {
  ASSERT_TRUE(push_from(files()));
  const std::uint64_t puts = world_.puts;
  const CarryReport pushed = push_from(files()).value();
  EXPECT_EQ(pushed.carried.items, 0U);
  EXPECT_EQ(pushed.present.items, segments_.size());
  EXPECT_EQ(world_.puts, puts + 1) << "only the note about the namespace";
  sim::SimFileSystem target;
  make_root(target);
  ASSERT_TRUE(pull_into(target));
  const auto before = contents_of(target);
  const CarryReport pulled = pull_into(target).value();
  EXPECT_EQ(pulled.carried.items, 0U);
  EXPECT_EQ(pulled.present.items, segments_.size());
  EXPECT_EQ(contents_of(target), before);
}

// As the server's own publications: a look-up finds the whole prompt, and the branches.
TEST_F(Carried, AServerFindsWhatWasPushed) {
  ASSERT_TRUE(push_from(files()));
  share::ShareServer server(world_, {.fingerprint = kModel, .device = kDevice, .key = kKey});
  const auto prompt = [](std::uint32_t conversation, std::uint32_t size, std::uint32_t shared, std::uint32_t other) {
    share::Tokens tokens;
    for (std::uint32_t i = 0; i < size; ++i) {
      tokens.push_back(static_cast<TokenId>((i < shared ? other : conversation) * 1000 + i));
    }
    return tokens;
  };
  const auto found = server.find(prompt(1, 32, 0, 0), share::every(8, 32));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->end, Position{32});
  ASSERT_EQ(found->rows.size(), 4U);
  EXPECT_TRUE(std::ranges::equal((*server.get(found->rows[2].segment))->bytes(), segments_[2].payload));
  EXPECT_TRUE(server.find(prompt(1, 32, 0, 0), {Position{32}}, PartKind::kPoint)->leaf);
  EXPECT_EQ(server.find(prompt(2, 24, 16, 1), share::every(8, 24))->end, Position{24});
  share::Tokens middle = prompt(3, 4, 0, 0);
  middle.insert(middle.end(), {7, 8});
  EXPECT_EQ(server.find(middle, {Position{6}})->end, Position{6});
}

TEST_F(Carried, WhatServersPublishedIsPulled) {
  share::ShareServer one(world_, {.fingerprint = kModel, .device = kDevice, .key = kKey});
  share::ShareServer other(world_, {.fingerprint = kModel, .device = kDevice, .key = kKey});
  one.publish(share::share_prompt(1, 200), share::every(20, 200), PartKind::kPoint);
  other.publish(share::share_prompt(1, 200), share::every(50, 200));  // cut elsewhere
  other.publish(share::share_prompt(2, 200, 130), share::every(50, 200), PartKind::kPoint);
  sim::SimFileSystem target;
  make_root(target);
  const CarryReport report = pull_into(target).value();
  EXPECT_EQ(report.unusable, 0U);
  EXPECT_TRUE(is_clean(target));
  const auto ends = prefixes_of(inspect::plant(inspect::read_directory(target, inspect::kRoot).value()));
  EXPECT_NE(std::ranges::find(ends, share::share_prompt(1, 200)), ends.end());
  EXPECT_NE(std::ranges::find(ends, share::share_prompt(2, 200, 130)), ends.end());
}

TEST_F(Carried, ADryRunCountsTheSameAndChangesNothing) {
  const CarryReport dry = push_from(files(), {.dry = true}).value();
  EXPECT_EQ(world_.puts, 0U);
  EXPECT_EQ(dry.carried, push_from(files()).value().carried);
  sim::SimFileSystem target;
  make_root(target);
  const auto before = target.paths();
  const CarryReport would = pull_into(target, {.dry = true}).value();
  EXPECT_EQ(target.paths(), before);
  EXPECT_EQ(would.carried, pull_into(target).value().carried);
}

TEST_F(Carried, LimitsLeaveWholePaths) {
  const std::uint64_t all = push_from(files(), {.dry = true}).value().carried.bytes.value();
  for (std::uint64_t most = 0; most <= all; most += 300) {
    world_.objects.clear();
    const CarryReport pushed = push_from(files(), {.most = ByteCount{most}}).value();
    EXPECT_LE(pushed.carried.bytes.value(), most);
    EXPECT_EQ(pushed.carried.items + pushed.left.items, segments_.size());
    if (pushed.carried.items == 0) continue;
    sim::SimFileSystem target;
    make_root(target);
    const CarryReport pulled = pull_into(target).value();
    EXPECT_EQ(pulled.carried.items, pushed.carried.items) << "nothing without its beginning";
    EXPECT_TRUE(is_clean(target));
  }
}

TEST_F(Carried, WhatWasUsedLastIsPushedFirst) {
  ASSERT_TRUE(files().set_modified(directory_.path_of(segments_[4]), std::int64_t{1} << 61));  // conversation 2
  ASSERT_TRUE(push_from(files(), {.most = ByteCount{2 * 1700 + 700}}));
  share::Warehouse engine = warehouse();
  const auto name = [&](std::size_t i) { return engine.name_of(segments_[i].header.name); };
  EXPECT_EQ(engine.has({name(0), name(1), name(4), name(2), name(5)}).value(),
            (std::vector{true, true, true, false, false}));
}

TEST_F(Carried, APullKeepsToItsRoom) {
  ASSERT_TRUE(push_from(files()));
  for (std::uint64_t blocks = 0; blocks < 2 * segments_.size() + 2; ++blocks) {
    sim::SimFileSystem target;
    make_root(target);
    const PullTarget tight{.root = inspect::kRoot, .room = ByteCount{blocks * 4096}};
    const CarryReport report = pull_into(target, {}, tight).value();
    EXPECT_EQ(report.carried.items + report.left.items, segments_.size());
    EXPECT_EQ(report.carried.items, std::min<std::uint64_t>(blocks / 2, segments_.size())) << blocks;
    EXPECT_TRUE(is_clean(target));
  }
}

TEST_F(Carried, ServersGrantTheRoomFirst) {
  ASSERT_TRUE(push_from(files()));
  sim::SimFileSystem target;
  make_root(target);
  PullTarget beside{.root = inspect::kRoot, .room = mebibytes(64), .beside_servers = true};
  beside.reserve = [](ByteCount bytes) -> Status {
    EXPECT_GE(bytes.value(), 10 * 4096U);
    return no_space("no room was granted");
  };
  EXPECT_EQ(pull_into(target, {}, beside).error().kind, ErrorKind::kNoSpace);
  EXPECT_TRUE(contents_of(target).empty());
}

TEST_F(Carried, DamagedFilesAreNamedAndWhatTheyLeadToIsLeft) {
  directory_.damage(segments_[1]);
  const CarryReport report = push_from(files()).value();
  EXPECT_EQ(report.unusable, 1U);
  ASSERT_EQ(report.named.size(), 1U);
  EXPECT_EQ(report.named.front().name, format::file_name(segments_[1].header.name));
  // The rest of conversation 1 with its leaves, and the branch.
  EXPECT_EQ(report.left.items, 2U + 3U + 1U);
  EXPECT_EQ(report.carried.items, 3U);
}

TEST_F(Carried, DamagedAndForeignObjectsAreNamedAndWhatTheyLeadToIsLeft) {
  ASSERT_TRUE(push_from(files()));
  share::Warehouse engine = warehouse();
  const auto object = [&](std::size_t i) -> share::FrailObject& {
    return world_.objects.at(engine.name_of(segments_[i].header.name));
  };
  object(1).pieces[0][9] ^= std::byte{1};  // a payload: known when it is read
  object(5).head[300] ^= std::byte{1};     // a head: known before
  std::swap(object(7), object(8));         // somebody else's
  sim::SimFileSystem target;
  make_root(target);
  const CarryReport report = pull_into(target).value();
  EXPECT_EQ(report.unusable, 4U);
  EXPECT_EQ(report.named.size(), 4U);
  EXPECT_EQ(report.carried.items, 1U) << "the first segment of conversation 1";
  EXPECT_TRUE(is_clean(target));
}

// As an engine that evicts does.
TEST_F(Carried, WhatWasEvictedIsLost) {
  ASSERT_TRUE(push_from(files()));
  share::Warehouse engine = warehouse();
  world_.objects.erase(engine.name_of(segments_[0].header.name));
  world_.objects.at(engine.name_of(segments_[5].header.name)).pieces[0].clear();
  sim::SimFileSystem target;
  make_root(target);
  const CarryReport report = pull_into(target).value();
  EXPECT_EQ(report.carried.items, 0U);
  EXPECT_EQ(report.lost.items + report.left.items, segments_.size() - 1);
  EXPECT_TRUE(is_clean(target));
  // A push closes the holes.
  ASSERT_TRUE(push_from(files()));
  world_.objects.erase(engine.name_of(segments_[5].header.name));
  ASSERT_TRUE(push_from(files()));
  ASSERT_TRUE(pull_into(target));
  EXPECT_EQ(contents_of(target), contents_of(files()));
}

// Each operation of a pull is the last once.
TEST_F(Carried, AKilledPullLeavesADirectoryThatOpensAndTheNextGoesOn) {
  ASSERT_TRUE(push_from(files()));
  bool crashed = true;
  std::size_t partly = 0;
  for (std::uint64_t at = 1; crashed; ++at) {
    sim::SimFileSystem target;
    make_root(target);
    target.set_plan({.kind = sim::FaultKind::kCrash, .at_operation = at});
    (void)pull_into(target).ok();
    crashed = target.crashed();
    target.kill();
    target.heal();
    const std::size_t kept = contents_of(target).size();
    EXPECT_TRUE(is_clean(target)) << at;
    partly += kept > 0 && kept < segments_.size() ? 1 : 0;
    const auto done = pull_into(target);
    ASSERT_TRUE(done) << at << ": " << done.error().message;
    const CarryReport& rest = *done;
    EXPECT_EQ(rest.present.items, kept) << at;
    EXPECT_EQ(contents_of(target), contents_of(files())) << at;
    ASSERT_LT(at, 1000U);
  }
  EXPECT_GT(partly, 10U);
}

// Each write of a push is cut once.
TEST_F(Carried, ACutPushLeavesWholePathsAndTheNextGoesOn) {
  for (std::size_t at = 0; at < segments_.size() + 1; ++at) {
    world_.objects.clear();
    world_.puts = 0;
    const auto limited = push_from(files(), {.progress = [&](ByteCount, ByteCount) {
                                     if (world_.puts == at + 1)
                                       std::ranges::fill(world_.nodes, share::FrailWorld::Node::kHung);
                                   }});
    ASSERT_TRUE(limited.ok());
    std::ranges::fill(world_.nodes, share::FrailWorld::Node::kWell);
    const bool ended = at >= 1 && at < segments_.size();
    EXPECT_EQ(!limited->stopped.empty(), ended) << at;
    EXPECT_EQ(limited->carried.items + limited->left.items, segments_.size());
    EXPECT_EQ(limited->carried.items, ended ? at : segments_.size());
    sim::SimFileSystem target;
    make_root(target);
    EXPECT_EQ(pull_into(target)->carried.items, limited->carried.items) << "nothing without its beginning";
    EXPECT_EQ(push_from(files())->present.items, limited->carried.items);
  }
}

TEST_F(Carried, AnEngineThatIsFullOrGoneEndsAPush) {
  world_.full = true;
  EXPECT_EQ(push_from(files()).error().kind, ErrorKind::kNoSpace);
  world_.full = false;
  std::ranges::fill(world_.nodes, share::FrailWorld::Node::kRefusing);
  EXPECT_EQ(push_from(files()).error().kind, ErrorKind::kIo);
}

// Nothing is named unusable because of it.
TEST_F(Carried, AnEngineThatIsGoneEndsAPull) {
  ASSERT_TRUE(push_from(files()));
  sim::SimFileSystem target;
  make_root(target);
  const auto found = find_namespaces(access(), kKey).value();
  share::Warehouse engine = warehouse();
  const PullTarget place{.root = inspect::kRoot, .room = mebibytes(64), .own_mark = "pull-1"};
  world_.before_call = [&] { std::ranges::fill(world_.nodes, share::FrailWorld::Node::kRefusing); };
  EXPECT_FALSE(find_namespaces(access(), kKey)) << "a pull would say that there is nothing";
  world_.before_call = [] {};
  EXPECT_EQ(pull(target, found.front(), engine, place, {}).error().kind, ErrorKind::kIo);
  std::ranges::fill(world_.nodes, share::FrailWorld::Node::kWell);
  world_.reads_hang = true;
  const CarryReport report = pull(target, found.front(), engine, place, {}).value();
  EXPECT_EQ(report.stopped, "frail://engine: no answer in time");
  EXPECT_EQ(report.unusable, 0U);
  EXPECT_EQ(report.left.items + report.carried.items, segments_.size());
}

TEST_F(Carried, SampledTurnsGoAlong) {
  std::vector<std::vector<std::byte>> turns;
  for (std::uint8_t i = 0; i < 5; ++i) {
    PrefixHash before;
    before.bytes.fill(i);
    turns.push_back(format::encode_sampled_turn({before, {1, 2, i}, {"call"}}));
  }
  ASSERT_TRUE(store::RecordLog::rewrite(files(), kFolder + "/turns", format::kSampledTurnRecords, turns));
  EXPECT_EQ(push_from(files())->turns, 5U);
  EXPECT_EQ(push_from(files())->turns, 0U);
  sim::SimFileSystem target;
  make_root(target);
  EXPECT_EQ(pull_into(target)->turns, 5U);
  EXPECT_EQ(pull_into(target)->turns, 0U);
  auto read = store::read_records(target, kFolder + "/turns", format::kSampledTurnRecords, mebibytes(1)).value();
  std::ranges::sort(read.payloads);
  std::ranges::sort(turns);
  EXPECT_EQ(read.payloads, turns);
  // One of the servers on a directory keeps that file open.
  sim::SimFileSystem served;
  make_root(served);
  const CarryReport beside =
      pull_into(served, {}, {.root = inspect::kRoot, .room = mebibytes(64), .beside_servers = true}).value();
  EXPECT_EQ(beside.turns_left, 5U);
  EXPECT_FALSE(contents_of(served).contains("turns"));
}

TEST_F(Carried, EncryptionHidesWhatGoesAlong) {
  encrypt_ = true;
  const PrefixHash before = segments_[1].header.name.end_hash;
  const std::vector<TokenId> ids = share::share_prompt(5, 64);
  ASSERT_TRUE(store::RecordLog::rewrite(
      files(), kFolder + "/turns", format::kSampledTurnRecords,
      std::vector<std::vector<std::byte>>{format::encode_sampled_turn({before, ids, {"get_weather"}})}));
  EXPECT_EQ(push_from(files())->turns, 1U);
  const auto is_shown = [&](ByteSpan run) {
    return std::ranges::any_of(
        world_.objects, [&](const auto& object) { return !std::ranges::search(object.second.head, run).empty(); });
  };
  for (std::size_t at = 0; at < 61; ++at) ASSERT_FALSE(is_shown(std::as_bytes(std::span(ids).subspan(at, 4)))) << at;
  for (const std::string_view text : {"get_weather", "tiny", "SSE3"}) {
    EXPECT_FALSE(is_shown(std::as_bytes(std::span(text)))) << text;
  }
  EXPECT_EQ(push_from(files())->turns, 0U) << "it is there";
}

// Both of a directory, and the ones that servers published meanwhile, which are newer.
TEST_F(Carried, AllRepliesToOnePromptGoAlong) {
  const PrefixHash before;
  const auto turn = [&](TokenId id) { return format::SampledTurnRecord{before, {1, id}, {"call"}}; };
  ASSERT_TRUE(store::RecordLog::rewrite(
      files(), kFolder + "/turns", format::kSampledTurnRecords,
      std::vector<std::vector<std::byte>>{format::encode_sampled_turn(turn(2)), format::encode_sampled_turn(turn(3))}));
  share::Warehouse engine = warehouse();
  ASSERT_TRUE(engine.put_record(before, format::encode_shared_turns({turn(4), turn(5)})).ok());
  EXPECT_EQ(push_from(files())->turns, 2U) << "of the directory";
  EXPECT_EQ(push_from(files())->turns, 0U);
  sim::SimFileSystem target;
  make_root(target);
  EXPECT_EQ(pull_into(target)->turns, 4U);
  EXPECT_EQ(pull_into(target)->turns, 0U);
  const auto read = store::read_records(target, kFolder + "/turns", format::kSampledTurnRecords, mebibytes(1)).value();
  std::vector<std::vector<std::byte>> all;
  for (const TokenId id : {2, 3, 4, 5}) all.push_back(format::encode_sampled_turn(turn(id)));
  EXPECT_EQ(read.payloads, all);
}

TEST_F(Carried, TurnsOfOtherPlacesAreNoTurns) {
  PrefixHash before, other;
  other.bytes.fill(1);
  share::Warehouse engine = warehouse();
  const auto turn = format::encode_sampled_turn({before, {1}, {}});
  ASSERT_TRUE(push_from(files()));
  ASSERT_TRUE(engine.put_record(other, turn).ok());
  sim::SimFileSystem target;
  make_root(target);
  const CarryReport report = pull_into(target).value();
  EXPECT_EQ(report.turns, 0U);
  EXPECT_EQ(report.unusable, 1U);
}

std::shared_ptr<const store::Payload> payload_of(ByteSpan bytes) {
  auto buffer = store::PayloadBuffer::allocate(bytes.size());
  std::ranges::copy(bytes, buffer.span().begin());
  return std::move(buffer).freeze();
}

TEST_F(Carried, IdsOfNoVocabularyAreNotCarried) {
  PrefixHash before;
  share::Warehouse engine = warehouse();
  ASSERT_TRUE(push_from(files()));
  ASSERT_TRUE(engine.put_record(before, format::encode_sampled_turn({before, {1, -1}, {}})).ok());
  sim::SampleSegment planted = sim::sample_segment(kModel, 9, 0, 700);
  planted.header.tokens[3] = -1;
  const format::ShortHash hash = format::short_hash(planted.header.name.end_hash);
  const Position end = planted.header.name.end;
  ASSERT_TRUE(engine
                  .put({.segment = planted.header,
                        .path = {{.end = end, .place = end, .hash = hash, .object_end = end, .object_hash = hash}},
                        .payload = payload_of(planted.payload)})
                  .ok());
  sim::SimFileSystem target;
  make_root(target);
  const CarryReport report = pull_into(target).value();
  EXPECT_EQ(report.turns, 0U);
  EXPECT_EQ(report.unusable, 2U);
  EXPECT_EQ(report.carried.items, segments_.size());
}

// Objects say which positions the model counts where media lie before, as those do that servers publish.
TEST_F(Carrying, PlacesAfterMediaAreTheModels) {
  share::Tokens prompt(8, 1);
  const auto picture = media_ids({}, 0, {.embeddings = 40, .positions = 8, .plane = true});
  prompt.insert(prompt.end(), picture.begin(), picture.end());
  prompt.insert(prompt.end(), 12, 2);
  std::vector<sim::SampleSegment> segments;
  Position begin;
  for (const std::uint32_t end : {8U, 52U, 60U}) {
    sim::SampleSegment& sample = segments.emplace_back(sim::sample_segment(kModel, 1, end, 90));
    format::SegmentHeader& header = sample.header;
    const TokenSpan own = TokenSpan(prompt).subspan(begin.value(), Position{end} - begin);
    header.tokens.assign(own.begin(), own.end());
    header.name.begin_hash = share::hash_of(kModel, kNoTenant, TokenSpan(prompt).first(begin.value()));
    header.name.end_hash = share::hash_of(kModel, kNoTenant, TokenSpan(prompt).first(end));
    header.name.begin = std::exchange(begin, Position{end});
    header.name.end = begin;
    header.parts.front().sum = format::part_checksum(kModel, header.name, PartKind::kRows, sample.payload);
  }
  SampleDirectory directory;
  directory.store(segments);
  note_device(directory.files(), kDevice);
  ASSERT_EQ(push_from(directory.files())->carried.items, 3U);
  share::ShareServer server(world_, {.fingerprint = kModel, .device = kDevice, .key = kKey});
  const auto found = server.find(prompt, {Position{60}});
  ASSERT_TRUE(found && found->rows.size() == 3);
  std::vector<std::uint32_t> places;
  for (const format::PathStep& step : found->rows.back().path) places.push_back(step.place.value());
  EXPECT_EQ(places, (std::vector<std::uint32_t>{8, 20, 28}));
}

TEST_F(Carried, DistrustedStateStays) {
  ASSERT_TRUE(push_from(files()));
  ASSERT_TRUE(store::write_distrust(files(), kFolder, "wrong rows"));
  EXPECT_EQ(push_from(files()).error().kind, ErrorKind::kInvalid);
  EXPECT_EQ(pull_into(files()).error().kind, ErrorKind::kInvalid);
}

// The object has the state itself, because a reader may lack the one that it is built on.
TEST_F(Carrying, StatesThatAreStoredAsDifferencesAreCarriedWhole) {
  SampleDirectory directory;
  std::vector<sim::SampleSegment> segments;
  for (std::uint32_t i = 0; i < 3; ++i) segments.push_back(sim::sample_segment(kModel, 1, i, 0));
  const sim::SampleSegment base = sim::sample_leaf(kModel, 1, 0, PartKind::kWhole, 4000);
  segments.push_back(base);
  std::vector<std::byte> before = base.payload;
  PrefixHash before_hash = base.header.name.end_hash;
  Position before_end = base.header.name.end;
  std::vector<std::vector<std::byte>> states;
  for (std::uint32_t i = 1; i < 3; ++i) {  // the second is built on the first
    sim::SampleSegment built = sim::sample_leaf(kModel, 1, i, PartKind::kWhole, 1);
    std::vector<std::byte> state = before;
    state[100 * i] ^= std::byte{1};
    built.payload = format::encode_built_state(before_hash, before, state, 4000).value();
    format::Part& part = built.header.parts.front();
    part = {.kind = PartKind::kWhole,
            .size_bytes = built.payload.size(),
            .base = before_end,
            .state_bytes = static_cast<std::uint32_t>(state.size())};
    part.sum = format::part_checksum(kModel, built.header.name, PartKind::kWhole, built.payload);
    segments.push_back(built);
    states.push_back(state);
    before = state;
    before_hash = built.header.name.end_hash;
    before_end = built.header.name.end;
  }
  directory.store(segments);
  note_device(directory.files(), kDevice);
  EXPECT_EQ(push_from(directory.files())->carried.items, 6U);
  sim::SimFileSystem target;
  ASSERT_TRUE(target.make_directories(inspect::kRoot));
  EXPECT_EQ(pull_into(target)->carried.items, 6U);
  EXPECT_TRUE(is_clean(target));
  for (std::size_t i = 0; i < states.size(); ++i) {
    const auto file = contents_of(target).at(format::file_name(segments[4 + i].header.name));
    ASSERT_GT(file.size(), states[i].size());
    EXPECT_TRUE(std::ranges::equal(ByteSpan(file).last(states[i].size()), states[i]));
  }
}

// Conversations that branch anywhere, cut anywhere by several servers: what a directory holds comes back.
TEST_F(Carrying, RandomDirectoriesComeBack) {
  const char* given = std::getenv("KVKEEP_TEST_SEED");
  const std::uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : 20261124;
  std::printf("KVKEEP_TEST_SEED=%llu\n", static_cast<unsigned long long>(seed));
  std::mt19937_64 random(seed);
  for (int round = 0; round < 40; ++round) {
    world_.objects.clear();
    SampleDirectory directory;
    std::vector<sim::SampleSegment> segments;
    for (std::uint32_t prompt = 0; prompt < 6; ++prompt) {
      const share::Tokens tokens = share::share_prompt(prompt % 4, 60, random() % 50);
      for (std::uint32_t begin = 0; begin < tokens.size();) {
        const auto size = static_cast<std::uint32_t>(1 + random() % (tokens.size() - begin));
        sim::SampleSegment segment = sim::sample_segment(kModel, prompt, 0, 1 + random() % 300);
        format::SegmentHeader& header = segment.header;
        const TokenSpan all(tokens);
        header.name = {.begin = Position{begin},
                       .end = Position{begin + size},
                       .begin_hash = share::hash_of(kModel, kNoTenant, all.first(begin)),
                       .end_hash = share::hash_of(kModel, kNoTenant, all.first(begin + size))};
        header.tokens.assign(all.begin() + begin, all.begin() + begin + size);
        header.parts.front().sum = format::part_checksum(kModel, header.name, PartKind::kRows, segment.payload);
        segments.push_back(std::move(segment));
        // The next one goes on at the end, or overlaps it.
        begin += random() % 4 == 0 ? 1 + static_cast<std::uint32_t>(random() % size) : size;
      }
    }
    directory.store(segments);
    const inspect::Forest forest = directory.forest();
    const inspect::PrefixTree& tree = forest.trees.front();
    const auto placed = static_cast<std::size_t>(
        std::ranges::count_if(tree.run_of, [](std::size_t run) { return run != inspect::kNone; }));
    const CarryReport pushed = push_from(directory.files()).value();
    // Two files that end alike are one object.
    EXPECT_EQ(pushed.carried.items + pushed.present.items, placed);
    sim::SimFileSystem target;
    ASSERT_TRUE(target.make_directories(inspect::kRoot));
    const CarryReport pulled = pull_into(target).value();
    EXPECT_EQ(pulled.unusable, 0U);
    EXPECT_TRUE(is_clean(target)) << round;
    const inspect::Forest copy = inspect::plant(inspect::read_directory(target, inspect::kRoot).value());
    for (const auto& prefix : prefixes_of(forest)) {
      const auto is_longer = [&](const auto& other) {
        return other.size() >= prefix.size() && std::ranges::equal(prefix, TokenSpan(other).first(prefix.size()));
      };
      EXPECT_TRUE(std::ranges::any_of(prefixes_of(copy), is_longer)) << "a prefix of round " << round << " is missing";
    }
  }
}

TEST_F(Carrying, NamespacesTellWhoseTheyAre) {
  SampleDirectory directory;
  directory.store({sim::sample_segment(kModel, 1, 0, 700)});
  note_device(directory.files(), kDevice);
  ASSERT_TRUE(push_from(directory.files()));
  share::ShareServer server(world_, {.fingerprint = kOtherModel, .device = "another CPU", .key = kKey});
  share::ShareServer anywhere(world_, {.fingerprint = kOtherModel, .device = "", .key = kKey});
  share::ShareServer stranger(world_, {.fingerprint = kModel, .device = kDevice, .key = "another key"});
  for (share::ShareServer* one : {&server, &anywhere, &stranger})
    one->publish(share::share_prompt(1, 40), share::every(20, 40));
  const std::vector<Namespace> found = find_namespaces(access(), kKey).value();
  ASSERT_EQ(found.size(), 4U);
  for (const Namespace& one : found) {
    const std::string device = device_of(one, kKey, {});
    if (one.space == stranger.store().space()) {
      EXPECT_FALSE(one.fingerprint);
    } else if (one.space == server.store().space()) {
      EXPECT_EQ(one.fingerprint, kOtherModel);
      EXPECT_EQ(device, "another device");
      EXPECT_EQ(device_of(one, kKey, {kDevice, "another CPU"}), "another CPU");
    } else if (one.space == anywhere.store().space()) {
      EXPECT_EQ(device, "any device");
    } else {
      EXPECT_EQ(one.fingerprint, kModel);
      EXPECT_EQ(device, kDevice) << "the push noted it";
      EXPECT_EQ(one.note->name, "tiny");
    }
  }
}

TEST_F(Carrying, TheDeviceOfADirectoryMustBeOne) {
  inspect::ModelDirectory model;
  EXPECT_EQ(device_of(model).error().kind, ErrorKind::kInvalid);
  model.note.emplace();
  EXPECT_EQ(device_of(model).error().kind, ErrorKind::kInvalid);
  model.note->devices = {kDevice};
  EXPECT_EQ(device_of(model).value(), kDevice);
  model.note->devices = {std::string(inspect::kUnknownDevice)};
  EXPECT_EQ(device_of(model).error().kind, ErrorKind::kInvalid);
  model.note->devices = {kDevice, "another"};
  ASSERT_FALSE(device_of(model));
  EXPECT_NE(device_of(model).error().message.find("several kinds"), std::string::npos);
}

}  // namespace
}  // namespace kvkeep::carry
