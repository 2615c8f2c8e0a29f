#include "testing/sim/sim_file_system.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace kvkeep::sim {
namespace {

constexpr std::size_t kSectorBytes = 512;
constexpr std::size_t kBlockBytes = 4096;
constexpr std::int64_t kStallNs = 3'600'000'000'000;

std::string parent_of(const std::string& path) {
  const std::size_t slash = path.find_last_of('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

// Not operator==, which compares std::byte one by one and took most of the loop's time.
bool same_bytes(ByteSpan a, ByteSpan b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0);
}

std::string last_of(const std::string& path) { return path.substr(path.find_last_of('/') + 1); }

}  // namespace

// Handles that outlive their process fail, and are not counted.
class SimFile final : public os::File {
 public:
  SimFile(SimFileSystem& files, SimFileSystem::InodePointer inode)
      : files_(files), inode_(std::move(inode)), process_(files.acting_), boot_(files.boots_[process_]) {}
  Result<std::size_t> read_at(std::uint64_t offset, MutableByteSpan out) override {
    if (dead()) return io_error("file of a dead process");
    const ActingProcess acting(files_, process_);
    return files_.read(*inode_, offset, out);
  }
  Status append(ByteSpan bytes) override {
    if (dead()) return io_error("file of a dead process");
    const ActingProcess acting(files_, process_);
    return files_.append(*inode_, bytes);
  }
  Status sync() override {
    if (dead()) return io_error("file of a dead process");
    const ActingProcess acting(files_, process_);
    return files_.sync(*inode_);
  }
  Result<ByteCount> size() override {
    if (dead()) return io_error("file of a dead process");
    const ActingProcess acting(files_, process_);
    return files_.size(*inode_);
  }

 private:
  bool dead() const { return boot_ != files_.boots_[process_]; }
  SimFileSystem& files_;
  const SimFileSystem::InodePointer inode_;
  const std::size_t process_;
  const std::uint64_t boot_;
};

class SimFileLock final : public os::FileLock {
 public:
  SimFileLock(SimFileSystem& files, std::string path, SimFileSystem::InodePointer inode, SimFileSystem::Holder holder)
      : files_(files),
        path_(std::move(path)),
        inode_(std::move(inode)),
        holder_(holder),
        boot_(files.boots_[holder.process]) {}
  ~SimFileLock() override {
    if (boot_ != files_.boots_[holder_.process]) return;
    const auto [first, last] = files_.locked_.equal_range(inode_);
    files_.locked_.erase(std::find_if(first, last, [&](const auto& lock) { return lock.second == holder_; }));
  }
  bool in_place() override {
    const auto named = files_.seen_.find(path_);
    return named != files_.seen_.end() && named->second == inode_;
  }

