#pragma once

// The cache's tiers from the command line: where the disk tier lies, how much each may take, and what happens if the
// directory cannot be used (named: an error; the default one: a warning, and serving goes on without disk).

#include <memory>
#include <string>

#include "base/result.h"
#include "os/clock.h"
#include "os/file_system.h"
#include "serve_options.h"
#include "store/disk_store.h"

namespace kvkeep::cli {

// Warns where it is more than there is. --cache-ram, or a quarter of available memory, at most 8 GiB.
ByteCount ram_budget(const TierOptions& options);

// --kv-disk-dir, or kvkeep in the user's cache home. kUnsupported: there is none.
Result<std::string> disk_directory(const TierOptions& options);
// --kv-disk-space-mb, or a tenth of the free space, 1 to 64 GiB.
ByteCount disk_budget(const TierOptions& options, ByteCount free_space);
// --kv-disk-reserve-mb, or a hundredth of the file system, at most 1 GiB.
ByteCount disk_reserve(const TierOptions& options, ByteCount total_space);
// Of sampled turns that are remembered, in bytes. Their file has a place of its own within the budget, four times that.
ByteCount memory_for_turns(ByteCount budget);

// What open_disk_tier() would say of a directory that was named, before minutes go into loading a model: makes it and
// tries its lock, which is free again on return. Other servers may use it.
Status check_disk_directory(const TierOptions& options, os::FileSystem& files);

struct DiskTier {
  std::unique_ptr<store::DiskStore> store;  // null: no disk tier, and why was logged
  ByteCount budget = {};                    // disk_budget(): the store's own, and the room for sampled turns
  // An audit found that what is stored there is wrong: nothing of it may be used, nor anything be stored anywhere,
  // until somebody looked into it. `store` is null.
  bool distrusted = false;
  std::string directory = {};  // empty: no disk tier
};
Result<DiskTier> open_disk_tier(const TierOptions& options, const FingerprintHash& fingerprint, os::FileSystem& files,
                                os::Clock& clock);

}  // namespace kvkeep::cli
