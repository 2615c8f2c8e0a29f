#pragma once

// Makes the sums of a segment file right, so that decoders look at its contents at all.

#include <vector>

#include "format/segment_file.h"
#include "fuzz.h"

namespace kvkeep::fuzz {

// Where docs/format.md has the fields.
inline constexpr std::size_t kHeaderSizeAt = 12;
inline constexpr std::size_t kPartCountAt = 124;
inline constexpr std::size_t kPayloadSizeAt = 128;
inline constexpr std::size_t kTailSumAt = 136;
inline constexpr std::size_t kFixedSumAt = 240;

// The header's own sums and its length; `bytes` that are too short for a header stay as they are.
inline void fix_header(MutableByteSpan bytes) {
  if (bytes.size() < format::kFixedHeaderBytes) return;
  const auto tokens = format::load_little_endian<std::uint32_t>(bytes.data() + kPartCountAt - 4);
  const auto parts = format::load_little_endian<std::uint32_t>(bytes.data() + kPartCountAt);
  if (tokens > format::kMaxSegmentTokens || parts > format::kMaxSegmentParts) return;
  const std::size_t size = format::encoded_header_size(parts, tokens);
  if (size > bytes.size()) return;
  format::store_little_endian(static_cast<std::uint32_t>(size), bytes.data() + kHeaderSizeAt);
  std::uint64_t payload = 0;
  for (std::uint32_t i = 0; i < parts; ++i) {
    payload += format::load_little_endian<std::uint64_t>(bytes.data() + format::kFixedHeaderBytes +
                                                         i * format::kPartEntryBytes + 8);
  }
  format::store_little_endian(payload, bytes.data() + kPayloadSizeAt);
  put_sum(bytes, kTailSumAt, bytes.subspan(format::kFixedHeaderBytes, size - format::kFixedHeaderBytes));
  put_sum(bytes, kFixedSumAt, bytes.first(kFixedSumAt));
}

// The sums of the parts too, as far as their bytes are there. Precondition: fix_header().
inline void fix_parts(MutableByteSpan bytes) {
  const auto header = format::decode_header(bytes);
  if (!header) return;
  for (std::size_t i = 0; i < header->parts.size(); ++i) {
    const auto place = format::find_part(*header, header->parts[i].kind);
    if (place->offset > bytes.size() || place->part.size_bytes > bytes.size() - place->offset) continue;
    const Checksum sum = format::part_checksum(header->fingerprint, header->name, place->part.kind,
                                               bytes.subspan(place->offset, place->part.size_bytes));
    std::byte* const at = bytes.data() + format::kFixedHeaderBytes + i * format::kPartEntryBytes + 16;
    format::store_little_endian(sum.low, at);
    format::store_little_endian(sum.high, at + sizeof sum.low);
  }
  fix_header(bytes);
}

}  // namespace kvkeep::fuzz
