#pragma once

// Bytes <-> structs of a segment file (docs/format.md has the layout and a worked example).
//
// One immutable, self-describing file holds the state of one run [begin, end) of one prefix: rows of attention
// layers, rows of window layers, or the state at one position that rows cannot give (then begin == end). It is named by
// the prefix hashes at both ends under one fingerprint, and it carries its token ids, so that what is read back can be
// compared with what was asked for. Pure: no I/O here.

#include <cstdint>
#include <string>
#include <vector>

#include "base/checksum.h"
#include "base/hash.h"
#include "base/result.h"
#include "base/types.h"

namespace kvkeep::format {

inline constexpr std::uint32_t kFormatVersion = 1;
inline constexpr std::size_t kMaxSegmentTokens = 2048;
inline constexpr std::uint64_t kMaxPartBytes = 1ull << 32;  // a limit for readers, far above any segment

// What a part of the payload is. Numbers are on disk: never reuse one.
enum class PartKind : std::uint32_t {
  kRows = 1,        // rows of full-attention layers, one per token of the range
  kWindowRows = 2,  // rows of sliding-window layers (may be absent or cover a suffix of the range)
  kPoint = 3,       // state at `end` that rows cannot give (recurrent state)
  kWhole = 4,       // the whole state at `end` (opaque models)
};

struct Part {
  PartKind kind = PartKind::kRows;
  std::uint64_t size_bytes = 0;
  Checksum sum;  // over the segment's identity and the part's bytes: see part_checksum
  auto operator<=>(const Part&) const = delete;
  bool operator==(const Part&) const = default;
};

// The name of a segment: unique under one fingerprint.
struct SegmentName {
  Position begin;
  Position end;
  PrefixHash begin_hash;  // h(begin)
  PrefixHash end_hash;    // h(end)
  bool operator==(const SegmentName&) const = default;
};

struct SegmentHeader {
  FingerprintHash fingerprint;
  SegmentName name;
  std::vector<TokenId> tokens;  // end - begin ids; at a point (begin == end): empty
  std::vector<Part> parts;      // in payload order
  bool operator==(const SegmentHeader&) const = default;
};

// The sum of a part, seeded with fingerprint, name and kind: bytes that belong to another segment never pass.
Checksum part_checksum(const FingerprintHash& fingerprint, const SegmentName& name, PartKind kind, ByteSpan bytes);

// "<begin_hash 16 bytes hex>-<end_hash 16 bytes hex>.kvs"; never contains a separator.
std::string file_name(const SegmentName& name);

// Header bytes, checksum of the header included. Precondition: tokens and parts within the limits.
std::vector<std::byte> encode_header(const SegmentHeader& header);

// kDamaged: magic, version, lengths, limits or the header's checksum are wrong. Never throws, never reads outside.
// `bytes` must begin at offset 0 of the file and may be longer than the header; if it is shorter, kNotFound with the
// needed size is not used: call header_size on the fixed first bytes to know how much to read.
Result<SegmentHeader> decode_header(ByteSpan bytes);

inline constexpr std::size_t kFixedHeaderBytes = 256;
// Size of the whole header, from its first kFixedHeaderBytes bytes. kDamaged as above.
Result<std::size_t> header_size(ByteSpan fixed_bytes);

}  // namespace kvkeep::format
