#include "store/weights.h"

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <optional>
#include <string>

#include "store/disk_store.h"
#include "store/store_parts_fixture.h"
#include "testing/sim/sim_bystander.h"

namespace kvkeep::store {
namespace {

template <typename Hash>
Hash numbered(std::uint8_t number) {
  Hash hash;
  hash.bytes.fill(number);
  return hash;
}

// ---- whose state it is ----

// Tries every pair of contents that the notes allow: 1 and 2 are contents, so are hashes; a mark has one content.
struct Guess {
  bool may_be_same = false;
  bool may_differ = false;
};
Guess guess(const Weights& noted, const Weights& own) {
  Guess found;
  for (const std::uint8_t theirs : std::array<std::uint8_t, 2>{1, 2}) {
    for (const std::uint8_t ours : std::array<std::uint8_t, 2>{1, 2}) {
      if (noted.hash && *noted.hash != numbered<ModelHash>(theirs)) continue;
      if (own.hash && *own.hash != numbered<ModelHash>(ours)) continue;
      if (noted.mark && noted.mark == own.mark && !(noted.hash && own.hash) && theirs != ours) continue;
      (theirs == ours ? found.may_be_same : found.may_differ) = true;
    }
  }
  return found;
}

TEST(Weights, AreTheServersOwnOnlyWhereNothingElseIsPossible) {
  const std::optional<ModelHash> hashes[] = {std::nullopt, numbered<ModelHash>(1), numbered<ModelHash>(2)};
  const std::optional<FilesMark> marks[] = {std::nullopt, numbered<FilesMark>(7), numbered<FilesMark>(8)};
  std::map<Whose, int> seen;
  for (const auto& noted_hash : hashes) {
    for (const auto& noted_mark : marks) {
      for (const auto& own_hash : hashes) {
        const Weights noted{.hash = noted_hash, .mark = noted_mark};
        const Weights own{.hash = own_hash, .mark = numbered<FilesMark>(7)};
        EXPECT_EQ(whose_state(false, noted, own), Whose::kOwn);
        const Guess possible = guess(noted, own);
        const Whose expected = !possible.may_differ ? Whose::kOwn : own_hash ? Whose::kOthers : Whose::kUnknown;
        EXPECT_EQ(whose_state(true, noted, own), expected);
        ++seen[expected];
      }
    }
  }
  EXPECT_EQ(seen.size(), 3u);
}

TEST(Weights, AreJoinedOnlyByTheSame) {
  const ModelHash own = numbered<ModelHash>(1);
  const FilesMark mark = numbered<FilesMark>(7);
  EXPECT_TRUE(may_join(false, {}, own));
  EXPECT_TRUE(may_join(true, {.hash = own, .mark = mark}, own));
  EXPECT_TRUE(may_join(true, {}, std::nullopt)) << "a fingerprint that tells all files apart";
  EXPECT_FALSE(may_join(true, {}, own));
  EXPECT_FALSE(may_join(true, {.hash = own, .mark = {}}, numbered<ModelHash>(2)));
  EXPECT_FALSE(may_join(false, {.hash = {}, .mark = mark}, own)) << "a server is about to write";
  EXPECT_FALSE(may_join(true, {.hash = own, .mark = {}}, std::nullopt));
}

// ---- notes and kept hashes ----

class WeightsTest : public testing::Test {
 protected:
  WeightsTest() { (void)files_.make_directories(layout_.own).ok(); }

  void plant(const std::string& name, std::string_view text) {
    const auto bytes = std::as_bytes(std::span(text));
    files_.plant(layout_.own + "/" + name, {bytes.begin(), bytes.end()});
  }
  void plant_state() {
    const std::vector<std::byte> bytes = bytes_of_file(segment_);
    files_.plant(layout_.own + "/" + format::file_name(segment_.header.name), bytes);
  }
  bool has_state() const {
    return files_.contents(layout_.own + "/" + format::file_name(segment_.header.name)).has_value();
  }
  DirectoryClaim claim(std::uint8_t mark) { return {layout_, files_, numbered<FilesMark>(mark)}; }
  Status take(DirectoryClaim& claim) {
    return claim.take([this](const ClaimReport& found) { reports_.push_back(found); });
  }
  // A server that took the directory and has stopped.
  Status take_and_leave(std::uint8_t mark, std::optional<std::uint8_t> hash) {
    DirectoryClaim server = claim(mark);
    if (hash) server.know(numbered<ModelHash>(*hash));
    return take(server);
  }

