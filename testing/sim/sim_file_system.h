#pragma once

// A disk in memory that distinguishes *seen* state (survives the death of the process) from *durable* state (survives a
// power cut), and that fails on demand. docs/fault-model.md explains the model.
//
// Every call of os::FileSystem and os::File is one operation; operations are counted from 1. A fault plan names the
// operation that goes wrong (fault_plan.h). After a crash every call fails without effect, so that code under test runs
// to its end without exceptions; then power_cut() or kill() makes the disk usable again, with what survived.
//
// Two processes may use the disk at once: the test's own, to which faults and kill() apply, and a bystander
// (sim_bystander.h), whose operations always work and are not counted. Each has its handles and its locks.
//
// The seed chooses the unsynced state that survives a power cut: each unsynced name change of a directory survives or
// not, independently; of each file's unsynced bytes a prefix or some 512-byte sectors survive.

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "os/file_system.h"
#include "testing/sim/fault_plan.h"
#include "testing/sim/sim_clock.h"

namespace kvkeep::sim {

// Lies that a disk may tell, and mistakes of the code above as the disk sees them: the laws must catch each.
struct Lies {
  bool drop_file_sync = false;       // sync() does nothing and returns ok
  bool drop_directory_sync = false;  // the same for directories
  bool hide_append_errors = false;
  bool hide_sync_errors = false;
  bool write_in_place = false;  // a temporary file is created under the name that it will be renamed to
};

// How long operations take; those on bytes take extra time per byte.
struct Pace {
  std::int64_t operation_ns = 0;
  std::int64_t byte_ns = 0;
};

// Not thread safe.
class SimFileSystem final : public os::FileSystem {
 public:
  explicit SimFileSystem(std::uint64_t seed = 0);
  ~SimFileSystem() override;

  // ---- What tests do to it ----
  void set_plan(FaultPlan plan) { faults_.set_plan(plan); }  // counts operations from 1 again
  void set_lies(Lies lies) { lies_ = lies; }
  // From now on operations take time, which passes on `clock`; a stalled one takes an hour. The clock must outlive
  // this.
  void set_pace(SimClock& clock, Pace pace);
  bool fault_fired() const { return faults_.fired(); }
  bool crashed() const { return faults_.crashed(); }
  bool all_fails() const { return faults_.all_fails(); }  // after the fault every operation fails
  void heal();                                            // faults stop
  std::uint64_t operations() const { return faults_.operations(); }
  // From now on this much more fits on the disk, as physical_bytes() counts, until heal().
  void set_free(ByteCount free) { capacity_ = physical_bytes() + free.value(); }
  // Called after each operation, with the disk as it is then. Must not call operations of the file system.
  void set_observer(std::function<void()> observer) { observer_ = std::move(observer); }
  // Called before each operation of the process under test: the bystander's chance to act in between.
  void set_interruption(std::function<void()> interruption) { interruption_ = std::move(interruption); }
  // The process dies; all that it wrote is still seen. Its locks are gone.
  void kill();
  // The machine loses power: durable state survives, and some of the rest.
  void power_cut();

  // ---- Reads and changes by tests, which are no operations ----
  // The bytes of all files that do not lie below `except`, as os::physical_size counts them.
  std::uint64_t physical_bytes(const std::string& except = "") const;
  std::vector<std::string> paths() const;
  std::optional<std::vector<std::byte>> contents(const std::string& path) const;
  std::optional<ByteCount> seen_size(const std::string& path) const;
  void plant(const std::string& path, std::vector<std::byte> bytes);  // durable at once
  // Returns the files whose bytes a fault changed, or of which a read was cut short, since the last call.
  std::vector<std::string> take_spoiled() { return std::exchange(spoiled_, {}); }
  // rm -rf by another program. Files that the process holds open stay open.
  void remove_tree(const std::string& directory);
  // A listing during a rename may miss the name: from now on lists lack files whose names end so; "": lack all.
  void miss_in_lists(std::string suffix) { missed_ = std::move(suffix); }
  // The name that the next created file will be renamed to (for Lies::write_in_place).
  void expect_publish_as(std::string path) { publish_as_ = std::move(path); }

