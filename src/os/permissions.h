#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace kvkeep::os {

// Who may do what with a file or directory: the low twelve bits of its mode, such as 0700. Links are followed.
Result<std::uint32_t> permissions(const std::string& path);

// Whether this process's user owns it, or may do anything (root). Links are followed.
Result<bool> is_own(const std::string& path);

inline constexpr std::uint32_t kOthersMayWrite = 0022;  // the group or everybody
inline constexpr std::uint32_t kSticky = 01000;         // as /tmp: a place that is shared on purpose

}  // namespace kvkeep::os
