#pragma once

// Puts whole files into the own directory, in the order that keeps docs/fault-model.md's laws: bytes are counted before
// they are written, under a temporary name; a name is durable when file and directory were synced; a failed sync is
// final for its file.

#include <memory>
#include <string>
#include <vector>

#include "store/disk_types.h"
#include "store/inventory.h"
#include "store/layout.h"
#include "store/served_files.h"
#include "store/space_ledger.h"
#include "store/write_limits.h"

namespace kvkeep::store {

// A segment that is to be written.
struct Draft {
  std::string file_name;
  ServedFile file;
  const std::vector<PartBytes>& parts;
};

// Not thread safe: its calls are made under the store's write lock.
//
// The caller has reserved the bytes of every file in the ledger; after a failure nothing of the file remains counted
// unless its unlink failed too. Fails with kNotFound if the directory is gone.
class Publisher {
 public:
  Publisher(const Place& place, SpaceLedger& ledger, Syncs& syncs, ServedFiles& served, Inventory& inventory,
            WriteBudget& writes, DiskCounting& counting);

  // `owner` is the id of this server: the names of temporary files begin with it, so that no other server sweeps them.
  //
  // For a new name: renamed before the syncs, so that from then on the death of the process loses nothing.
  Status publish(const Draft& draft, const std::string& owner);
  // Over a file that may be durable, or that another server may put there at any time: synced before the rename. After
  // a failure one of the two files is there.
  Status publish_over(const Draft& draft, const std::string& owner);
  // The saved index: advice, not synced.
  Status replace_index(ByteSpan bytes, const std::string& owner);

 private:
  std::string temporary_path(const std::string& owner);
  Result<std::unique_ptr<os::File>> write_temporary(const std::string& path, ByteSpan header,
                                                    const std::vector<PartBytes>& parts, ByteCount reserved);
  Result<std::unique_ptr<os::File>> write_draft(const Draft& draft, const std::string& temporary);

  const Place& place_;
  SpaceLedger& ledger_;
  Syncs& syncs_;
  ServedFiles& served_;
  Inventory& inventory_;
  WriteBudget& writes_;
  DiskCounting& counting_;
  std::uint64_t temporaries_made_ = 0;
};

}  // namespace kvkeep::store
