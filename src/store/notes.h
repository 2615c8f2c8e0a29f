#pragma once

// Small files next to segments: how any of them is read and replaced, and the note in a model's directory that says
// that checksums are right there, but the bytes are wrong. Servers use nothing of that directory until somebody removes
// the note, or the whole directory.

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
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

// The text of the note, in printable characters; nullopt: there is none. A note that cannot be read counts as a note.
std::optional<std::string> read_distrust(os::FileSystem& files, const std::string& directory);
// The same, but kIo if the device does not say whether there is a note: for callers that ask again.
Result<std::optional<std::string>> find_distrust(os::FileSystem& files, const std::string& directory);

}  // namespace kvkeep::store
