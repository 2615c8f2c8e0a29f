#pragma once

// Bytes <-> the frame of an archive: segment files of one or more fingerprints, one after another, for carrying
// prefixes from one cache directory to another (docs/format.md). Each file's header says what it is; an archive
// has no names that could be taken for paths.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/hash.h"
#include "base/result.h"
#include "base/types.h"

namespace kvkeep::format {

inline constexpr std::size_t kArchiveHeadBytes = 16;
inline constexpr std::size_t kArchiveEntryBytes = 8;  // before each file: its size; 0: the end follows
inline constexpr std::size_t kArchiveEndBytes = 8;    // after the size 0: how many files there were
inline constexpr std::size_t kMaxArchiveFiles = 200'000;
inline constexpr std::size_t kMaxArchiveModels = 256;  // fingerprints: each becomes a directory
inline constexpr std::size_t kMaxArchiveNoteBytes = 12 << 10;

// Text for people that an archive has about a fingerprint of its files.
struct ArchiveNote {
  FingerprintHash fingerprint;
  std::string text;
  bool operator==(const ArchiveNote&) const = default;
};

// An archive without notes is of version 1, which former programs read as well.
std::vector<std::byte> encode_archive_head(bool with_notes = false);
std::vector<std::byte> encode_archive_number(std::uint64_t number);
// Returns true if notes follow the files. Fails with kInvalid if this is no archive, or one of an unknown version.
Result<bool> check_archive_head(ByteSpan bytes);
// The part after the number of files, if the head says so. Precondition: at most kMaxArchiveModels notes, each of at
// most kMaxArchiveNoteBytes.
std::vector<std::byte> encode_archive_notes(const std::vector<ArchiveNote>& notes);
inline constexpr std::size_t kMaxArchiveNotesBytes = kMaxArchiveModels * (kMaxArchiveNoteBytes + 64) + 64;
// Precondition: all that is left of the archive. Fails with kInvalid if it holds anything else than notes and their
// sum.
Result<std::vector<ArchiveNote>> decode_archive_notes(ByteSpan bytes);
// Precondition: kArchiveEntryBytes bytes.
std::uint64_t decode_archive_number(ByteSpan bytes);

}  // namespace kvkeep::format
