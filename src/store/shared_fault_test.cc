// Two servers on one directory: the laws with a fault or a death at every operation of one of them, while the other
// does something in between at any of these operations; then the same with one mistake built in.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <random>
#include <set>
#include <tuple>

#include "store/active_mutations_test.h"
#include "store/disk_store.h"
#include "store/layout.h"
#include "testing/sim/fault_loop.h"
#include "testing/sim/sample_segments.h"
#include "testing/sim/sim_bystander.h"
#include "testing/sim/sim_clock.h"

namespace kvkeep::store {
namespace {

using sim::FaultCase;
using sim::SampleSegment;

constexpr int kSegments = 10;
const std::string kRoot = "/cache";

struct Setting {
  const char* name;
  bool faulty_keeps;  // the process that faults are about opens first
  bool same_model;
  ByteCount budget;
};
constexpr ByteCount kTight{114'688};
constexpr ByteCount kRoomy{1'228'800};

FingerprintHash model_of(const Setting& setting, std::size_t process) {
  return sim::sample_fingerprint(setting.same_model ? 1 : static_cast<std::uint8_t>(1 + process));
}

// Conversation 0 of the first process, 1 of the second; 2 both store.
SampleSegment make_segment(const FingerprintHash& model, std::uint32_t conversation, int number) {
  constexpr std::size_t kSizes[] = {700, 5000, 9000};
  return sim::sample_segment(model, conversation + 1, static_cast<std::uint32_t>(number), kSizes[number % 3]);
}

const SampleSegment& segment_of(const FingerprintHash& model, std::uint32_t conversation, int number) {
  static std::map<std::tuple<int, std::uint32_t, int>, SampleSegment> made;
  const auto key = std::tuple(static_cast<int>(model.bytes[0]), conversation, number);
  if (!made.contains(key)) made.emplace(key, make_segment(model, conversation, number));
  return made.at(key);
}

// One server's view of what it did.
struct Server {
  os::FileSystem* files = nullptr;
  FingerprintHash model;
  std::uint32_t conversation = 0;
  std::unique_ptr<DiskStore> store;
  std::set<std::pair<std::uint32_t, int>> promised;  // (conversation, number)
};

class SharedScenario final : public sim::FaultScenario {
 public:
  SharedScenario(const Setting& setting, sim::SimFileSystem& files, const FaultCase& fault)
      : setting_(setting),
        files_(files),
        fault_(fault),
        random_(fault.seed * 7919 + fault.first.at_operation),
        bystander_(std::make_unique<sim::SimBystander>(files)) {
    for (std::size_t process : {0U, 1U}) {
      servers_[process].model = model_of(setting, process);
      servers_[process].conversation = static_cast<std::uint32_t>(process);
    }
    faulty().files = &files_;
    other().files = bystander_.get();
    files_.set_observer([this] { check_budget(); });
  }
  ~SharedScenario() override {
    files_.set_interruption(nullptr);
    files_.set_observer(nullptr);
  }

  void prepare() override;
  void run() override;
  void go_on() override;
  void run_again() override;
  void die() override;
  void recover() override;

 private:
  Server& faulty() { return servers_[0]; }
  Server& other() { return servers_[1]; }
  bool faults_may_show() const { return files_.fault_fired(); }
  std::uint64_t there() const { return files_.physical_bytes(kRoot + "/" + std::string(kServersName)); }

  void open(Server& server);
  Status put(Server& server, std::uint32_t conversation, int number);
  bool put_with_room(Server& server, int number);
  void revive_other();
  void note_spoiled();
  void remove(Server& server, std::uint32_t conversation, int number);
  void make_room(Server& keeper, ByteCount needed);
  void tick(Server& server);
  void tick_both() {
    clock_.advance_ms(1000);
    tick(other());
    tick(faulty());
  }
  bool served(Server& server, std::uint32_t conversation, int number);
  void other_does_something();
  void check_budget();
  void check_promises(const char* when);
  void check_both_work(const char* when);

  const Setting& setting_;
  sim::SimFileSystem& files_;
  const FaultCase fault_;
  std::mt19937_64 random_;
  std::unique_ptr<sim::SimBystander> bystander_;
  sim::SimClock clock_;
  std::array<Server, 2> servers_;
  bool evicted_ = false;  // the keeper took something away: promises are off
};

// ---- Steps ----

void SharedScenario::open(Server& server) {
  auto opened = DiskStore::open({.directory = kRoot, .fingerprint = server.model, .budget = setting_.budget},
                                *server.files, clock_);
  if (opened) server.store = std::move(*opened);
}

Status SharedScenario::put(Server& server, std::uint32_t conversation, int number) {
  if (!server.store) return io_error("not open");
  const SampleSegment& segment = segment_of(server.model, conversation, number);
  const Status status = server.store->put(segment.header, {{segment.header.name.kind, segment.payload}});
  if (status) server.promised.emplace(conversation, number);
  const bool disturbed = &server == &faulty() && faults_may_show();
  if (!status && status.error().kind != ErrorKind::kNoSpace && !disturbed) {
    broken("law 5: a put fails that no fault met: " + status.error().message);
  }
  return status;
}

// As the cache of the keeper does: what is oldest leaves.
void SharedScenario::make_room(Server& keeper, ByteCount needed) {
  if (!keeper.store || !keeper.store->keeper()) return;
  evicted_ = true;
  if (keeper.store->remove_foreign(needed) >= needed) return;
  for (const std::uint32_t conversation : {0U, 1U, 2U}) {
    for (int victim = 0; victim < kSegments; ++victim) {
      (void)keeper.store->remove(segment_of(keeper.model, conversation, victim).header.name).ok();
    }
  }
}

void SharedScenario::tick(Server& server) {
  if (!server.store) return;
  const DiskTick found = server.store->tick();
  if (found.shortage > ByteCount{}) {
    make_room(server, found.shortage);
    (void)server.store->grant();
  }
  const bool both = faulty().store && other().store && faulty().store->keeper() && other().store->keeper();
  if (both && !files_.crashed()) broken("law 4: two keepers");
}

void SharedScenario::remove(Server& server, std::uint32_t conversation, int number) {
  for (Server& each : servers_) each.promised.erase({conversation, number});
  (void)server.store->remove(segment_of(server.model, conversation, number).header.name).ok();
}

bool SharedScenario::put_with_room(Server& server, int number) {
  for (int attempt = 0; attempt < 4; ++attempt) {
    if (put(server, server.conversation, number)) return true;
    if (server.store && server.store->keeper()) make_room(server, ByteCount{20'000});
    tick_both();
  }
  return false;
}

bool SharedScenario::served(Server& server, std::uint32_t conversation, int number) {
  if (!server.store) return false;
  const SampleSegment& segment = segment_of(server.model, conversation, number);
  std::vector<std::byte> out(segment.payload.size());
  if (!server.store->get(segment.header, segment.header.name.kind, out)) return false;
  if (!std::ranges::equal(out, segment.payload)) broken("law 1: other bytes than were put");
  return true;
}

void SharedScenario::other_does_something() {
  const int number = static_cast<int>(random_() % kSegments);
  switch (random_() % 12) {
    case 0: tick(other()); break;
    case 1: (void)put(other(), other().conversation, number).ok(); break;
    case 2: (void)put(other(), 2, number).ok(); break;
    case 3: (void)served(other(), 2, number); break;
    default: break;
  }
}

// ---- The story ----

void SharedScenario::prepare() {
  open(setting_.faulty_keeps ? faulty() : other());
  open(setting_.faulty_keeps ? other() : faulty());
  for (Server* server : {&faulty(), &other()}) {
    for (int round = 0; round < 2; ++round) {
      (void)put(*server, server->conversation, round).ok();
      tick_both();
    }
  }
  files_.set_interruption([this] { other_does_something(); });
}

void SharedScenario::run() {
  for (int number = 2; number < 5; ++number) {
    clock_.advance_ms(1000);
    (void)put(faulty(), 0, number).ok();
    tick(faulty());
    (void)put(faulty(), 2, number).ok();
    (void)served(faulty(), 0, number);
  }
  if (faulty().store) faulty().store->save_index();
  faulty().store.reset();  // leaves, and comes back as whatever is free
  open(faulty());
  tick(faulty());
  (void)put(faulty(), 0, 5).ok();
  (void)put(faulty(), 0, 5).ok();
  tick(faulty());
  files_.set_interruption(nullptr);
}

void SharedScenario::go_on() {
  note_spoiled();
  files_.set_interruption(nullptr);
  if (!faulty().store) open(faulty());
  check_both_work("after faults stopped");
}

// The other one lives on unless the power was cut.
void SharedScenario::die() {
  files_.set_interruption(nullptr);
  faulty().store.reset();
  if (bystander_->dead()) other().store.reset();
}

void SharedScenario::revive_other() {
  if (!bystander_->dead()) return;
  bystander_ = std::make_unique<sim::SimBystander>(files_);
  other().files = bystander_.get();
  open(other());
}

// Faults meet the death of the first process, and what comes after it.
void SharedScenario::run_again() {
  note_spoiled();
  revive_other();
  files_.set_interruption([this] { other_does_something(); });
  open(faulty());
  for (int number = 5; number < 8; ++number) {
    clock_.advance_ms(1000);
    tick(faulty());
    (void)put(faulty(), 0, number).ok();
  }
  tick(faulty());
  files_.set_interruption(nullptr);
}

// Bytes that rotted are no promise of anybody.
void SharedScenario::note_spoiled() {
  if (!files_.take_spoiled().empty()) evicted_ = true;
}

void SharedScenario::recover() {
  check_budget();
  note_spoiled();
  if (!bystander_->dead() && random_() % 2 == 0) {
    // Alone for a while: it keeps the directory, and counts exactly what is there.
    for (int round = 0; round < 3; ++round) {
      clock_.advance_ms(1000);
      tick(other());
    }
    if (!other().store->keeper()) broken("law 4: nobody keeps the directory after its keeper died");
    if (other().store->used().value() != there()) broken("law 5: what the dead might have written stays reserved");
  }
  revive_other();
  open(faulty());
  (void)put(other(), 1, 6).ok();  // from a lease that a former keeper may have given
  if (!faulty().store || !other().store) return broken("law 2: cannot be opened");
  check_promises("after the first end");
  check_both_work("after the first end");
  files_.power_cut();
  die();
  revive_other();
  open(faulty());
  if (!faulty().store || !other().store) return broken("law 2: cannot be opened a second time");
  check_promises("after the second end");
}

// ---- Laws ----

void SharedScenario::check_budget() {
  const std::uint64_t now = there();
  if (now > setting_.budget.value()) broken("law 4: more on disk than the budget");
  for (const Server& server : servers_) {
    if (!server.store || !server.store->keeper()) continue;
    if (&server == &servers_[0] && files_.crashed()) continue;
    if (now > server.store->used().value()) {
      broken("law 4: more on disk than the keeper counts");
    }
  }
}

// Of one model whoever stored it: both serve it as soon as they looked.
void SharedScenario::check_promises(const char* when) {
  for (int round = 0; round < 3; ++round) tick_both();
  if (evicted_) return;
  for (Server& server : servers_) {
    for (const auto& [conversation, number] : server.promised) {
      if (!served(server, conversation, number)) broken(std::string("law 3: a durable segment is lost ") + when);
      Server& reader = &server == &servers_[0] ? servers_[1] : servers_[0];
      if (setting_.same_model && !served(reader, conversation, number)) {
        broken(std::string("law 5: what one stored the other does not serve ") + when);
      }
    }
  }
}

// More than a tight budget goes through each of them.
void SharedScenario::check_both_work(const char* when) {
  for (int round = 0; round < 3; ++round) tick_both();
  const int rounds = setting_.budget == kTight ? 8 : 2;
  for (int round = 0; round < rounds; ++round) {
    for (Server* server : {&other(), &faulty()}) {
      const int number = round % kSegments;
      if (!put_with_room(*server, number)) {
        return broken(std::string("law 5: ") + (server->store && server->store->keeper() ? "the keeper" : "a member") +
                      " cannot store " + when);
      }
      if (setting_.budget == kTight) remove(*server, server->conversation, number);
    }
  }
}

// ---- The loop ----

const std::vector<Setting>& settings() {
  static const std::vector<Setting> all = {
      {"a member meets faults", false, true, kRoomy},
      {"a member meets faults, tight", false, true, kTight},
      {"a member of another model meets faults, tight", false, false, kTight},
      {"the keeper meets faults", true, true, kRoomy},
      {"the keeper meets faults, tight", true, true, kTight},
      {"the keeper of another model meets faults, tight", true, false, kTight},
  };
  return all;
}

sim::FaultLoopResult run_setting(const Setting& setting, const sim::FaultLoopOptions& options) {
  return sim::run_fault_loop(options, [&](sim::SimFileSystem& files, const FaultCase& fault) {
    return std::make_unique<SharedScenario>(setting, files, fault);
  });
}

TEST(SharedFaults, TheLawsHoldForTwoServers) {
  std::uint64_t cases = 0;
  for (const Setting& setting : settings()) {
    const auto result = run_setting(setting, {.seeds = 1, .second_faults = !setting.same_model});
    EXPECT_GT(result.cases, 100u) << setting.name;
    EXPECT_EQ(result.broken_cases, 0u) << setting.name << " of " << result.cases;
    for (const std::string& example : result.examples) ADD_FAILURE() << setting.name << ": " << example;
    cases += result.cases;
  }
  std::printf("%llu fault scenarios\n", static_cast<unsigned long long>(cases));
}

struct Mutant {
  const char* name;
  Mutations mutations;
};
void PrintTo(const Mutant& mutant, std::ostream* out) { *out << mutant.name; }

class SharedMutants : public testing::TestWithParam<Mutant> {
 protected:
  void SetUp() override { active_mutations = GetParam().mutations; }
  void TearDown() override { active_mutations = {}; }
};

TEST_P(SharedMutants, IsCaught) {
  for (const Setting& setting : settings()) {
    const auto result = run_setting(setting, {.seeds = 1, .stop_at_first = true});
    if (result.broken_cases == 0) continue;
    std::printf("%s: %s\n", setting.name, result.examples.front().c_str());
    return;
  }
  ADD_FAILURE() << "no law was broken";
}

INSTANTIATE_TEST_SUITE_P(All, SharedMutants,
                         testing::Values(Mutant{"room_given_before_the_scan", {.grant_before_scan = true}},
                                         Mutant{"used_said_before_it_is_written", {.publish_before_write = true}},
                                         Mutant{"used_never_said", {.never_publish = true}},
                                         Mutant{"leases_of_the_dead_kept", {.keep_dead_leases = true}},
                                         Mutant{"temporaries_of_the_living_swept", {.sweep_living = true}},
                                         Mutant{"two_keepers", {.two_keepers = true}},
                                         Mutant{"leases_of_a_former_keeper_unknown", {.count_leases_late = true}}),
                         [](const testing::TestParamInfo<Mutant>& mutant) { return std::string(mutant.param.name); });

}  // namespace
}  // namespace kvkeep::store
