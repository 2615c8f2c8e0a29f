#pragma once

// Reading and writing the bytes of one segment file.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "format/segment_file.h"
#include "os/file_system.h"
#include "store/disk_types.h"

namespace kvkeep::store {

// The header that a file of these parts gets: sizes and sums computed. kInvalid as for DiskStore::put.
Result<format::SegmentHeader> complete_header(const format::SegmentHeader& header, const std::vector<PartBytes>& parts);

// Appends header and payload, straight from where the parts lie.
Status write_segment(os::File& file, ByteSpan header, const std::vector<PartBytes>& parts);

// Fails with kDamaged if the file is not a whole segment of `fingerprint` under its own name; kUnsupported if it is of
// a later version; kIo if the device refused.
Result<format::SegmentHeader> read_header(os::FileSystem& files, const std::string& directory, const os::FileInfo& info,
                                          const FingerprintHash& fingerprint);

// Returns the header of a file, whatever its name, size and fingerprint. Fails with kDamaged if there is none.
Result<format::SegmentHeader> read_any_header(os::FileSystem& files, const std::string& path);

// A file that was read whole.
struct CheckedSegment {
  format::SegmentHeader header;
  ByteCount read;
  std::optional<PrefixHash> base_hash;  // of the state that its state is built on
};

// Reads all of a file: header as read_header(), and every part against its sum. kDamaged as there. The size is the
// opened file's own, so that a file which is replaced meanwhile is whole before and after.
Result<CheckedSegment> check_segment(os::FileSystem& files, const std::string& directory, const std::string& name,
                                     const FingerprintHash& fingerprint);

// The same for an opened file, or for a part of one, of `size` bytes, whatever its name and fingerprint.
Result<CheckedSegment> check_segment_file(os::File& file, ByteCount size);

// As DiskStore::get, without side effects.
Status read_part(os::FileSystem& files, const std::string& path, const format::SegmentHeader& expected,
                 format::PartKind kind, MutableByteSpan out);

}  // namespace kvkeep::store
