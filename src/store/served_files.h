#pragma once

// The table of the served files: the header of each, and whether this process saw the file become durable.
//
// Its lock is never held while the file system is called, so that lookups do not wait for a disk. A generation tells a
// file from a later one of the same name: a reader that held no lock changes only the entry that it read by.

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "store/directory_scan.h"
#include "store/disk_types.h"
#include "store/layout.h"

namespace kvkeep::store {

struct ServedFile {
  format::SegmentName name;
  std::vector<std::byte> header;  // encoded, for the saved index
  std::uint64_t size_bytes = 0;
  std::int64_t modified_ns = 0;
  bool durable = false;          // this process saw both syncs succeed
  std::uint64_t generation = 0;  // given by the table
  bool suspect = false;          // the device refused to read it once: put() writes it again
  ByteCount physical() const { return os::physical_size(ByteCount{size_bytes}); }
};

// Thread safe.
class ServedFiles {
 public:
  using Table = std::unordered_map<std::string, ServedFile>;  // by file name
  // How a listing differs from the table.
  struct Changes {
    std::vector<ServedFile> gone;   // removed, or replaced by a file of another size
    std::vector<UsedSegment> used;  // with another time
  };

  std::size_t size() const;
  ByteCount physical_bytes() const;
  std::optional<ServedFile> find(const std::string& file_name) const;
  std::optional<std::uint64_t> generation_of(const std::string& file_name) const;
  // Returns true if this process made the segment durable and the device never refused to read it.
  bool has_durable(const format::SegmentName& name) const;

  // Serves a file that this process wrote, in place of one of that name.
  void serve(const std::string& file_name, ServedFile file);
  // Serves files that lie on disk; take_found() reports them.
  void adopt(std::vector<FoundSegment> found);
  // Returns nullopt if another file has the name by now; only removes the entry.
  std::optional<ServedFile> take(const std::string& file_name, std::uint64_t generation);
  void suspect(const std::string& file_name, std::uint64_t generation);
  void set_modified(const std::string& file_name, std::uint64_t generation, std::int64_t time_ns);
  // Follows a listing of the directory: forgets missing files and takes over times.
  Changes compare_with(const std::vector<os::FileInfo>& listed);

  // The segments adopted since the last call, by ascending begin.
  std::vector<StoredSegment> take_found();
  // Empties the table, as before the directory is opened anew.
  Table forget_all();
  // Names of `before` that are not served now. take_found() does not report files that were served before.
  std::vector<format::SegmentName> missing_from(const Table& before);

  // Returns the bytes of a saved index; nullopt if the last one is still right.
  std::optional<std::vector<std::byte>> changed_index();
  // Notes whether the index on disk equals the table.
  void set_index_current(bool current);

 private:
  ServedFile* entry_of(const std::string& file_name, std::uint64_t generation) REQUIRES(mutex_);

  mutable Mutex mutex_;
  Table files_ GUARDED_BY(mutex_);
  std::vector<StoredSegment> found_ GUARDED_BY(mutex_);
  std::uint64_t next_generation_ GUARDED_BY(mutex_) = 1;
  bool index_is_current_ GUARDED_BY(mutex_) = false;
};

}  // namespace kvkeep::store