 private:
  SimFileSystem& files_;
  const std::string path_;
  const SimFileSystem::InodePointer inode_;
  const SimFileSystem::Holder holder_;
  const std::uint64_t boot_;
};

SimFileSystem::SimFileSystem(std::uint64_t seed) : random_(seed) {}
SimFileSystem::~SimFileSystem() = default;

// ---- Faults ----

void SimFileSystem::heal() {
  faults_.heal();
  capacity_.reset();
}

void SimFileSystem::set_pace(SimClock& clock, Pace pace) {
  clock_ = &clock;
  pace_ = pace;
}

void SimFileSystem::end_process(std::size_t process) {
  ++boots_[process];
  std::erase_if(locked_, [&](const auto& lock) { return lock.second.process == process; });
}

void SimFileSystem::kill() {
  end_process(0);
  in_place_.clear();
  faults_.revive();
}

void SimFileSystem::power_cut() {
  kill();
  end_process(1);
  for (const Change& change : unsynced_) {
    if (random_() % 2 == 0) apply(change, durable_);
  }
  unsynced_.clear();
  for (auto& [path, inode] : durable_) tear(*inode);
  seen_ = durable_;
}

// Keeps some of the bytes that no sync reached: none, a prefix, some sectors, or all.
void SimFileSystem::tear(Inode& inode) {
  if (!same_bytes(inode.durable, inode.seen)) {
    std::vector<std::byte> survived = inode.seen;
    const std::size_t synced = inode.durable.size();
    switch (random_() % 4) {
      case 0: survived = inode.durable; break;
      case 1: survived.resize(synced + random_() % (inode.seen.size() - synced + 1)); break;
      case 2:
        for (std::size_t at = synced; at < survived.size(); at += kSectorBytes) {
          if (random_() % 2 == 0) continue;
          std::fill_n(survived.begin() + static_cast<std::ptrdiff_t>(at), std::min(kSectorBytes, survived.size() - at),
                      std::byte{0});
        }
        break;
      default: break;
    }
    inode.seen = inode.durable = std::move(survived);
  }
  inode.sync_failed = false;
}

SimFileSystem::Outcome SimFileSystem::begin_operation(Operation operation, std::size_t bytes) {
  if (acting_ != 0) return Outcome::kWorks;
  if (interruption_) interruption_();
  const Outcome outcome = faults_.next(operation);
  if (clock_ != nullptr) {
    const bool stalls = outcome == Outcome::kStalls;
    clock_->advance_ns(pace_.operation_ns + pace_.byte_ns * static_cast<std::int64_t>(bytes) + (stalls ? kStallNs : 0));
  }
  if (faults_.disk_full() && !capacity_) capacity_ = physical_bytes();
  return outcome == Outcome::kStalls ? Outcome::kWorks : outcome;
}

bool SimFileSystem::fits(std::uint64_t more_bytes) const {
  return !capacity_ || acting_ != 0 || physical_bytes() + more_bytes <= *capacity_;
}

// Returns how many bytes fit into blocks that the file has, or may still get.
std::size_t SimFileSystem::bytes_that_fit(const Inode& inode, std::size_t count) const {
  if (!capacity_ || acting_ != 0) return count;
  const std::uint64_t own = os::physical_size(ByteCount{inode.seen.size()}).value();
  const std::uint64_t room = *capacity_ - std::min(*capacity_, physical_bytes());
  // One block is the inode's.
  const std::uint64_t most = (own + room) / kBlockBytes * kBlockBytes - kBlockBytes;
  return std::min<std::size_t>(count, most - std::min<std::size_t>(most, inode.seen.size()));
}

Error SimFileSystem::failed(Outcome outcome, const char* operation) const {
  after_operation();
  const bool full = outcome == Outcome::kWorks;
  return {full ? ErrorKind::kNoSpace : faults_.error_kind(),
          std::string(operation) + (outcome == Outcome::kDies ? ": simulated crash" : ": simulated fault")};
}

void SimFileSystem::after_operation() const {
  if (observer_) observer_();
}

bool SimFileSystem::takes_effect(Outcome outcome) {
  if (outcome == Outcome::kDies) return random_() % 2 == 0;
  return outcome == Outcome::kWorks;
}

// ---- Names ----

void SimFileSystem::apply(const Change& change, Names& names) {
  if (!change.removed.empty()) names.erase(change.removed);
  if (!change.added.empty()) names[change.added] = change.inode;
}

Status SimFileSystem::change_names(const char* operation, Change change, Outcome outcome) {
  if (takes_effect(outcome)) {
    apply(change, seen_);
    unsynced_.push_back(std::move(change));
  }
  if (outcome != Outcome::kWorks) return failed(outcome, operation);
  after_operation();
  return {};
}

std::string SimFileSystem::resolve(const std::string& path) const {
  const auto found = in_place_.find(path);
  return found == in_place_.end() ? path : found->second;
}

Result<std::unique_ptr<os::File>> SimFileSystem::create(const std::string& asked) {
  const Outcome outcome = begin_operation(Operation::kCreate);
  if (lies_.write_in_place && outcome == Outcome::kWorks && !publish_as_.empty()) {
    in_place_[asked] = std::exchange(publish_as_, "");
    seen_.erase(in_place_[asked]);
  }
  const std::string path = resolve(asked);
  if (outcome == Outcome::kWorks && !fits(os::physical_size({}).value())) return failed(outcome, "create");
  if (outcome == Outcome::kWorks) {
    if (!directory_exists(parent_of(path))) return not_found("no directory for " + path);
    if (seen_.contains(path)) return invalid("exists: " + path);
  }
  auto inode = std::make_shared<Inode>();
  inode->modified_ns = ++tick_ns_;
  TRY(change_names("create", {"", path, inode}, outcome));
  return std::unique_ptr<os::File>(std::make_unique<SimFile>(*this, inode));
}

Result<std::unique_ptr<os::File>> SimFileSystem::open(const std::string& path) {
  const Outcome outcome = begin_operation(Operation::kOpen);
  if (outcome != Outcome::kWorks) return failed(outcome, "open");
  const auto found = seen_.find(resolve(path));
  if (found == seen_.end()) return not_found("no file " + path);
  return std::unique_ptr<os::File>(std::make_unique<SimFile>(*this, found->second));
}

Status SimFileSystem::rename(const std::string& from, const std::string& to) {
  const Outcome outcome = begin_operation(Operation::kRename);
  if (resolve(from) == to && outcome == Outcome::kWorks) return {};
  const auto found = seen_.find(resolve(from));
  if (found == seen_.end())
    return outcome == Outcome::kWorks ? not_found("no file " + from) : failed(outcome, "rename");
  return change_names("rename", {found->first, to, found->second}, outcome);
}

Status SimFileSystem::remove(const std::string& path) {
  const Outcome outcome = begin_operation(Operation::kRemove);
  const auto found = seen_.find(resolve(path));
  if (found == seen_.end() && directories_.contains(path)) return remove_directory(path, outcome);
  if (found == seen_.end())
    return outcome == Outcome::kWorks ? not_found("no file " + path) : failed(outcome, "remove");
  return change_names("remove", {found->first, "", nullptr}, outcome);
}

// For directories, all that is seen is durable.
Status SimFileSystem::remove_directory(const std::string& path, Outcome outcome) {
  const auto lies_in_it = [&](const std::string& other) { return other.starts_with(path + "/"); };
  const bool empty = std::ranges::none_of(directories_, lies_in_it) &&
                     std::ranges::none_of(seen_, [&](const auto& named) { return lies_in_it(named.first); });
  if (empty && takes_effect(outcome)) directories_.erase(path);
  if (outcome != Outcome::kWorks) return failed(outcome, "remove directory");
  return empty ? Status{} : Status(invalid("not empty: " + path));
}

Status SimFileSystem::make_directories(const std::string& path) {
  const Outcome outcome = begin_operation(Operation::kMakeDirectories);
  if (takes_effect(outcome)) {
    for (std::string at = path; !at.empty() && at != "."; at = parent_of(at)) directories_.insert(at);
  }
  if (outcome != Outcome::kWorks) return failed(outcome, "make directories");
  return {};
}

Result<std::vector<os::FileInfo>> SimFileSystem::list(const std::string& directory) {
  const Outcome outcome = begin_operation(Operation::kList);
  if (outcome != Outcome::kWorks) return failed(outcome, "list");
  if (!directory_exists(directory)) return not_found("no directory " + directory);
  std::vector<os::FileInfo> found;
  const std::string below = directory + "/";  // the paths below it are one run of each ordered list
  const auto lies_here = [&](const std::string& path) { return path.find('/', below.size()) == std::string::npos; };
  for (auto it = directories_.lower_bound(below); it != directories_.end() && it->starts_with(below); ++it) {
    if (lies_here(*it)) found.push_back({.name = last_of(*it), .size = {}, .is_directory = true});
  }
  for (auto it = seen_.lower_bound(below); it != seen_.end() && it->first.starts_with(below); ++it) {
    const auto& [path, inode] = *it;
    if (!lies_here(path) || (!missed_.empty() && path.ends_with(missed_))) continue;
    found.push_back({.name = last_of(path),
                     .size = ByteCount{inode->seen.size()},
                     .modified_ns = inode->modified_ns,
                     .is_regular = true});
  }
  return found;
}

Status SimFileSystem::sync_directory(const std::string& directory) {
  const Outcome outcome = begin_operation(Operation::kSyncDirectory);
  if (lies_.drop_directory_sync) return outcome == Outcome::kWorks ? Status{} : failed(outcome, "sync directory");
  if (takes_effect(outcome)) {
    std::erase_if(unsynced_, [&](const Change& change) {
      const bool touched = (!change.removed.empty() && parent_of(change.removed) == directory) ||
                           (!change.added.empty() && parent_of(change.added) == directory);
      if (touched) apply(change, durable_);
      return touched;
    });
  }
  if (outcome != Outcome::kWorks && !(lies_.hide_sync_errors && !crashed())) return failed(outcome, "sync directory");
  after_operation();
  return {};
}

Status SimFileSystem::set_modified(const std::string& path, std::int64_t modified_ns) {
  const Outcome outcome = begin_operation(Operation::kSetModified);
  if (outcome != Outcome::kWorks) return failed(outcome, "touch");
  const auto found = seen_.find(resolve(path));
  if (found == seen_.end()) return not_found("no file " + path);
  found->second->modified_ns = modified_ns;
  return {};
}

Result<std::unique_ptr<os::FileLock>> SimFileSystem::lock_file(const std::string& path, bool shares) {
  const Outcome outcome = begin_operation(Operation::kLock);
  if (outcome != Outcome::kWorks) return failed(outcome, "lock");
  if (!seen_.contains(path)) {
    if (!directory_exists(parent_of(path))) return not_found("no directory for " + path);
    auto inode = std::make_shared<Inode>();
    inode->modified_ns = ++tick_ns_;
    TRY(change_names("lock", {"", path, inode}, outcome));
  }
  const InodePointer inode = seen_[path];
  const auto [first, last] = locked_.equal_range(inode);
  const bool is_free = std::all_of(first, last, [&](const auto& lock) { return shares && lock.second.shares; });
  if (!is_free) return busy("locked: " + path);
  const Holder holder{.process = acting_, .shares = shares};
  locked_.emplace(inode, holder);
  return std::unique_ptr<os::FileLock>(std::make_unique<SimFileLock>(*this, path, inode, holder));
}

Result<os::Space> SimFileSystem::space(const std::string& /*path*/) {
  const Outcome outcome = begin_operation(Operation::kSpace);
  if (outcome != Outcome::kWorks) return failed(outcome, "space");
  const ByteCount total{capacity_.value_or(physical_bytes() + mebibytes(1024).value())};
  return os::Space{total - std::min(total, ByteCount{physical_bytes()}), total};
}

// ---- Bytes ----

Result<std::size_t> SimFileSystem::read(Inode& inode, std::uint64_t offset, MutableByteSpan out) {
  const std::size_t begin = std::min<std::size_t>(offset, inode.seen.size());
  std::size_t count = std::min(out.size(), inode.seen.size() - begin);
  const Outcome outcome = begin_operation(Operation::kRead, count);
  if (outcome == Outcome::kFails || outcome == Outcome::kDies) return failed(outcome, "read");
  if (outcome == Outcome::kSpoils && count > 0) count = spoil(inode, begin, count);
  if (count > 0) std::memcpy(out.data(), inode.seen.data() + begin, count);
  return count;
}

std::size_t SimFileSystem::spoil(Inode& inode, std::size_t begin, std::size_t count) {
  for (const auto& [path, known] : seen_) {
    if (known.get() == &inode) spoiled_.push_back(path);
  }
  if (faults_.kind() == FaultKind::kShortRead) return random_() % count;
  const std::size_t at = begin + random_() % count;
  const std::byte bit{static_cast<unsigned char>(1U << random_() % 8)};
  inode.seen[at] ^= bit;
  if (at < inode.durable.size()) inode.durable[at] ^= bit;
  return count;
}

// A failing or dying append leaves some of its bytes.
Status SimFileSystem::append(Inode& inode, ByteSpan bytes) {
  const Outcome outcome = begin_operation(Operation::kAppend, bytes.size());
  if (crashed() && outcome == Outcome::kFails) return failed(outcome, "append");
  const std::size_t most = bytes_that_fit(inode, bytes.size());
  const std::size_t reached = outcome == Outcome::kWorks ? most : random_() % (most + 1);
  inode.seen.insert(inode.seen.end(), bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(reached));
  inode.modified_ns = ++tick_ns_;
  const bool whole = outcome == Outcome::kWorks && reached == bytes.size();
  if (!whole && !(lies_.hide_append_errors && !crashed())) return failed(outcome, "append");
  after_operation();
  return {};
}

Status SimFileSystem::sync(Inode& inode) {
  const Outcome outcome = begin_operation(Operation::kSync);
  if (lies_.drop_file_sync) return outcome == Outcome::kWorks ? Status{} : failed(outcome, "sync");
  if (outcome == Outcome::kFails && !crashed()) inode.sync_failed = true;
  if (takes_effect(outcome) && !inode.sync_failed) inode.durable = inode.seen;
  if (outcome != Outcome::kWorks && !(lies_.hide_sync_errors && !crashed())) return failed(outcome, "sync");
  after_operation();
  return {};
}

Result<ByteCount> SimFileSystem::size(const Inode& inode) {
  const Outcome outcome = begin_operation(Operation::kSize);
  if (outcome != Outcome::kWorks) return failed(outcome, "size");
  return ByteCount{inode.seen.size()};
}

}  // namespace kvkeep::sim
