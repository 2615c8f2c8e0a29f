#pragma once

// What users name: where things lie behind links, where their cache is, and who may change them.

#include <cstdint>
#include <string>

#include "base/result.h"

namespace kvkeep::os {

// The user's cache home: $XDG_CACHE_HOME if absolute, else $HOME/.cache. kUnsupported: neither is set; name a
// directory instead.
Result<std::string> user_cache_home();

// The absolute path behind all links: what a user names may be a link (download caches are made of them), while
// FileSystem::open follows none. kNotFound: nothing is there.
Result<std::string> resolve_links(const std::string& path);

// Who may do what with a file or directory: the low twelve bits of its mode, such as 0700. Links are followed.
Result<std::uint32_t> permissions(const std::string& path);

// The number of the user who owns it. Links are followed.
Result<std::uint32_t> owner(const std::string& path);

// Whether this process's user owns it. For root, too, who may read and write what is anybody's: another user could have
// put there what root then believes, and would lose what root's files take the place of. Links are followed.
Result<bool> is_own(const std::string& path);

// As is_own(), or root's, who may do everything anyway: a place to write to.
Result<bool> is_trusted(const std::string& path);
bool is_trusted_owner(std::uint32_t owner, std::uint32_t self);

inline constexpr std::uint32_t kOthersMayRead = 0044;   // the group or everybody
inline constexpr std::uint32_t kOthersMayWrite = 0022;  // likewise
inline constexpr std::uint32_t kSticky = 01000;         // as /tmp: a place that is shared on purpose

}  // namespace kvkeep::os
