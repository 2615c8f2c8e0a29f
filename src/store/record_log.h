#pragma once

// A file of records that grows at its end and is rewritten now and then: for small data worth keeping over restarts,
// whose loss costs only time. Nothing is synced: appended records survive the process, and a power cut may cost the
// newest.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "os/file_system.h"

namespace kvkeep::store {

struct ReadRecords {
  std::vector<std::vector<std::byte>> payloads;  // in the order written
  bool damaged = false;                          // the bytes after them were no record
};
// Empty if the file is missing. Looks only at its first `most` bytes. kIo: the device refused.
Result<ReadRecords> read_records(os::FileSystem& files, const std::string& path, std::uint32_t kind, ByteCount most);

// Not thread safe.
class RecordLog {
 public:
  // Replaces the file at `path` by one with these records, through a temporary file in the same directory.
  static Result<RecordLog> rewrite(os::FileSystem& files, const std::string& path, std::uint32_t kind,
                                   const std::vector<std::vector<std::byte>>& payloads);
  // After an error do not use the file any more: its end is unknown. kInvalid: larger than format::kMaxRecordBytes.
  Status append(ByteSpan payload);
  ByteCount size() const { return size_; }

 private:
  RecordLog(std::unique_ptr<os::File> file, ByteCount size) : file_(std::move(file)), size_(size) {}
  std::unique_ptr<os::File> file_;
  ByteCount size_;
};

}  // namespace kvkeep::store
