#pragma once

// Small files beside segments: how any of them is read and replaced, and the note in a model's directory that says:
// sums are right there, and what they cover is wrong. Nothing of that directory may be used until somebody removes the
// note, or all of it.

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "os/file_system.h"

namespace kvkeep::store {

// The first `most` bytes of a file.
Result<std::string> read_start(os::FileSystem& files, const std::string& path, std::size_t most);

enum class Syncing { kNone, kDurable };
// Puts `text` in the place of what lies at `path`, as a whole, through a temporary file next to it.
Status replace_small_file(os::FileSystem& files, const std::string& path, std::string_view text,
                          Syncing syncing = Syncing::kNone);

inline constexpr std::size_t kMostDistrustBytes = 1024;

// Leaves the note in `directory`, which must be there, durably. `why` is one line, cut where it is too long.
Status write_distrust(os::FileSystem& files, const std::string& directory, std::string_view why);

// What the note says, of characters that can be printed; nullopt: there is none. A note that cannot be read is one.
std::optional<std::string> read_distrust(os::FileSystem& files, const std::string& directory);
// The same, but kIo where the device does not say whether there is one: for who asks again.
Result<std::optional<std::string>> find_distrust(os::FileSystem& files, const std::string& directory);

}  // namespace kvkeep::store
