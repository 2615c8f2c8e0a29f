#pragma once

// Which operation of a simulated disk goes wrong, and how.

#include <cstdint>
#include <initializer_list>

#include "base/result.h"

namespace kvkeep::sim {

// The calls of os::FileSystem and os::File.
enum class Operation : std::uint8_t {
  kCreate,
  kOpen,
  kRename,
  kRemove,
  kMakeDirectories,
  kList,
  kSyncDirectory,
  kSetModified,
  kLock,
  kSpace,
  kRead,
  kAppend,
  kSync,
  kSize,
};

// What a fault is aimed at.
class Operations {
 public:
  constexpr Operations(std::initializer_list<Operation> aimed) {
    for (const Operation operation : aimed) bits_ |= 1U << static_cast<unsigned>(operation);
  }
  static constexpr Operations all() {
    Operations any{};
    any.bits_ = ~0U;
    return any;
  }
  constexpr bool contains(Operation operation) const { return (bits_ >> static_cast<unsigned>(operation) & 1U) != 0; }

 private:
  std::uint32_t bits_ = 0;
};

// What needs space on the disk. (Making a directory or a lock does as well, but only once in a directory's life.)
inline constexpr Operations kGrowing{Operation::kCreate, Operation::kAppend, Operation::kRename};
inline constexpr Operations kSyncs{Operation::kSync, Operation::kSyncDirectory};

enum class FaultKind {
  kNone,
  kCrash,        // the process dies in the middle of the operation
  kFailOnce,     // the operation fails
  kFailForever,  // it and all after it that are aimed at fail, until heal()
  kNoSpaceOnce,  // it finds no space. Aimed at kGrowing
  kDiskFull,     // from it on the disk is full, until files are removed or heal(). Aimed at kGrowing
  kShortRead,    // a read gives fewer bytes than are there. Aimed at reads
  kRot,          // a bit of what is read has flipped on the disk. Aimed at reads
  kSlow,         // it takes an hour
};

struct FaultPlan {
  FaultKind kind = FaultKind::kNone;
  std::uint64_t at_operation = 0;  // counted from 1, of those aimed at alone
  Operations of = Operations::all();
};

// Counts operations and says how each ends. Not thread safe.
class FaultInjector {
 public:
  enum class Outcome {
    kWorks,
    kFails,
    kDies,
    kSpoils,  // works, with wrong bytes
    kStalls,  // works, an hour later
  };

  void set_plan(FaultPlan plan);  // operations are counted from 1 again
  void heal() { plan_ = {}; }
  void revive() { crashed_ = false; }
  Outcome next(Operation operation);

  bool fired() const { return fired_; }
  bool crashed() const { return crashed_; }
  bool all_fails() const {
    return fired_ && plan_.kind == FaultKind::kFailForever && plan_.of.contains(Operation::kSize);
  }
  bool disk_full() const { return fired_ && plan_.kind == FaultKind::kDiskFull; }
  FaultKind kind() const { return plan_.kind; }
  std::uint64_t operations() const { return operations_; }
  // What the caller of a failing operation is told.
  ErrorKind error_kind() const;

 private:
  FaultPlan plan_;
  std::uint64_t operations_ = 0;
  std::uint64_t aimed_at_ = 0;
  bool fired_ = false;
  bool crashed_ = false;
};

}  // namespace kvkeep::sim
