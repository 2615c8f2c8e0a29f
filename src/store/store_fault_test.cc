// The six laws, checked with a fault at every operation of every scenario, over the class the server links; then the
// same with one mistake built in, which a law must show. docs/fault-model.md explains both.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <set>

#include "store/disk_store.h"
#include "store/layout.h"
#include "store/mutations.h"
#include "testing/sim/fault_loop.h"
#include "testing/sim/sample_segments.h"
#include "testing/sim/sim_clock.h"

namespace kvkeep::store {

namespace {
Mutations active_mutations;
}  // namespace

// Takes the place of mutations.cc in this program.
const Mutations& mutations() { return active_mutations; }

namespace {

using format::PartKind;
using sim::Aftermath;
using sim::FaultCase;
using sim::FaultKind;
using sim::SampleSegment;

constexpr int kSegments = 9;
constexpr int kSpliced = 7;      // never put: a file with its name and another segment's payload
constexpr int kOtherTokens = 8;  // never put: a file with its name and other tokens
constexpr ByteCount kBudget{61'440};
const FingerprintHash kModel = sim::sample_fingerprint(1);
const std::string kRoot = "/cache";

// Rows, except 2 (the window rows of segment 1: only the kind tells their names apart) and 4 (a point where segment 3,
// of rows without bytes, ends).
const std::vector<SampleSegment>& segments() {
  static const std::vector<SampleSegment> all = [] {
    std::vector<SampleSegment> made;
    constexpr std::size_t kSizes[] = {700, 5000, 9000};
    for (std::uint32_t i = 0; i < kSegments; ++i) made.push_back(sim::sample_segment(kModel, 1, i, kSizes[i % 3]));
    made[2] = sim::sample_leaf(kModel, 1, 1, PartKind::kWindowRows, kSizes[2]);
    made[3] = sim::sample_segment(kModel, 1, 3, 0);
    made[4] = sim::sample_leaf(kModel, 1, 3, PartKind::kPoint, kSizes[1]);
    return made;
  }();
  return all;
}

class StoreScenario;
struct Script {
  const char* name;
  std::function<void(StoreScenario&)> prepare;
  std::function<void(StoreScenario&)> run;
};

// A process with a store, what it was promised, and the laws.
class StoreScenario final : public sim::FaultScenario {
 public:
  StoreScenario(const Script& script, sim::SimFileSystem& files, const FaultCase& fault)
      : script_(script), files_(files), fault_(fault), layout_(make_layout(kRoot, kModel)) {
    files_.set_observer([this] { check_budget(); });
  }
  ~StoreScenario() override { files_.set_observer(nullptr); }

  void prepare() override { script_.prepare(*this); }
  void run() override { script_.run(*this); }
  void die() override { store_.reset(); }
  void go_on() override;
  void recover() override;

  // ---- Steps of scripts ----
  void open();
  void restart() {
    store_.reset();
    open();
  }
  bool put(int number);
  bool put_with_room(int number);
  void get(int number) { (void)served(number); }
  void remove(int number);
  void touch(int number) {
    if (store_) store_->touch(segments()[number].header.name, 5'000);
    check_counted();
  }
  void save_index() {
    if (store_) store_->save_index();
    check_counted();
  }
  void flip_payload_byte(int number);
  void cut_short(int number);
  void plant_spliced(int payload_of);
  void plant_other_tokens();

 private:
  std::string path_of(int number) const {
    return layout_.own + "/" + format::file_name(segments()[number].header.name);
  }
  bool served(int number);
  void check_budget();
  void check_counted();
  void check_promises(const char* when);
  void check_recovered(std::size_t published);
  std::size_t published() const;

  const Script& script_;
  sim::SimFileSystem& files_;
  const FaultCase fault_;
  const Layout layout_;
  sim::SimClock clock_;
  std::unique_ptr<DiskStore> store_;
  std::set<int> promised_;   // put() said ok, and no remove was asked for
  std::set<int> attempted_;  // bytes that may lie under the name
  bool planted_ = false;     // damage of ours: files may be set aside
};

// ---- Steps ----

void StoreScenario::open() {
  auto opened = DiskStore::open({.directory = kRoot, .fingerprint = kModel, .budget = kBudget}, files_, clock_);
  if (!opened) return;
  store_ = std::move(*opened);
  check_counted();
}

bool StoreScenario::put(int number) {
  if (!store_) return false;
  const SampleSegment& segment = segments()[number];
  attempted_.insert(number);
  files_.expect_publish_as(path_of(number));
  const Status status = store_->put(segment.header, {{segment.header.name.kind, segment.payload}});
  files_.expect_publish_as("");
  if (status) promised_.insert(number);
  check_counted();
  return status.ok();
}

// As a cache does: when there is no room, the oldest leave.
bool StoreScenario::put_with_room(int number) {
  for (int victim = 0; victim < kSegments; ++victim) {
    if (put(number)) return true;
    if (victim != number) remove(victim);
  }
  return put(number);
}

void StoreScenario::remove(int number) {
  if (!store_) return;
  promised_.erase(number);
  (void)store_->remove(segments()[number].header.name).ok();
  check_counted();
}

// Law 1: what comes back is what was put under this name.
bool StoreScenario::served(int number) {
  if (!store_) return false;
  const SampleSegment& segment = segments()[number];
  std::vector<std::byte> out(segment.payload.size());
  if (!store_->get(segment.header, segment.header.name.kind, out)) return false;
  if (!attempted_.contains(number)) broken("law 1: bytes for a name that was never put");
  if (!std::ranges::equal(out, segment.payload)) broken("law 1: other bytes than were put");
  return true;
}

// ---- Damage by other hands ----

void StoreScenario::flip_payload_byte(int number) {
  auto bytes = files_.contents(path_of(number));
  if (!bytes) return;
  bytes->back() ^= std::byte{1};
  files_.plant(path_of(number), *bytes);
  promised_.erase(number);
  planted_ = true;
}

void StoreScenario::cut_short(int number) {
  auto bytes = files_.contents(path_of(number));
  if (!bytes) return;
  bytes->resize(bytes->size() - 100);
  files_.plant(path_of(number), *bytes);
  promised_.erase(number);
  planted_ = true;
}

// The file of another segment, made to look like this one's: name, tokens and header sums are right.
void StoreScenario::plant_spliced(int payload_of) {
  auto bytes = files_.contents(path_of(payload_of));
  if (!bytes) return;
  auto header = format::decode_header(*bytes);
  if (!header) return;
  const std::size_t header_size = format::file_bytes(*header) - format::payload_bytes(*header);
  header->name = segments()[kSpliced].header.name;
  header->tokens = segments()[kSpliced].header.tokens;
  std::vector<std::byte> spliced = format::encode_header(*header);
  spliced.insert(spliced.end(), bytes->begin() + static_cast<std::ptrdiff_t>(header_size), bytes->end());
  files_.plant(path_of(kSpliced), std::move(spliced));
  planted_ = true;
}

// What a collision of names would be: all sums are right, the tokens are not.
void StoreScenario::plant_other_tokens() {
  SampleSegment other = segments()[kOtherTokens];
  ++other.header.tokens.front();
  std::vector<std::byte> bytes = format::encode_header(other.header);
  bytes.insert(bytes.end(), other.payload.begin(), other.payload.end());
  files_.plant(path_of(kOtherTokens), std::move(bytes));
  planted_ = true;
}

// ---- Laws ----

// Law 4, after each single operation of the file system.
void StoreScenario::check_budget() {
  const std::uint64_t there = files_.physical_bytes();
  if (there > kBudget.value()) broken("law 4: more on disk than the budget");
  if (store_ && !files_.crashed() && there > store_->used().value()) broken("law 4: more on disk than is counted");
}

// Law 4, between calls: what is counted is what is there. While everything fails, the size of a torn file cannot be
// asked for, and its whole reservation stays counted.
void StoreScenario::check_counted() {
  if (!store_ || files_.crashed()) return;
  const std::uint64_t counted = store_->used().value();
  const std::uint64_t there = files_.physical_bytes();
  const bool blind = fault_.kind == FaultKind::kFailForever && files_.fault_fired();
  if (blind ? counted < there : counted != there) {
    broken("law 4: " + std::to_string(counted) + " bytes counted, " + std::to_string(there) + " there");
  }
}

void StoreScenario::check_promises(const char* when) {
  for (const int number : promised_) {
    if (!served(number)) broken("law 3: durable segment " + std::to_string(number) + " is lost " + when);
  }
  for (int number = 0; number < kSegments; ++number) get(number);
}

// Law 5.
void StoreScenario::go_on() {
  if (!store_) open();
  if (!store_) return broken("law 5: cannot be opened after faults stopped");
  check_promises("after faults stopped");
  if (!put_with_room(6) || !served(6)) broken("law 5: put and get fail after faults stopped");
}

std::size_t StoreScenario::published() const {
  const auto paths = files_.paths();
  return static_cast<std::size_t>(std::ranges::count_if(paths, [&](const std::string& path) {
    return directory_of(path) == layout_.own && is_segment_name(path.substr(layout_.own.size() + 1));
  }));
}

void StoreScenario::check_recovered(std::size_t published_before) {
  const auto recovered = store_->take_recovered();
  for (const StoredSegment& found : recovered) {
    const auto same = [&](const SampleSegment& segment) { return segment.header.name == found.header.name; };
    const auto known = std::ranges::find_if(segments(), same);
    if (known == segments().end()) broken("law 1: a segment nobody put was recovered");
  }
  if (fault_.aftermath != Aftermath::kKill || planted_) return;
  if (store_->counters().damaged > 0) broken("law 3: half a file under a final name after a kill");
  if (recovered.size() != published_before) broken("law 3: a renamed file is lost after a kill");
}

void StoreScenario::recover() {
  check_budget();
  const std::size_t published_before = published();
  open();
  if (!store_) return broken("law 2: cannot be opened");
  check_recovered(published_before);
  check_promises("after the first end");
  for (const int number : {0, 1, 2}) {
    if (!put_with_room(number) || !served(number)) broken("law 5: put and get fail in the next process");
  }
  files_.power_cut();
  store_.reset();
  open();
  if (!store_) return broken("law 2: cannot be opened a second time");
  check_promises("after the second end");
}

// ---- Scenarios ----

void nothing(StoreScenario&) {}

void open_with_two(StoreScenario& world) {
  world.open();
  world.put(0);
  world.put(1);
}

const std::vector<Script>& scripts() {
  static const std::vector<Script> all = {
      {"first store", nothing,
       [](StoreScenario& world) {
         world.open();
         world.put(0);
         world.put(1);
       }},
      {"continue", [](StoreScenario& world) { open_with_two(world), world.restart(); },
       [](StoreScenario& world) {
         world.get(0);
         world.put(2);
         world.put(3);
         world.save_index();
         world.get(2);
       }},
      {"evict",
       [](StoreScenario& world) {
         open_with_two(world);
         world.put(2);
         world.put(3);
       },
       [](StoreScenario& world) {
         world.put_with_room(4);
         world.put_with_room(5);
         world.get(5);
       }},
      {"hit", open_with_two,
       [](StoreScenario& world) {
         world.get(0);
         world.touch(0);
         world.get(1);
         world.save_index();
         world.touch(1);
         world.get(0);
       }},
      {"restart",
       [](StoreScenario& world) {
         open_with_two(world);
         world.save_index();
         world.put(2);
         world.remove(1);
       },
       [](StoreScenario& world) {
         world.restart();
         world.get(0);
         world.put(1);
         world.save_index();
         world.restart();
         world.get(2);
       }},
      {"store again after a restart", [](StoreScenario& world) { open_with_two(world), world.restart(); },
       [](StoreScenario& world) {
         world.put(0);
         world.get(0);
         world.put(1);
         world.put(1);
       }},
      {"damage",
       [](StoreScenario& world) {
         open_with_two(world);
         world.save_index();
         world.flip_payload_byte(0);
         world.plant_spliced(1);
         world.plant_other_tokens();
         world.restart();
       },
       [](StoreScenario& world) {
         for (const int number : {0, kSpliced, kOtherTokens}) world.get(number);
         world.put(0);
         world.get(0);
         world.put_with_room(2);
       }},
  };
  return all;
}

sim::FaultLoopResult run_script(const Script& script, const sim::FaultLoopOptions& options) {
  return sim::run_fault_loop(options, [&](sim::SimFileSystem& files, const FaultCase& fault) {
    return std::make_unique<StoreScenario>(script, files, fault);
  });
}

TEST(StoreFaults, TheLawsHoldWithAFaultAtEveryOperation) {
  std::uint64_t cases = 0;
  for (const Script& script : scripts()) {
    const auto result = run_script(script, {.seeds = 20});
    EXPECT_GT(result.cases, 100u) << script.name;
    EXPECT_EQ(result.broken_cases, 0u) << script.name << " of " << result.cases;
    for (const std::string& example : result.examples) ADD_FAILURE() << script.name << ": " << example;
    cases += result.cases;
  }
  std::printf("%llu fault scenarios\n", static_cast<unsigned long long>(cases));
}

// ---- Mutants ----

struct Mutant {
  const char* name;
  Mutations mutations;
  sim::Lies lies;
};

void PrintTo(const Mutant& mutant, std::ostream* out) { *out << mutant.name; }

class StoreMutants : public testing::TestWithParam<Mutant> {
 protected:
  void SetUp() override { active_mutations = GetParam().mutations; }
  void TearDown() override { active_mutations = {}; }
};

TEST_P(StoreMutants, IsCaught) {
  for (const Script& script : scripts()) {
    const auto result = run_script(script, {.seeds = 4, .lies = GetParam().lies, .stop_at_first = true});
    if (result.broken_cases == 0) continue;
    std::printf("%s: %s\n", script.name, result.examples.front().c_str());
    return;
  }
  ADD_FAILURE() << "no law was broken";
}

// The checksum stands behind the length of a read, so a short read that is taken as whole breaks a law only if the
// checksum is gone as well; and the length stands behind the checksum.
TEST(StoreMutantPairs, ShortReadsAreCaughtByLengthAndByChecksum) {
  const Script script{"cut short", open_with_two, [](StoreScenario& world) {
                        world.cut_short(1);
                        world.get(1);
                      }};
  const auto laws_broken = [&](bool ignore_checksum, bool fill_short_reads) {
    active_mutations = {.ignore_checksum = ignore_checksum};
    sim::SimFileSystem files;
    files.set_lies({.fill_short_reads = fill_short_reads});
    StoreScenario scenario(script, files, {});
    scenario.prepare();
    scenario.run();
    active_mutations = {};
    return !scenario.broken_laws().empty();
  };
  EXPECT_FALSE(laws_broken(false, true));
  EXPECT_FALSE(laws_broken(true, false));
  EXPECT_TRUE(laws_broken(true, true));
}

INSTANTIATE_TEST_SUITE_P(All, StoreMutants,
                         testing::Values(Mutant{"no_file_sync", {}, {.drop_file_sync = true}},
                                         Mutant{"no_directory_sync", {}, {.drop_directory_sync = true}},
                                         Mutant{"ignored_append_error", {}, {.hide_append_errors = true}},
                                         Mutant{"ignored_sync_error", {}, {.hide_sync_errors = true}},
                                         Mutant{"written_under_the_final_name", {}, {.write_in_place = true}},
                                         Mutant{"checksum_ignored", {.ignore_checksum = true}, {}},
                                         Mutant{"checksum_without_the_name", {.checksum_without_name = true}, {}},
                                         Mutant{"tokens_not_compared", {.ignore_tokens = true}, {}},
                                         Mutant{"budget_counted_after_the_write", {.count_after_write = true}, {}},
                                         Mutant{"room_given_away_before_the_sync", {.release_before_sync = true}, {}},
                                         Mutant{"names_without_kind", {.names_without_kind = true}, {}},
                                         Mutant{"saved_index_trusted", {.trust_saved_index = true}, {}},
                                         Mutant{
                                             "recovered_taken_as_durable", {.trust_recovered_durability = true}, {}}),
                         [](const testing::TestParamInfo<Mutant>& mutant) { return mutant.param.name; });

}  // namespace
}  // namespace kvkeep::store
