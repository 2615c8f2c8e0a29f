#pragma once

// Small files next to segments: how any of them is read and replaced, and the note in a model's directory that says
// that checksums are right there, but the bytes are wrong (servers use nothing of that directory until somebody removes
// the note, or the whole directory); and files of records that grow at their end.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "os/file_system.h"

namespace kvkeep::store {

// The first `most` bytes of a file.
Result<std::string> read_start(os::FileSystem& files, const std::string& path, std::size_t most);

enum class Syncing { kNone, kDurable };
// Replaces the file at `path` by `text`, as a whole, through a temporary file next to it.
Status replace_small_file(os::FileSystem& files, const std::string& path, std::string_view text,
                          Syncing syncing = Syncing::kNone);

inline constexpr std::size_t kMostDistrustBytes = 1024;

// Leaves the note in `directory`, which must be there, durably. `why` is one line, cut if it is too long.
Status write_distrust(os::FileSystem& files, const std::string& directory, std::string_view why);

// Returns the text of the note, in printable characters; nullopt if there is none. A note that cannot be read counts as
// a note.
std::optional<std::string> read_distrust(os::FileSystem& files, const std::string& directory);
// The same, but kIo if the device does not say whether there is a note: for callers that ask again.
Result<std::optional<std::string>> find_distrust(os::FileSystem& files, const std::string& directory);

// A file of records that grows at its end and is rewritten now and then: for small data worth keeping over restarts,
// whose loss costs only time. Nothing is synced: appended records survive the process, and a power cut may cost the
// newest.
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
  // After an error do not use the file any more: its end is unknown. Fails with kInvalid if the record is
  // larger than format::kMaxRecordBytes.
  Status append(ByteSpan payload);
  ByteCount size() const { return size_; }

 private:
  RecordLog(std::unique_ptr<os::File> file, ByteCount size) : file_(std::move(file)), size_(size) {}
  std::unique_ptr<os::File> file_;
  ByteCount size_;
};

}  // namespace kvkeep::store