  // ---- os::FileSystem ----
  Result<std::unique_ptr<os::File>> create(const std::string& path) override;
  Result<std::unique_ptr<os::File>> open(const std::string& path) override;
  Status rename(const std::string& from, const std::string& to) override;
  Status remove(const std::string& path) override;
  Status make_directories(const std::string& path) override;
  Result<std::vector<os::FileInfo>> list(const std::string& directory) override;
  Status sync_directory(const std::string& directory) override;
  Status set_modified(const std::string& path, std::int64_t modified_ns) override;
  Result<std::unique_ptr<os::FileLock>> lock(const std::string& path) override { return lock_file(path, false); }
  Result<std::unique_ptr<os::FileLock>> lock_shared(const std::string& path) override { return lock_file(path, true); }
  Result<os::Space> space(const std::string& path) override;

 private:
  friend class SimFile;
  friend class SimFileLock;
  friend class SimBystander;
  friend class ActingProcess;

  struct Inode {
    std::vector<std::byte> seen;
    std::vector<std::byte> durable;
    bool sync_failed = false;  // as on Linux: pages that a failed sync lost are not written by a later one
    std::int64_t modified_ns = 0;
  };
  using InodePointer = std::shared_ptr<Inode>;
  using Names = std::map<std::string, InodePointer>;  // by path

  // One change of names that is not durable yet.
  struct Change {
    std::string removed;  // path, or empty
    std::string added;    // path, or empty
    InodePointer inode;   // of `added`
  };

  using Outcome = FaultInjector::Outcome;
  // Counts an operation, lets its time pass and returns how it ends.
  Outcome begin_operation(Operation operation, std::size_t bytes = 0);
  // Returns true if this many more bytes fit on a disk that may be full.
  bool fits(std::uint64_t more_bytes) const;
  std::size_t bytes_that_fit(const Inode& inode, std::size_t count) const;
  Error failed(Outcome outcome, const char* operation) const;
  void after_operation() const;
  // A dying operation may or may not have taken effect.
  bool takes_effect(Outcome outcome);
  Status remove_directory(const std::string& path, Outcome outcome);
  Result<std::unique_ptr<os::FileLock>> lock_file(const std::string& path, bool shares);
  Status change_names(const char* operation, Change change, Outcome outcome);
  static void apply(const Change& change, Names& names);
  void tear(Inode& inode);
  std::string resolve(const std::string& path) const;
  bool directory_exists(const std::string& path) const { return directories_.contains(path); }

  Result<std::size_t> read(Inode& inode, std::uint64_t offset, MutableByteSpan out);
  // Changes bytes; returns how many of `count` the read returns.
  std::size_t spoil(Inode& inode, std::size_t begin, std::size_t count);
  Status append(Inode& inode, ByteSpan bytes);
  Status sync(Inode& inode);
  Result<ByteCount> size(const Inode& inode);

  std::mt19937_64 random_;
  FaultInjector faults_;
  Lies lies_;
  SimClock* clock_ = nullptr;
  Pace pace_;
  std::optional<std::uint64_t> capacity_;  // of a full disk, in physical bytes
  std::vector<std::string> spoiled_;
  std::function<void()> observer_;
  std::string publish_as_;
  std::string missed_;
  std::map<std::string, std::string> in_place_;  // temporary name -> the name that is written
  Names seen_;
  Names durable_;
  std::vector<Change> unsynced_;  // in order
  std::set<std::string> directories_;
  // By process: 0 is the one under test, 1 the bystander.
  void end_process(std::size_t process);
  std::size_t acting_ = 0;
  std::array<std::uint64_t, 2> boots_ = {};  // handles and locks of an earlier process are dead
  struct Holder {
    std::size_t process = 0;
    bool shares = false;
    bool operator==(const Holder&) const = default;
  };
  std::multimap<InodePointer, Holder> locked_;
  std::function<void()> interruption_;
  std::int64_t tick_ns_ = 1'600'000'000'000'000'000;
};

// The process whose operation runs, for the time of one operation. For the room's own classes.
class ActingProcess {
 public:
  ActingProcess(SimFileSystem& files, std::size_t process)
      : files_(files), before_(std::exchange(files.acting_, process)) {}
  ~ActingProcess() { files_.acting_ = before_; }
  ActingProcess(const ActingProcess&) = delete;
  ActingProcess& operator=(const ActingProcess&) = delete;

 private:
  SimFileSystem& files_;
  const std::size_t before_;
};

}  // namespace kvkeep::sim
