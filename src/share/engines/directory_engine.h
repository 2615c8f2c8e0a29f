#pragma once

// Objects as files of a directory that several machines see, such as one on a NAS. A file is written under a temporary
// name, synced and renamed, so that readers see whole objects only. The time of a file says when it was last used.
//
// The directory must exist: one that does not is a file system that is not mounted, and making it would fill another.
// The folder "kv1" in it is made at the first contact. If it is gone later, that is trouble and no empty engine.
//
// A directory evicts nothing by itself, so one of the servers does (directory_janitor.h). Where the file system has no
// locks, nothing is evicted.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "os/clock.h"
#include "os/file_system.h"
#include "share/engines/directory_janitor.h"
#include "share/object_engine.h"

namespace kvkeep::share {

struct DirectoryOptions {
  std::string path;
  // Bytes of all objects; without it, half of what the objects and the file system's free space are together: others
  // keep their files there as well.
  std::optional<ByteCount> limit = {};
  // Makes the folder "kv1" at the first contact. Without it, a directory that has none is an empty engine.
  bool makes_folder = true;
};

// Thread safe. The calls of a file system that hangs hang as well: DetachedEngine bounds them.
class DirectoryEngine final : public ObjectEngine {
 public:
  DirectoryEngine(DirectoryOptions options, os::FileSystem& files, os::Clock& clock);

  std::string address() const override { return "dir:" + options_.path; }
  Pace pace() const override;
  NodeId node_of(const ObjectName&) const override { return NodeId{0}; }
  std::size_t nodes() const override { return 1; }
  std::string node_address(NodeId) const override { return address(); }

  std::vector<HeadBytes> heads(const std::vector<ObjectName>& names, std::size_t first_bytes,
                               std::int64_t deadline_ns) override;
  Status get(const ObjectName& name, const PayloadSlice& slice, MutableByteSpan out, const Arrived& arrived,
             const TransferLimits& limits) override;
  Status put(const ObjectName& name, ByteSpan head, ByteSpan payload, std::int64_t ttl_s,
             const TransferLimits& limits) override;
  Result<std::vector<ObjectName>> touch(const std::vector<Touched>& objects, std::int64_t ttl_s,
                                        std::int64_t deadline_ns) override;
  Status remove(const ObjectName& name, std::int64_t deadline_ns) override;
  Result<NamesPage> list(const std::string& space, const std::string& from, std::int64_t deadline_ns) override;
  Status probe(NodeId node, std::int64_t deadline_ns) override;
  Result<EngineFacts> facts(std::int64_t deadline_ns) override;

  // Goes on with a sweep of the janitor.
  void tidy(std::int64_t ttl_s, std::int64_t until_ns) override;

 private:
  std::string folder_of(const ObjectName& name) const;
  std::string path_of(const ObjectName& name) const;
  HeadBytes head(const std::string& path, MutableByteSpan buffer) const;
  Status reach() EXCLUDES(mutex_);
  Error explain_absence(Error error) EXCLUDES(mutex_);
  Result<std::unique_ptr<os::File>> create(const std::string& path, const std::string& folder) EXCLUDES(mutex_);
  bool is_late(std::int64_t deadline_ns) const { return clock_.monotonic_ns() >= deadline_ns; }
  std::optional<std::string> folder_after(const std::string& space, const std::string& from) const;

  const DirectoryOptions options_;
  const std::string root_;
  os::FileSystem& files_;
  os::Clock& clock_;
  const std::string own_;  // names of temporary files end with it
  DirectoryJanitor janitor_;
  Mutex mutex_;
  bool reached_ GUARDED_BY(mutex_) = false;       // the folder was there once
  std::uint64_t written_ GUARDED_BY(mutex_) = 0;  // temporary files
};

}  // namespace kvkeep::share
