#pragma once

// Bytes <-> structs of the saved index: one file that lists what lay in a directory of segments, so that opening need
// not read ten thousand headers. It is advisory: an entry counts only for a file whose size and time still match, and
// what a file holds is decided by the file when it is read.

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/types.h"
#include "format/segment_file.h"

namespace kvkeep::format {

struct IndexEntry {
  std::string name;  // of the file, without directory; derived from the header
  std::uint64_t size_bytes = 0;
  std::int64_t modified_ns = 0;
  SegmentHeader header;
  ByteSpan encoded;  // the same header, in the bytes of the index
};

inline constexpr std::size_t kMaxIndexEntries = 200'000;
inline constexpr std::uint64_t kMaxIndexBytes = 2ull << 30;

// An entry as it is kept until the index is written: the header already encoded.
struct EncodedIndexEntry {
  std::uint64_t size_bytes = 0;
  std::int64_t modified_ns = 0;
  ByteSpan header;
};

std::vector<std::byte> encode_index(const std::vector<EncodedIndexEntry>& entries);
// kDamaged: the whole index is worthless. kUnsupported: it, or a header in it, is of a later version. Never throws,
// never reads outside.
Result<std::vector<IndexEntry>> decode_index(ByteSpan bytes);

}  // namespace kvkeep::format
