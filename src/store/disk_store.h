#pragma once

// The disk tier: immutable segment files of one fingerprint in one directory.
//
// Mechanism only: it does not know why a segment is stored or removed; the cache asks policy and calls. A file is
// written once: temp name, bytes, rename, sync of file, sync of directory. After the rename process death loses
// nothing; after put() returned ok a power cut loses nothing. Damaged files are set aside (quarantine/), never served.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/hash.h"
#include "base/result.h"
#include "format/segment_file.h"
#include "os/clock.h"
#include "os/file_system.h"

namespace kvkeep::store {

struct DiskOptions {
  std::string directory;        // the cache's root; files lie in <directory>/<fingerprint hex>/
  FingerprintHash fingerprint;
  ByteCount budget;             // physical bytes of the whole root, quarantine included
  bool use_saved_index = true;  // a saved index makes opening faster; it never decides what a file holds
};

// A segment found on disk at open.
struct StoredSegment {
  format::SegmentHeader header;
  ByteCount physical_bytes;
  std::int64_t modified_ns = 0;
};

struct PartBytes {
  format::PartKind kind = format::PartKind::kRows;
  ByteSpan bytes;
};

struct DiskCounters {
  std::uint64_t puts = 0;
  std::uint64_t put_failures = 0;
  std::uint64_t gets = 0;
  std::uint64_t damaged = 0;       // files set aside
  std::uint64_t foreign = 0;       // names that are not ours, left alone and not counted on
  std::uint64_t payload_bytes_written = 0;
  std::uint64_t removed = 0;
  std::uint64_t remove_failures = 0;
};

// Thread safe: calls may come from the I/O executor and from others; puts and removes are serialised inside.
class DiskStore {
 public:
  // Makes the directory, takes its lock (kBusy: another server has it), sweeps temp files, reads every header.
  // Files that cannot be read are counted and set aside; content never makes open fail.
  static Result<std::unique_ptr<DiskStore>> open(DiskOptions options, os::FileSystem& files, os::Clock& clock);
  ~DiskStore();

  // What open found, by ascending begin; empties the list.
  std::vector<StoredSegment> take_recovered();

  // Writes one segment durably. kNoSpace: would exceed the budget (make room with remove() and call again) or the
  // disk is full. A name that is already stored is ok without writing. After any failure nothing of the file remains
  // counted unless its unlink failed too, in which case its bytes stay counted.
  Status put(const format::SegmentHeader& header, const std::vector<PartBytes>& parts);

  // Reads one part into `out` (size as in the header) and verifies header, tokens and sum against `expected`.
  // kDamaged: the file was set aside. kNotFound: no such file. `out` is unspecified after an error.
  Status get(const format::SegmentHeader& expected, format::PartKind kind, MutableByteSpan out);

  // Unlinks. On kIo the bytes stay counted; call again later.
  Status remove(const format::SegmentName& name);

  // Recency: sets the file's modification time to now. Failures are ignored (order only).
  void touch(const format::SegmentName& name);

  // Writes the saved index (advisory). Called when idle and at shutdown.
  void save_index();

  ByteCount used() const;    // physical bytes counted against the budget
  ByteCount budget() const;
  DiskCounters counters() const;

 private:
  class Impl;
  explicit DiskStore(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace kvkeep::store
