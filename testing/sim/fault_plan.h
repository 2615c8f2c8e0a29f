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

// The operations that a fault is aimed at.
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

// Operations that need space on the disk. (So does making a directory or a lock, but only once per directory.)
inline constexpr Operations kGrowing{Operation::kCreate, Operation::kAppend, Operation::kRename};
inline constexpr Operations kSyncs{Operation::kSync, Operation::kSyncDirectory};

enum class FaultKind {
  kNone,
  kCrash,        // the process dies in the middle of the operation
  kFailOnce,     // the operation fails
  kFailForever,  // it and all later ones that are aimed at fail, until heal()
  kNoSpaceOnce,  // it finds no space. For kGrowing
  kDiskFull,     // from then on the disk is full, until files are removed or heal(). For kGrowing
  kShortRead,    // a read returns fewer bytes than are there. For reads
  kRot,          // a bit of the bytes to be read has flipped on the disk. For reads
  kSlow,         // it takes an hour
};

struct FaultPlan {
  FaultKind kind = FaultKind::kNone;
  std::uint64_t at_operation = 0;  // counted from 1, among those aimed at
  Operations of = Operations::all();
};

// Counts operations and decides how each ends. Not thread safe.
class FaultInjector {
 public:
  enum class Outcome {
    kWorks,
    kFails,
    kDies,
    kSpoils,  // works, with wrong bytes
    kStalls,  // works, an hour later
  };

  void set_plan(FaultPlan plan);  // counts operations from 1 again
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
  // The kind of error that the caller of a failing operation gets.
  ErrorKind error_kind() const;

 private:
  FaultPlan plan_;
  std::uint64_t operations_ = 0;
  std::uint64_t aimed_at_ = 0;
  bool fired_ = false;
  bool crashed_ = false;
};

}  // namespace kvkeep::sim
