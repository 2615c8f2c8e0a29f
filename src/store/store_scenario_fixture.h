#pragma once

// A process with a disk store under faults, its promises, and the six laws (docs/fault-model.md).

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/assert.h"
#include "store/disk_store.h"
#include "store/layout.h"
#include "store/segment_io.h"
#include "testing/sim/fault_loop.h"
#include "testing/sim/sample_segments.h"
#include "testing/sim/sim_clock.h"
#include "testing/sim/spliced_bytes.h"

namespace kvkeep::store {

using format::PartKind;
using sim::FaultCase;
using sim::FaultKind;
using sim::SampleSegment;

constexpr int kSegments = 10;
constexpr int kSpliced = 7;      // never put: a file with its name and another segment's payload
constexpr int kOtherTokens = 8;  // never put: a file with its name and other tokens
constexpr int kOtherModel = 9;   // never put: a file with its name and another model's payload
constexpr ByteCount kBudget{61'440};
inline const FingerprintHash kModel = sim::sample_fingerprint(1);
inline const std::string kRoot = "/cache";

// Rows, except 2 (the window rows of segment 1: only the kind makes their names differ) and 4 (a point where segment 3,
// of rows without bytes, ends).
inline const std::vector<SampleSegment>& segments() {
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

// A process with a store, its promises, and the laws.
class StoreScenario final : public sim::FaultScenario {
 public:
  StoreScenario(const Script& script, sim::SimFileSystem& files, const FaultCase& fault)
      : script_(script), files_(files), fault_(fault), layout_(make_layout(kRoot, kModel)) {
    files_.set_observer([this] { check_budget(); });
    files_.set_pace(clock_, {.operation_ns = 20'000, .byte_ns = 1});
  }
  ~StoreScenario() override { files_.set_observer(nullptr); }

  void prepare() override { script_.prepare(*this); }
  void run() override { script_.run(*this); }
  void die() override { store_.reset(); }
  void go_on() override;
  void run_again() override;
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
  void remove_foreign();
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
  void remove_directory(const std::string& directory);
  void plant_spliced(int payload_of);
  void plant_other_tokens();
  void plant_other_model();
  void plant_future_version(int number);
  void make_index_of_future_version();
  void check_left_for_later(int number);

 private:
  std::string path_of(int number) const {
    return layout_.own + "/" + format::file_name(segments()[number].header.name);
  }
  bool served(int number);
  void replace_file(int number, std::vector<std::byte> bytes);
  void note_spoiled();
  void check_budget();
  void check_counted();
  void check_promises(const char* when, bool next_process);
  void check_recovered(std::size_t published);
  std::size_t published() const;

  const Script& script_;
  sim::SimFileSystem& files_;
  const FaultCase fault_;
  const Layout layout_;
  sim::SimClock clock_;
  std::unique_ptr<DiskStore> store_;
  std::set<int> promised_;                        // put() said ok, and no remove was called
  std::map<int, std::vector<std::byte>> future_;  // planted, of a later version, as long as nothing spoiled them
  std::set<int> attempted_;                       // bytes that may lie under the name
  bool planted_ = false;                          // the test damaged files: they may go to the quarantine
  bool removed_ = false;  // the directory was: more is counted than is there until something is put
  bool blind_ = false;    // the process under test met a disk where all fails, and cannot ask for sizes
};

// ---- Steps ----

inline void StoreScenario::open() {
  blind_ = removed_ = false;
  auto opened = DiskStore::open({.directory = kRoot, .fingerprint = kModel, .budget = kBudget}, files_, clock_);
  note_spoiled();
  if (!opened) return;
  store_ = std::move(*opened);
  check_counted();
}

inline bool StoreScenario::put(int number) {
  if (!store_) return false;
  const SampleSegment& segment = segments()[number];
  attempted_.insert(number);
  files_.expect_publish_as(path_of(number));
  const Status status = store_->put(segment.header, {{segment.header.name.kind, segment.payload}});
  files_.expect_publish_as("");
  if (status) promised_.insert(number);
  if (status) removed_ = false;
  const bool only_slow = fault_.first.fault.kind == FaultKind::kSlow && !fault_.second;
  if (only_slow && !status && status.error().kind != ErrorKind::kNoSpace) broken("law 5: refused by a slow disk");
  check_counted();
  return status.ok();
}

// As a cache does: without room, the oldest leave, then unserved files.
inline bool StoreScenario::put_with_room(int number) {
  for (int victim = 0; victim < kSegments; ++victim) {
    if (put(number)) return true;
    if (victim != number) remove(victim);
  }
  remove_foreign();
  return put(number);
}

// Files that could not be read when the store was opened, too.
inline void StoreScenario::remove_foreign() {
  if (store_) (void)store_->remove_foreign(kBudget);
  std::erase_if(promised_, [this](int number) { return !files_.contents(path_of(number)); });
  check_counted();
}

inline void StoreScenario::remove(int number) {
  if (!store_) return;
  promised_.erase(number);
  (void)store_->remove(segments()[number].header.name).ok();
  check_counted();
}

// Law 1: the bytes that come back were put under this name.
inline bool StoreScenario::served(int number) {
  if (!store_) return false;
  const SampleSegment& segment = segments()[number];
  std::vector<std::byte> out(segment.payload.size());
  const Status read = store_->get(segment.header, segment.header.name.kind, out);
  note_spoiled();
  if (!read) return false;
  if (!attempted_.contains(number)) broken("law 1: bytes for a name that was never put");
  if (!std::ranges::equal(out, segment.payload)) broken("law 1: other bytes than were put");
  return true;
}

// ---- Damage by other hands ----

inline void StoreScenario::replace_file(int number, std::vector<std::byte> bytes) {
  files_.plant(path_of(number), std::move(bytes));
  promised_.erase(number);
  planted_ = true;
}

inline void StoreScenario::flip_payload_byte(int number) {
  auto bytes = files_.contents(path_of(number));
  if (!bytes) return;
  bytes->back() ^= std::byte{1};
  replace_file(number, std::move(*bytes));
}

inline void StoreScenario::cut_short(int number) {
  auto bytes = files_.contents(path_of(number));
  if (!bytes) return;
  bytes->resize(bytes->size() - 100);
  replace_file(number, std::move(*bytes));
}

// rm -rf while the store is open.
inline void StoreScenario::remove_directory(const std::string& directory) {
  files_.remove_tree(directory);
  promised_.clear();
  removed_ = true;
}

// The file of another segment, made to look like this one's: name, tokens and header sums are right.
inline void StoreScenario::plant_spliced(int payload_of) {
  auto bytes = files_.contents(path_of(payload_of));
  if (!bytes) return;
  auto header = format::decode_header(*bytes);
  if (!header) return;
  const std::size_t header_size = format::file_bytes(*header) - format::payload_bytes(*header);
  header->name = segments()[kSpliced].header.name;
  header->tokens = segments()[kSpliced].header.tokens;
  std::vector<std::byte> spliced = format::encode_header(*header);
  spliced.insert(spliced.end(), bytes->begin() + static_cast<std::ptrdiff_t>(header_size), bytes->end());
  replace_file(kSpliced, std::move(spliced));
}

// As in a collision of names: all sums are right, the tokens are not.
inline void StoreScenario::plant_other_tokens() {
  SampleSegment other = segments()[kOtherTokens];
  ++other.header.tokens.front();
  std::vector<std::byte> bytes = format::encode_header(other.header);
  bytes.insert(bytes.end(), other.payload.begin(), other.payload.end());
  replace_file(kOtherTokens, std::move(bytes));
}

// Another model's bytes after this one's header, with the sum that the other one's store writes.
inline void StoreScenario::plant_other_model() {
  SampleSegment other = segments()[kOtherModel];
  for (std::byte& byte : other.payload) byte ^= std::byte{0x55};
  format::SegmentHeader theirs = other.header;
  theirs.fingerprint = sim::sample_fingerprint(2);
  const auto summed = complete_header(theirs, {{theirs.name.kind, other.payload}});
  KVKEEP_ASSERT(summed.ok(), "the header of a sample is consistent");
  other.header.parts = summed->parts;
  std::vector<std::byte> bytes = format::encode_header(other.header);
  bytes.insert(bytes.end(), other.payload.begin(), other.payload.end());
  replace_file(kOtherModel, std::move(bytes));
}

// As a later program might write it: all sums are right, but the bytes mean something else.
inline void StoreScenario::plant_future_version(int number) {
  SampleSegment future = segments()[number];
  for (std::byte& byte : future.payload) byte ^= std::byte{0x55};
  format::Part& part = future.header.parts.front();
  part.sum = format::part_checksum(kModel, future.header.name, part.kind, future.payload);
  std::vector<std::byte> bytes = format::encode_header(future.header);
  sim::set_version(bytes, sim::kSegmentSumOffset, sim::kFutureVersion);
  bytes.insert(bytes.end(), future.payload.begin(), future.payload.end());
  future_[number] = bytes;
  replace_file(number, std::move(bytes));
}

inline void StoreScenario::make_index_of_future_version() {
  auto bytes = files_.contents(layout_.index);
  if (!bytes) return;
  sim::set_version(*bytes, bytes->size() - sizeof(Checksum), sim::kFutureVersion);
  files_.plant(layout_.index, std::move(*bytes));
  planted_ = true;
}

// A program that can read them may come back: they stay as long as their room is not needed.
inline void StoreScenario::check_left_for_later(int number) {
  if (!store_ || files_.crashed() || !future_.contains(number)) return;
  if (files_.contents(path_of(number)) != future_.at(number)) broken("law 3: a file of a later version is lost");
}

// Only files that the disk itself spoiled may be lost.
inline void StoreScenario::note_spoiled() {
  for (const std::string& path : files_.take_spoiled()) {
    std::erase_if(promised_, [&](int number) { return path_of(number) == path; });
    std::erase_if(future_, [&](const auto& planted) { return path_of(planted.first) == path; });
    planted_ = true;
  }
}

// ---- Laws ----

// Law 4, after each single operation of the file system.
inline void StoreScenario::check_budget() {
  const std::uint64_t there = files_.physical_bytes();
  if (there > kBudget.value()) broken("law 4: more on disk than the budget");
  if (store_ && !files_.crashed() && there > store_->used().value()) broken("law 4: more on disk than is counted");
}

// Law 4, between calls: the count equals the files. While everything fails, the size of a torn file cannot be read, and
// its whole reservation stays counted.
inline void StoreScenario::check_counted() {
  note_spoiled();
  if (!store_ || files_.crashed()) return;
  const std::uint64_t counted = store_->used().value();
  const std::uint64_t there = files_.physical_bytes();
  blind_ = blind_ || files_.all_fails();
  if (blind_ || removed_ ? counted < there : counted != there) {
    broken("law 4: " + std::to_string(counted) + " bytes counted, " + std::to_string(there) + " there");
  }
}

// A process does not serve a file that it could not read when it opened: the next one does.
inline void StoreScenario::check_promises(const char* when, bool next_process) {
  const std::set<int> promised = promised_;
  for (const int number : promised) {
    const bool kept = served(number) || (!next_process && files_.contents(path_of(number)));
    if (!kept && promised_.contains(number))
      broken("law 3: durable segment " + std::to_string(number) + " is lost " + when);
  }
  for (int number = 0; number < kSegments; ++number) get(number);
}

// Law 5.
inline void StoreScenario::go_on() {
  clock_.advance_ms(64'000);  // a disk that was full is tried again within that time
  if (!store_) open();
  if (!store_) return broken("law 5: cannot be opened after faults stopped");
  check_promises("after faults stopped", false);
  if (!put_with_room(6) || !served(6)) broken("law 5: put and get fail after faults stopped");
}

// Law 1 holds under a second fault as well, and law 4 after each of its operations.
inline void StoreScenario::run_again() {
  open();
  for (int number = 0; number < kSegments; ++number) get(number);
  put_with_room(0);
  put_with_room(6);
  save_index();
  remove(1);
  get(0);
}

inline std::size_t StoreScenario::published() const {
  const auto paths = files_.paths();
  return static_cast<std::size_t>(std::ranges::count_if(paths, [&](const std::string& path) {
    return directory_of(path) == layout_.own && is_segment_name(path.substr(layout_.own.size() + 1));
  }));
}

inline void StoreScenario::check_recovered(std::size_t published_before) {
  const auto recovered = store_->take_recovered();
  for (const StoredSegment& found : recovered) {
    const auto same = [&](const SampleSegment& segment) { return segment.header.name == found.header.name; };
    const auto known = std::ranges::find_if(segments(), same);
    if (known == segments().end()) broken("law 1: a segment nobody put was recovered");
  }
  if (!fault_.only_kills() || planted_) return;
  if (store_->counters().damaged > 0) broken("law 3: half a file under a final name after a kill");
  if (recovered.size() != published_before) broken("law 3: a renamed file is lost after a kill");
}

inline void StoreScenario::recover() {
  check_budget();
  const std::size_t published_before = published();
  open();
  if (!store_) return broken("law 2: cannot be opened");
  check_recovered(published_before);
  check_promises("after the first end", true);
  for (const int number : {0, 1, 2}) {
    if (!put_with_room(number) || !served(number)) broken("law 5: put and get fail in the next process");
  }
  files_.power_cut();
  store_.reset();
  open();
  if (!store_) return broken("law 2: cannot be opened a second time");
  check_promises("after the second end", true);
}

}  // namespace kvkeep::store
