#pragma once

// Two servers on one directory: one process meets faults, the other does something in between, and other hands as well.

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "store/disk_store.h"
#include "store/layout.h"
#include "store/servers.h"
#include "store/shared_setting_fixture.h"
#include "testing/sim/sim_bystander.h"
#include "testing/sim/sim_clock.h"

namespace kvkeep::store {

// One server's view of its own work.
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
  std::uint64_t there() const;

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
  void other_hands_do_something();
  void other_dies_while_it_writes(std::uint64_t operations);
  void fill_to_the_brim(Server& keeper);
  void cut_power_within_a_put(Server& server);
  void check_alone(Server& survivor, const char* when);
  void check_writes(Server& server);
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
  bool writes_lost_ = false;  // a fault met the file of the day's writing
  bool evicted_ = false;      // the keeper took something away: promises are off
};

// ---- Steps ----

inline void SharedScenario::open(Server& server) {
  auto opened = DiskStore::open({.directory = kRoot,
                                 .fingerprint = server.model,
                                 .budget = setting_.budget,
                                 .written_per_day = setting_.limits_writes ? kWrittenPerDay : ByteCount{}},
                                *server.files, clock_);
  if (!opened) return;
  server.store = std::move(*opened);
  const auto writes = server.store->writes();
  writes_lost_ |= writes && writes->disbelieved;
}

inline Status SharedScenario::put(Server& server, std::uint32_t conversation, int number) {
  if (!server.store) return io_error("not open");
  const SampleSegment& segment = segment_of(server.model, conversation, number);
  const Status status = server.store->put(segment.header, {{segment.header.name.kind, segment.payload}});
  if (status) server.promised.emplace(conversation, number);
  const bool disturbed = &server == &faulty() ? faults_may_show() : bystander_->dead();
  if (!status && status.error().kind != ErrorKind::kNoSpace && !disturbed) {
    broken("law 5: a put fails that no fault met: " + status.error().message);
  }
  return status;
}

// As the keeper's cache does: the oldest leave.
inline void SharedScenario::make_room(Server& keeper, ByteCount needed) {
  if (!keeper.store || !keeper.store->keeper()) return;
  evicted_ = true;
  if (keeper.store->remove_foreign(needed) >= needed) return;
  for (const std::uint32_t conversation : {0U, 1U, 2U, 3U, 4U}) {
    for (int victim = 0; victim < kSegments; ++victim) {
      (void)keeper.store->remove(segment_of(keeper.model, conversation, victim).header.name).ok();
    }
  }
}

inline void SharedScenario::tick(Server& server) {
  if (!server.store) return;
  const DiskTick found = server.store->tick();
  if (found.shortage > ByteCount{}) {
    make_room(server, found.shortage);
    (void)server.store->grant();
  }
  const bool both = faulty().store && other().store && faulty().store->keeper() && other().store->keeper();
  if (both && !files_.crashed()) broken("law 4: two keepers");
}

inline void SharedScenario::remove(Server& server, std::uint32_t conversation, int number) {
  for (Server& each : servers_) each.promised.erase({conversation, number});
  (void)server.store->remove(segment_of(server.model, conversation, number).header.name).ok();
}

