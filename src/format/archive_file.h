#pragma once

// Bytes <-> the frame of an archive: segment files of one or more fingerprints, one after another, for carrying
// prefixes from one cache directory to another (docs/format.md). The files tell themselves what they are; there are no
// names in an archive that could be taken for paths.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/result.h"
#include "base/types.h"

namespace kvkeep::format {

inline constexpr std::size_t kArchiveHeadBytes = 16;
inline constexpr std::size_t kArchiveEntryBytes = 8;  // before each file: its size; 0: the end follows
inline constexpr std::size_t kArchiveEndBytes = 8;    // behind the size 0: how many files there were
inline constexpr std::size_t kMaxArchiveFiles = 200'000;
inline constexpr std::size_t kMaxArchiveModels = 256;  // fingerprints: each becomes a directory

std::vector<std::byte> encode_archive_head();
std::vector<std::byte> encode_archive_number(std::uint64_t number);
// kInvalid: not an archive, or of a version that is not known.
Status check_archive_head(ByteSpan bytes);
// Precondition: kArchiveEntryBytes bytes.
std::uint64_t decode_archive_number(ByteSpan bytes);

}  // namespace kvkeep::format