  sim::SimFileSystem files_;
  const SampleSegment segment_ = sample_segment(sample_fingerprint(1), 1, 0, 40);
  const Layout layout_ = make_layout("/cache", sample_fingerprint(1));
  std::vector<ClaimReport> reports_;
};

TEST_F(WeightsTest, NotesComeBackWholeOrNotAtAll) {
  const Weights whole{.hash = numbered<ModelHash>(1), .mark = numbered<FilesMark>(2)};
  EXPECT_EQ(*read_weights(files_, layout_.own), Weights{});
  ASSERT_TRUE(write_weights(files_, layout_.own, whole).ok());
  EXPECT_EQ(*read_weights(files_, layout_.own), whole);
  const auto bytes = *files_.contents(layout_.own + "/weights");
  const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  for (std::size_t size = 0; size < text.size(); ++size) {
    plant("weights", text.substr(0, size));
    EXPECT_EQ(*read_weights(files_, layout_.own), Weights{}) << size;
    std::string changed = text;
    changed[size] ^= 1;
    plant("weights", changed);
    EXPECT_EQ(*read_weights(files_, layout_.own), Weights{}) << size;
  }
}

TEST_F(WeightsTest, KeepsTheNewestHashes) {
  for (std::uint8_t number = 0; number < kMostKept + 2; ++number) {
    ASSERT_TRUE(keep_hash(files_, "/cache", numbered<FilesMark>(number), numbered<ModelHash>(number)).ok());
  }
  EXPECT_EQ(find_kept_hash(files_, "/cache", numbered<FilesMark>(1)), std::nullopt);
  for (std::uint8_t number = 2; number < kMostKept + 2; ++number) {
    EXPECT_EQ(find_kept_hash(files_, "/cache", numbered<FilesMark>(number)), numbered<ModelHash>(number));
  }
}

// ---- taking a directory ----

TEST_F(WeightsTest, TheSameUntouchedFilesNeedNoHash) {
  ASSERT_TRUE(take_and_leave(7, std::nullopt).ok());
  plant_state();
  DirectoryClaim second = claim(7);
  EXPECT_TRUE(take(second).ok());
  EXPECT_EQ(second.hash(), std::nullopt);
  EXPECT_TRUE(has_state());
}

TEST_F(WeightsTest, StateOfCopiedFilesWaitsForTheirHash) {
  ASSERT_TRUE(take_and_leave(7, 1).ok());
  plant_state();
  DirectoryClaim copied = claim(8);
  EXPECT_EQ(take(copied).error().kind, ErrorKind::kBusy);
  EXPECT_EQ(take(copied).error().kind, ErrorKind::kBusy);
  EXPECT_EQ(reports_.size(), 2u) << "it tells of a change only";
  copied.know(numbered<ModelHash>(1));
  EXPECT_TRUE(take(copied).ok());
  EXPECT_TRUE(has_state());
  EXPECT_EQ(claim(8).hash(), numbered<ModelHash>(1)) << "the note has it from now on";
}

TEST_F(WeightsTest, StateOfOtherFilesIsRemovedBeforeTheNoteChanges) {
  ASSERT_TRUE(take_and_leave(7, 1).ok());
  plant_state();
  DirectoryClaim edited = claim(8);
  edited.know(numbered<ModelHash>(2));
  EXPECT_TRUE(take(edited).ok());
  EXPECT_FALSE(has_state());
  EXPECT_EQ(reports_.back().removed, 1u);
  EXPECT_EQ(read_weights(files_, layout_.own)->hash, numbered<ModelHash>(2));
}

TEST_F(WeightsTest, StateOfOtherFilesStaysWhileTheirServersLive) {
  std::optional<DirectoryClaim> first(std::in_place, layout_, files_, numbered<FilesMark>(7));
  first->know(numbered<ModelHash>(1));
  ASSERT_TRUE(take(*first).ok());
  plant_state();
  DirectoryClaim edited = claim(8);
  edited.know(numbered<ModelHash>(2));
  EXPECT_EQ(take(edited).error().kind, ErrorKind::kBusy);
  EXPECT_TRUE(reports_.back().others_live);
  EXPECT_TRUE(has_state());
  first.reset();
  EXPECT_TRUE(take(edited).ok());
  EXPECT_FALSE(has_state());
}

TEST_F(WeightsTest, AnEmptyDirectoryThatOthersUseIsTheirs) {
  DirectoryClaim first = claim(7);
  ASSERT_TRUE(take(first).ok());
  DirectoryClaim other = claim(8);
  EXPECT_EQ(take(other).error().kind, ErrorKind::kBusy);
  other.know(numbered<ModelHash>(2));
  EXPECT_EQ(take(other).error().kind, ErrorKind::kBusy) << "the first one's files may be others";
  first.know(numbered<ModelHash>(2));
  ASSERT_TRUE(take(first).ok());
  EXPECT_TRUE(take(other).ok()) << "and are the same";
}

TEST_F(WeightsTest, ANoteThatIsRemovedComesBack) {
  DirectoryClaim server = claim(7);
  ASSERT_TRUE(take(server).ok());
  plant_state();
  ASSERT_TRUE(files_.remove(layout_.own + "/weights").ok());
  EXPECT_TRUE(take(server).ok());
  EXPECT_EQ(read_weights(files_, layout_.own)->mark, numbered<FilesMark>(7));
  EXPECT_TRUE(has_state());
}

TEST_F(WeightsTest, AKnownHashStaysInTheNoteOfServersThatStillRead) {
  ASSERT_TRUE(take_and_leave(7, 1).ok());
  DirectoryClaim reading = claim(7);
  EXPECT_EQ(reading.hash(), numbered<ModelHash>(1));
  ASSERT_TRUE(write_weights(files_, layout_.own, {.hash = {}, .mark = numbered<FilesMark>(8)}).ok());
  DirectoryClaim unread = claim(8);
  ASSERT_TRUE(
      write_weights(files_, layout_.own, {.hash = numbered<ModelHash>(1), .mark = numbered<FilesMark>(8)}).ok());
  ASSERT_TRUE(take(unread).ok());
  ASSERT_TRUE(take(unread).ok());
  EXPECT_EQ(read_weights(files_, layout_.own)->hash, numbered<ModelHash>(1));
}

TEST_F(WeightsTest, ADirectoryWhoseLockWasRemovedIsNotHeld) {
  DirectoryClaim server = claim(7);
  EXPECT_FALSE(server.is_held());
  ASSERT_TRUE(take(server).ok());
  EXPECT_TRUE(server.is_held());
  ASSERT_TRUE(files_.remove(layout_.users).ok());
  EXPECT_FALSE(server.is_held());
  DirectoryClaim other = claim(8);
  ASSERT_TRUE(take(other).ok());
  EXPECT_EQ(take(server).error().kind, ErrorKind::kBusy);
}

TEST_F(WeightsTest, WhoAddsStateSharesTheDirectory) {
  {
    const auto share = join_weights(files_, layout_, numbered<ModelHash>(1));
    ASSERT_TRUE(share.ok());
    const auto another = join_weights(files_, layout_, numbered<ModelHash>(1));
    EXPECT_TRUE(another.ok());
    EXPECT_EQ(join_weights(files_, layout_, numbered<ModelHash>(2)).error().kind, ErrorKind::kInvalid);
    DirectoryClaim other = claim(8);
    other.know(numbered<ModelHash>(2));
    EXPECT_EQ(take(other).error().kind, ErrorKind::kBusy);
    DirectoryClaim same = claim(7);
    same.know(numbered<ModelHash>(1));
    EXPECT_TRUE(take(same).ok());
  }
  DirectoryClaim other = claim(8);
  other.know(numbered<ModelHash>(2));
  EXPECT_TRUE(take(other).ok());
}

TEST_F(WeightsTest, ReadersNoticeThatADirectoryWentOver) {
  const Weights unread{.hash = {}, .mark = numbered<FilesMark>(7)};
  const Weights read{.hash = numbered<ModelHash>(1), .mark = numbered<FilesMark>(7)};
  const Weights copied{.hash = numbered<ModelHash>(1), .mark = numbered<FilesMark>(8)};
  const Weights other{.hash = numbered<ModelHash>(2), .mark = numbered<FilesMark>(7)};
  const auto stayed = [&](const Weights& before, const Weights& now) {
    EXPECT_TRUE(write_weights(files_, layout_.own, now).ok());
    return check_weights_stayed(files_, layout_.own, before).ok();
  };
  EXPECT_TRUE(stayed(read, copied));
  EXPECT_TRUE(stayed(unread, read));
  EXPECT_FALSE(stayed(read, other));
  EXPECT_FALSE(stayed(read, unread));
  EXPECT_FALSE(stayed(unread, copied));
}

TEST_F(WeightsTest, StateWithoutAWholeNoteIsNobodys) {
  plant_state();
  plant("weights", "half a no");
  DirectoryClaim server = claim(7);
  EXPECT_EQ(take(server).error().kind, ErrorKind::kBusy);
  server.know(numbered<ModelHash>(1));
  EXPECT_TRUE(take(server).ok());
  EXPECT_FALSE(has_state());
}

TEST_F(WeightsTest, AHashThatWasKeptTellsWhoseAnUnreadNoteIs) {
  ASSERT_TRUE(take_and_leave(7, std::nullopt).ok());
  plant_state();
  ASSERT_TRUE(keep_hash(files_, "/cache", numbered<FilesMark>(7), numbered<ModelHash>(1)).ok());
  DirectoryClaim copied = claim(8);
  copied.know(numbered<ModelHash>(1));
  EXPECT_TRUE(take(copied).ok());
  EXPECT_TRUE(has_state());
}

// A server of other files that comes, or comes and dies, between any two operations of another one: never do both use
// the directory, and never is there state of one that the other may read.
TEST_F(WeightsTest, NoTwoServersOfDifferentFilesUseADirectory) {
  const std::string state = layout_.own + "/" + format::file_name(segment_.header.name);
  const auto nothing = [](const ClaimReport&) {};
  int both_came = 0;
  constexpr std::uint64_t kLongerThanTaking = 40;
  for (const std::optional<std::uint8_t> owner : {std::optional<std::uint8_t>(), {1}, {2}}) {
    for (std::uint64_t at = 1; at <= kLongerThanTaking; ++at) {
      for (std::uint64_t lives = 0; lives <= kLongerThanTaking; ++lives) {
        SCOPED_TRACE(std::to_string(owner.value_or(0)) + " at " + std::to_string(at) + " for " + std::to_string(lives));
        sim::SimFileSystem files(at);
        (void)files.make_directories(layout_.own).ok();
        if (owner) {
          DirectoryClaim first(layout_, files, numbered<FilesMark>(*owner));
          first.know(numbered<ModelHash>(*owner));
          ASSERT_TRUE(first.take(nothing).ok());
          files.plant(state, bytes_of_file(segment_));
        }
        sim::SimBystander other_process(files);
        if (lives < kLongerThanTaking) other_process.die_after(lives);
        std::optional<DirectoryClaim> other;
        bool other_uses = false;
        std::uint64_t operations = 0;
        files.set_interruption([&] {
          if (++operations != at) return;
          other.emplace(layout_, other_process, numbered<FilesMark>(2));
          other->know(numbered<ModelHash>(2));
          other_uses = other->take(nothing).ok() && !other_process.dead();
        });
        DirectoryClaim own(layout_, files, numbered<FilesMark>(1));
        own.know(numbered<ModelHash>(1));
        const bool own_uses = own.take(nothing).ok();
        files.set_interruption({});
        ASSERT_FALSE(own_uses && other_uses);
        both_came += other && !other_process.dead() ? 1 : 0;
        const bool has_state = files.contents(state).has_value();
        const auto noted = read_weights(files, layout_.own)->hash;
        if (own_uses) {
          ASSERT_EQ(noted, numbered<ModelHash>(1));
          ASSERT_TRUE(!has_state || owner == 1);
        }
        if (other_uses) {
          ASSERT_EQ(noted, numbered<ModelHash>(2));
          ASSERT_TRUE(!has_state || owner == 2);
          ASSERT_FALSE(own.take(nothing).ok()) << "while the other one lives";
          other.reset();
        }
        if (other_process.dead() || other_uses) {
          ASSERT_TRUE(own.take(nothing).ok());
          ASSERT_TRUE(!files.contents(state) || owner == 1);
        }
      }
    }
  }
  EXPECT_GT(both_came, 20);
}

// A process that is killed, or a power cut, at any operation leaves a directory that never serves one file's state to
// the other.
TEST_F(WeightsTest, NoCrashLetsStateOfOtherFilesPass) {
  for (std::uint64_t operation = 1;; ++operation) {
    sim::SimFileSystem files(operation);
    (void)files.make_directories(layout_.own).ok();
    {
      DirectoryClaim first(layout_, files, numbered<FilesMark>(7));
      first.know(numbered<ModelHash>(1));
      ASSERT_TRUE(first.take([](const ClaimReport&) {}).ok());
    }
    const std::string state = layout_.own + "/" + format::file_name(segment_.header.name);
    files.plant(state, bytes_of_file(segment_));
    files.set_plan({.kind = sim::FaultKind::kCrash, .at_operation = operation});
    DirectoryClaim edited(layout_, files, numbered<FilesMark>(8));
    edited.know(numbered<ModelHash>(2));
    (void)edited.take([](const ClaimReport&) {}).ok();
    const bool fired = files.fault_fired();
    files.power_cut();
    files.heal();
    DirectoryClaim again(layout_, files, numbered<FilesMark>(8));
    again.know(numbered<ModelHash>(2));
    ASSERT_TRUE(again.take([](const ClaimReport&) {}).ok()) << operation;
    EXPECT_FALSE(files.contents(state).has_value()) << operation;
    if (!fired) break;
  }
}

// ---- a store that waits, or has to leave ----

TEST_F(WeightsTest, AStoreThatIsNotAdmittedAnyMoreServesAndWritesNothing) {
  sim::SimClock clock;
  bool admitted = true;
  DiskOptions options{.directory = "/cache", .fingerprint = sample_fingerprint(1), .budget = mebibytes(64)};
  options.admit = [&] { return admitted ? Status() : busy("it is of others"); };
  options.still_admitted = [&] { return admitted; };
  auto store = *DiskStore::open(options, files_, clock);
  ASSERT_TRUE(store->put(segment_.header, {{segment_.header.name.kind, segment_.payload}}).ok());
  std::vector<std::byte> out(segment_.payload.size());
  EXPECT_TRUE(store->get(segment_.header, segment_.header.name.kind, out).ok());
  admitted = false;
  EXPECT_EQ(store->get(segment_.header, segment_.header.name.kind, out).error().kind, ErrorKind::kNotFound);
  const SampleSegment next = sample_segment(sample_fingerprint(1), 2, 0, 40);
  EXPECT_EQ(store->put(next.header, {{next.header.name.kind, next.payload}}).error().kind, ErrorKind::kBusy);
  EXPECT_TRUE(store->tick(Look::kNow).found.empty());
  admitted = true;
  (void)store->tick(Look::kNow);
  EXPECT_TRUE(store->put(next.header, {{next.header.name.kind, next.payload}}).ok());
  EXPECT_TRUE(store->get(segment_.header, segment_.header.name.kind, out).ok());
}

TEST_F(WeightsTest, AStoreThatWaitsHoldsNothingAndFindsAllLater) {
  sim::SimClock clock;
  DiskOptions options{.directory = "/cache", .fingerprint = sample_fingerprint(1), .budget = mebibytes(64)};
  {
    auto writer = *DiskStore::open(options, files_, clock);
    ASSERT_TRUE(writer->put(segment_.header, {{segment_.header.name.kind, segment_.payload}}).ok());
  }
  bool admitted = false;
  options.admit = [&] { return admitted ? Status() : busy("not yet"); };
  auto store = *DiskStore::open(options, files_, clock);
  EXPECT_TRUE(store->waits());
  EXPECT_TRUE(store->take_recovered().empty());
  const SampleSegment next = sample_segment(sample_fingerprint(1), 2, 0, 40);
  EXPECT_EQ(store->put(next.header, {{next.header.name.kind, next.payload}}).error().kind, ErrorKind::kBusy);
  std::vector<std::byte> out(segment_.payload.size());
  EXPECT_FALSE(store->get(segment_.header, segment_.header.name.kind, out).ok());
  EXPECT_TRUE(store->tick(Look::kNow).found.empty());
  EXPECT_TRUE(files_.lock(layout_.lock).ok()) << "it holds nothing";
  admitted = true;
  const DiskTick tick = store->tick(Look::kNow);
  EXPECT_FALSE(store->waits());
  EXPECT_EQ(tick.found.size(), 1u);
  EXPECT_TRUE(tick.more_room) << "what was refused is offered again";
  EXPECT_TRUE(store->get(segment_.header, segment_.header.name.kind, out).ok());
  EXPECT_TRUE(store->put(next.header, {{next.header.name.kind, next.payload}}).ok());
}

}  // namespace
}  // namespace kvkeep::store