inline bool SharedScenario::put_with_room(Server& server, int number) {
  for (int attempt = 0; attempt < 4; ++attempt) {
    if (put(server, server.conversation, number)) return true;
    if (server.store && server.store->keeper()) make_room(server, ByteCount{20'000});
    tick_both();
  }
  return false;
}

inline bool SharedScenario::served(Server& server, std::uint32_t conversation, int number) {
  if (!server.store) return false;
  const SampleSegment& segment = segment_of(server.model, conversation, number);
  std::vector<std::byte> out(segment.payload.size());
  if (!server.store->get(segment.header, segment.header.name.kind, out)) return false;
  // Not ranges::equal, which compares byte by byte.
  if (std::memcmp(out.data(), segment.payload.data(), out.size()) != 0) broken("law 1: other bytes than were put");
  return true;
}

inline void SharedScenario::other_does_something() {
  const int number = static_cast<int>(random_() % kSegments);
  switch (random_() % 48 / 4) {
    case 0: tick(other()); break;
    case 1: (void)put(other(), other().conversation, number).ok(); break;
    case 2: (void)put(other(), 2, number).ok(); break;
    case 3: (void)served(other(), 2, number); break;
    case 4: other_hands_do_something(); break;
    default: break;
  }
}

// `kvkeep cache rm` and forgers leave names in servers/; a listing during a rename may miss a name; and a killed server
// leaves half-written files.
inline void SharedScenario::other_hands_do_something() {
  Servers hands(kRoot + "/" + std::string(kServersName), *bystander_, clock_);
  switch (random_() % 4) {
    case 0: (void)hands.tell_change().ok(); break;
    case 1: (void)hands.publish(std::uint64_t{1} << (50 + random_() % 14), 0).ok(); break;
    case 2:
      if (!other().store || !other().store->keeper()) break;
      files_.miss_in_lists(".grant");
      tick(other());
      files_.miss_in_lists("");
      break;
    default: other_dies_while_it_writes(1 + random_() % 8); break;
  }
}

inline void SharedScenario::other_dies_while_it_writes(std::uint64_t operations) {
  bystander_->die_after(operations);
  (void)put(other(), other().conversation, static_cast<int>(random_() % kSegments)).ok();
  bystander_->die();
  other().store.reset();
  revive_other();
}

// ---- The story ----

inline void SharedScenario::prepare() {
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

inline void SharedScenario::run() {
  for (int number = 2; number < 5; ++number) {
    clock_.advance_ms(1000);
    (void)put(faulty(), 0, number).ok();
    tick(faulty());
    (void)put(faulty(), 2, number).ok();
    (void)served(faulty(), 0, number);
    if (number == 3) other_dies_while_it_writes(2);
  }
  if (faulty().store) faulty().store->save_index();
  faulty().store.reset();  // leaves, and comes back as whatever is free
  open(faulty());
  tick(faulty());
  (void)put(faulty(), 0, 5).ok();
  (void)put(faulty(), 0, 5).ok();
  tick(faulty());
  // No other server sees it, and it may still come back after a power cut when this process is dead.
  if (put(faulty(), 0, 7)) remove(faulty(), 0, 7);
  files_.set_interruption(nullptr);
}

inline void SharedScenario::go_on() {
  note_spoiled();
  files_.set_interruption(nullptr);
  if (!faulty().store) open(faulty());
  check_both_work("after faults stopped");
  check_alone(faulty(), "after faults stopped");
}

// The other one lives on unless the power was cut.
inline void SharedScenario::die() {
  files_.set_interruption(nullptr);
  faulty().store.reset();
  if (bystander_->dead()) other().store.reset();
}

inline void SharedScenario::revive_other() {
  if (!bystander_->dead()) return;
  bystander_ = std::make_unique<sim::SimBystander>(files_);
  other().files = bystander_.get();
  open(other());
}

// Faults meet the death of the first process, and what comes after it.
inline void SharedScenario::run_again() {
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
inline void SharedScenario::note_spoiled() {
  if (!files_.take_spoiled().empty()) evicted_ = true;
}

inline void SharedScenario::recover() {
  check_budget();
  note_spoiled();
  if (!bystander_->dead() && random_() % 2 == 0) {
    // By itself for a while: it keeps the directory, and counts exactly its files.
    for (int round = 0; round < 3; ++round) {
      clock_.advance_ms(1000);
      tick(other());
    }
    if (!other().store->keeper()) broken("law 4: nobody keeps the directory after its keeper died");
    if (other().store->used().value() != there()) broken("law 5: what the dead might have written stays reserved");
    if (random_() % 2 == 0) {
      fill_to_the_brim(other());
      files_.power_cut();
      check_budget();
      die();
    }
  }
  revive_other();
  open(faulty());
  (void)put(other(), 1, 6).ok();  // from a lease that a former keeper may have given
  if (!faulty().store || !other().store) return broken("law 2: cannot be opened");
  check_promises("after the first end");
  check_both_work("after the first end");
  Server& member = faulty().store->keeper() ? other() : faulty();
  Server& keeper = faulty().store->keeper() ? faulty() : other();
  // A member reports used bytes when they cannot come back; else its next write is too much.
  tick_both();
  fill_to_the_brim(keeper);
  if (put(member, member.conversation, 7)) remove(member, member.conversation, 7);
  clock_.advance_ms(1000);
  tick(member);
  tick(keeper);
  cut_power_within_a_put(member);
  check_budget();
  revive_other();
  open(faulty());
  if (!faulty().store || !other().store) return broken("law 2: cannot be opened a second time");
  check_promises("after the second end");
  check_alone(random_() % 2 == 0 ? other() : faulty(), "after the second end");
}

// Until nothing more fits; no server makes room.
inline void SharedScenario::fill_to_the_brim(Server& keeper) {
  if (setting_.budget != kTight) return;
  for (const std::uint32_t conversation : {3U, 4U}) {
    for (const int number : {8, 5, 2, 4, 7, 3}) {
      (void)put(keeper, conversation, number).ok();
    }
  }
}

inline void SharedScenario::cut_power_within_a_put(Server& server) {
  const std::uint64_t operations = 1 + random_() % 6;
  if (&server == &other()) {
    bystander_->die_after(operations);
  } else {
    files_.set_plan({sim::FaultKind::kCrash, operations});
  }
  (void)put(server, server.conversation, 4).ok();
  files_.power_cut();
  die();
  files_.set_plan({});
  files_.heal();
}

// ---- Laws ----

// The budget's files: names of servers and what may be written today are outside of it.
inline std::uint64_t SharedScenario::there() const {
  static const std::string servers = kRoot + "/" + std::string(kServersName);
  static const std::string writes = kRoot + "/" + std::string(kWritesName);
  static const std::string unfinished = writes + std::string(kTemporarySuffix);
  std::uint64_t bytes = files_.physical_bytes(servers);
  if (!setting_.limits_writes) return bytes;
  for (const std::string* path : {&writes, &unfinished}) {
    if (const auto size = files_.seen_size(*path)) bytes -= os::physical_size(*size).value();
  }
  return bytes;
}

// The server that is left keeps the directory and counts exactly its files.
inline void SharedScenario::check_alone(Server& survivor, const char* when) {
  if (&survivor == &faulty()) {
    bystander_->die();
    other().store.reset();
  } else {
    faulty().store.reset();
  }
  for (int round = 0; round < 3; ++round) {
    clock_.advance_ms(10'000);
    tick(survivor);
  }
  if (!survivor.store->keeper()) return broken(std::string("law 4: nobody keeps the directory ") + when);
  const std::uint64_t counted = survivor.store->used().value();
  if (counted != there()) {
    broken("law 4: " + std::to_string(counted) + " bytes are counted and " + std::to_string(there()) + " are there " +
           when);
  }
  if (survivor.store->shared()) broken(std::string("law 5: the dead are taken for living servers ") + when);
  check_writes(survivor);
}

// A total that no server could have written does not count as writing.
inline void SharedScenario::check_writes(Server& server) {
  const auto writes = server.store->writes();
  if (!writes || writes_lost_) return;
  if (writes->left.value() < writes->most.value() / 2) broken("law 5: the day's writing was used up by nobody");
}

inline void SharedScenario::check_budget() {
  const std::uint64_t now = there();
  if (now > setting_.budget.value()) broken("law 4: more on disk than the budget");
  for (const Server& server : servers_) {
    if (!server.store || !server.store->keeper()) continue;
    if (&server == &servers_[0] ? files_.crashed() : bystander_->dead()) continue;
    if (now > server.store->used().value()) {
      broken("law 4: more on disk than the keeper counts");
    }
  }
}

// Both servers serve a segment of their model, whichever of them stored it, as soon as they looked.
inline void SharedScenario::check_promises(const char* when) {
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
inline void SharedScenario::check_both_work(const char* when) {
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

}  // namespace kvkeep::store
