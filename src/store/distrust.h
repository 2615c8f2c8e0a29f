#pragma once

// The note in a model's directory that says: sums are right there, and what they cover is wrong. Nothing of that
// directory may be used until somebody removes the note, or all of it.

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "os/file_system.h"

namespace kvkeep::store {

inline constexpr std::size_t kMostDistrustBytes = 1024;

// Leaves the note in `directory`, which must be there, durably. `why` is one line, cut where it is too long.
Status write_distrust(os::FileSystem& files, const std::string& directory, std::string_view why);

// What the note says, of characters that can be printed; nullopt: there is none. A note that cannot be read is one.
std::optional<std::string> read_distrust(os::FileSystem& files, const std::string& directory);
// The same, but kIo where the device does not say whether there is one: for who asks again.
Result<std::optional<std::string>> find_distrust(os::FileSystem& files, const std::string& directory);

}  // namespace kvkeep::store
